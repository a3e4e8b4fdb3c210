"""Debian's own tools in tests: packages, a root by mmdebstrap, and containers of podman.

Tests that use them are nightly: what is missing is installed where root may, else they skip.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from tests.support.manage import PROJECT

# Of a kind that takes minutes to make; kept for later runs on the same machine.
STORE: Final = Path(tempfile.gettempdir()) / "gateway-containers"
RELEASE: Final = "bookworm"
# What a machine and the stand-ins of other projects' images need, beside the gateway's own base.
PACKAGES: Final = (
    *("python3", "python3-venv", "ca-certificates", "systemd-sysv", "dbus"),
    *("postgresql", "redis-server", "caddy", "bubblewrap", "openssl", "curl"),
)
# Other packages make another root.
_DIGEST: Final = hashlib.sha256(" ".join(PACKAGES).encode()).hexdigest()[:8]
# Engines ask for more open files than a machine may give.
LIMITS: Final = ("--ulimit", "nofile=4096:4096", "--ulimit", "nproc=4096:4096")


def need(**packages: str) -> None:
    """Have these commands, each from the package of that name. Skips the test without them."""
    missing = sorted({p for c, p in packages.items() if shutil.which(c.replace("_", "-")) is None})
    if not missing:
        return
    if os.geteuid() or shutil.which("apt-get") is None:
        pytest.skip(f"not installed: {', '.join(missing)}")
    with _locked("apt"):
        env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for words in (["update"], ["install", "-y", "--no-install-recommends", *missing]):
            done = subprocess.run(["apt-get", "-qq", *words], env=env, capture_output=True)
        if done.returncode:
            pytest.skip(f"cannot be installed: {', '.join(missing)}")


def build_wheel(folder: Path) -> Path:
    """The project's wheel, made with what the development lock has."""
    uv = Path(sys.executable).with_name("uv")
    run([uv, "build", "--offline", "--quiet", "--wheel", "--out-dir", folder, PROJECT])
    return next(folder.glob("*.whl"))


@cache
def root_archive() -> Path:
    """A Debian root with `PACKAGES`, as a tar."""
    need(mmdebstrap="mmdebstrap")
    STORE.mkdir(exist_ok=True)
    file = STORE / f"root-{_DIGEST}.tar"
    with _locked("root"):
        if not file.exists():
            begun = file.with_suffix(".new.tar")
            include = f"--include={','.join(PACKAGES)}"
            run(["mmdebstrap", "--quiet", "--variant=minbase", include, RELEASE, begun])
            begun.rename(file)
    return file


@cache
def base_image() -> str:
    """That root as an image."""
    need(podman="podman", runc="runc", buildah="buildah")
    name = f"localhost/gateway-test-base:{_DIGEST}"
    archive = root_archive()
    with _locked("image"):
        known = subprocess.run(["podman", "image", "exists", name], check=False)
        if known.returncode:
            run(["podman", "import", "--quiet", archive, name])
    return name


@cache
def gateway_image() -> str:
    """`deploy/Containerfile` on that base."""
    base, name = base_image(), "localhost/gateway-test:1"
    STORE.mkdir(exist_ok=True)
    options = ["--isolation", "chroot", "--format", "docker", "--build-arg", f"BASE={base}"]
    # Where a certificate of its own stands before the package index, pip must know it.
    if certificate := os.environ.get("PIP_CERT"):
        config = STORE / "pip.conf"
        config.write_text("[global]\ncert = /etc/ssl/of-the-host.pem\n")
        options += ["--volume", f"{certificate}:/etc/ssl/of-the-host.pem:ro"]
        options += ["--volume", f"{config}:/etc/pip.conf:ro"]
    file = PROJECT / "deploy" / "Containerfile"
    with _locked("image"):
        run(["buildah", "build", "--quiet", "--layers", *options, "-f", file, "-t", name, PROJECT])
    return name


def podman(*words: str | Path) -> str:
    """A command of podman; what it wrote to stdout."""
    return run(["podman", "--runtime", "runc", *words])


def container(image: str, *words: str, options: Sequence[str | Path] = ()) -> str:
    """Run a command in a new container to its end; its output."""
    return podman("run", "--rm", *LIMITS, *options, image, *words)


def run(command: Sequence[str | Path]) -> str:
    """A command that must succeed; what it wrote to stdout."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return done.stdout.strip()


class _locked:
    """One process at a time, of all that test on this machine."""

    def __init__(self, name: str) -> None:
        STORE.mkdir(exist_ok=True)
        self._file = (STORE / f"{name}.lock").open("a")

    def __enter__(self) -> None:
        fcntl.flock(self._file, fcntl.LOCK_EX)

    def __exit__(self, *_: object) -> None:
        self._file.close()
