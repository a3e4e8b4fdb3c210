"""The image that container runtimes use, built from this project where the operator names none."""

import hashlib
import io
import tarfile
from pathlib import Path

import docker
from django.conf import settings
from docker.errors import BuildError, DockerException, ImageNotFound

import interns
from interns.runtime.driver import ImageUnavailable

HERE = Path(__file__).parent
REPOSITORY = "gateway-intern"


def ensure_image(engine: docker.DockerClient) -> str:
    """The name of an image that is there: the operator's, else ours, built once for each version.

    Raises `ImageUnavailable`.
    """
    wanted: str = settings.INTERN_CONTAINER_IMAGE
    try:
        return _pull_image(engine, wanted) if wanted else _build_image(engine)
    except (BuildError, DockerException) as error:
        raise ImageUnavailable(f"the image cannot be had: {error}"[:500]) from error


def _pull_image(engine: docker.DockerClient, name: str) -> str:
    try:
        engine.images.get(name)
    except ImageNotFound:
        engine.images.pull(name)
    return name


def _build_image(engine: docker.DockerClient) -> str:
    context = build_context()
    base = settings.INTERN_CONTAINER_BASE
    version = hashlib.sha256(context + base.encode()).hexdigest()[:16]
    name = f"{REPOSITORY}:{version}"
    try:
        engine.images.get(name)
    except ImageNotFound:
        arguments = {"BASE": base} if base else {}
        engine.images.build(
            fileobj=io.BytesIO(context),
            custom_context=True,
            tag=name,
            rm=True,
            forcerm=True,
            buildargs=arguments,
        )
    return name


def build_context() -> bytes:
    """What the image is made of, as a tar that is the same for the same files."""
    package = Path(interns.__file__).parent
    files = {
        "Dockerfile": HERE / "Dockerfile",
        "requirements.txt": HERE / "requirements.lock",
        "interns/__init__.py": package / "__init__.py",
        **{f"interns/agent/{file.name}": file for file in sorted(package.glob("agent/*.py"))},
    }
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, file in files.items():
            content = file.read_bytes()
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o644
            tar.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()
