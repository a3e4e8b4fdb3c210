"""A container engine for tests: Podman on a socket of its own. Its base image is made of this
machine's Python, because nothing can be fetched."""

import io
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import distribution, packages_distributions
from pathlib import Path

from tests.support.manage import PROJECT

PROGRAMS = ("sh", "cat", "ls", "id", "touch", "sleep", "true", "grep", "rm", "mkdir", "chown")
START_S = 20.0
BASE = "localhost/gateway-intern-base:test"
# The defaults are more than a machine inside another one may grant.
_LIMITS = '[containers]\ndefault_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]\n'
# Loaded and asked for what they stand on.
_AGENT = (
    "import sys, uvicorn, httptools, interns.agent.server, interns.agent.runs, openai; "
    "openai.AsyncOpenAI(api_key='none').chat.completions; "
    "print(*sorted({m.partition('.')[0] for m in sys.modules}))"
)


class Podman:
    """Started in a folder of its own; images, containers and volumes end with it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = f"unix://{folder / 'p.sock'}"
        options = ["--runtime", "runc", "--cgroup-manager", "cgroupfs", "--storage-driver", "vfs"]
        places = ["--root", folder / "root", "--runroot", folder / "run"]
        self._command = ["podman", *options, *map(str, places)]
        self._service: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        (self.folder / "containers.conf").write_text(_LIMITS)
        environment = os.environ | {"CONTAINERS_CONF": str(self.folder / "containers.conf")}
        with (self.folder / "log").open("wb") as log:
            self._service = subprocess.Popen(
                [*self._command, "system", "service", "--time=0", self.url],
                stderr=log,
                env=environment,
            )
        deadline = time.monotonic() + START_S
        while not (self.folder / "p.sock").exists():
            assert time.monotonic() < deadline, (self.folder / "log").read_text()
            time.sleep(0.05)

    def stop(self) -> None:
        subprocess.run([*self._command, "rm", "--all", "--force"], check=False, capture_output=True)
        if self._service is not None:
            self._service.terminate()
            self._service.wait(20)
        # Its mounts have to go before its folder does.
        subprocess.run([*self._command, "unshare", "true"], check=False, capture_output=True)
        shutil.rmtree(self.folder, ignore_errors=True)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """It takes connections meanwhile, and answers none."""
        assert self._service is not None
        self._service.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._service.send_signal(signal.SIGCONT)

    def load_base(self) -> None:
        """Import the base image."""
        made = self.folder / "base.tar"
        with made.open("wb") as file:
            write_base(file)
        subprocess.run([*self._command, "import", str(made), BASE], check=True, capture_output=True)
        made.unlink()


def why_not() -> str:
    """Why there is no engine here; empty where there is one."""
    for program in ("podman", "runc"):
        if shutil.which(program) is None:
            return f"{program} is not installed"
    if os.geteuid():
        return "it needs root"
    if not Path(f"/usr/bin/python3.{sys.version_info.minor}").exists():
        return "the system's Python is another version than this one"
    return ""


def write_base(into: io.BufferedWriter) -> None:
    """A root filesystem with the system's Python, a few programs and the agent's libraries."""
    version = f"python3.{sys.version_info.minor}"
    library = Path("/usr/lib") / version
    programs = [Path(f"/usr/bin/{name}") for name in PROGRAMS] + [Path(f"/usr/bin/{version}")]
    packages = _packages()
    shared = [*programs, *library.rglob("*.so"), *(f for f in packages if ".so" in f.name)]
    files = {str(file): file for file in {*(p.resolve() for p in programs), *_libraries(shared)}}
    files["/usr/lib64/ld-linux-x86-64.so.2"] = Path("/lib64/ld-linux-x86-64.so.2").resolve()
    site, into_site = _site(), f"/usr/local/lib/{version}/dist-packages"
    files |= {f"{into_site}/{file.relative_to(site)}": file for file in packages}
    links = {f"/{name}": f"usr/{name}" for name in ("bin", "lib", "lib64")}
    links |= {str(p): str(p.resolve()) for p in programs if p.is_symlink()}
    links["/usr/bin/python3"] = version
    with tarfile.open(fileobj=into, mode="w") as tar:
        tar.add(library, str(library), filter=_without_tests)
        for name, target in links.items():
            tar.addfile(_link(name.lstrip("/"), target))
        for name, file in files.items():
            if name not in links and not file.is_relative_to(library):
                tar.add(file.resolve(), name)
        for name in ("tmp", "run", "etc", "proc", "dev", "sys"):
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(entry)


def _site() -> Path:
    version = f"python3.{sys.version_info.minor}"
    return Path(sys.prefix).resolve() / "lib" / version / "site-packages"


def _link(name: str, target: str) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = tarfile.SYMTYPE, target
    return entry


def _without_tests(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if "/test/" in entry.name or "__pycache__" in entry.name else entry


def _packages() -> list[Path]:
    """The files of every distribution that the agent loads."""
    told = subprocess.run(
        [sys.executable, "-c", _AGENT], capture_output=True, text=True, check=True, cwd=PROJECT
    )
    known = packages_distributions()
    names = {name for module in told.stdout.split() for name in known.get(module, ())}
    files = {
        Path(str(file.locate())).resolve()
        for name in names
        for file in distribution(name).files or ()
        if "__pycache__" not in str(file)
    }
    return sorted(f for f in files if f.is_relative_to(_site()) and f.is_file())


def _libraries(binaries: list[Path]) -> set[Path]:
    """The shared libraries of the system that they need, by the names they ask for."""
    told = subprocess.run(["ldd", *map(str, binaries)], capture_output=True, text=True, check=False)
    words = (line.split("=>")[-1].split()[:1] for line in told.stdout.splitlines() if "/" in line)
    paths = {Path(word[0]) for word in words if word and word[0].startswith("/lib")}
    return {Path("/usr") / path.relative_to("/") for path in paths}
