"""The sandbox of a workspace: what there is inside, and whether it works here."""

import json
import logging
import shutil
import sys
from pathlib import Path
from typing import Final

from gateway.isolation import (
    BUBBLEWRAP,
    ETC,
    NONE,
    Isolation,
    Trial,
    nobody,
    read_only_if_there,
    system_programs,
)
from gateway.live_settings import settings

log = logging.getLogger("gateway.tools")

WORK: Final = "/workspace"
_USER: Final = 1000
_SHARED_MEMORY_BYTES: Final = 16 * 1_048_576
# Of the gateway nothing else is there.
_PROGRAM: Final = "/program"
_MODULES: Final = ("inside.py", "diffs.py")
_BEGIN: Final = f"""
import sys
sys.path.append({_PROGRAM!r})
from routing.tools.inside import main
main()
"""
_SHELLS: Final = ("/bin/bash", "/bin/sh")
_TRIAL: Final = "import ctypes, json, resource, select, struct, subprocess"


def isolation() -> Isolation:
    """What a workspace made now would get."""
    if settings.ROUTER_SHELL == "off":
        return Isolation(NONE, "ROUTER_SHELL is off")
    return _TRIED.look()


def is_there() -> bool:
    return isolation().name == BUBBLEWRAP


def wrapped() -> list[str]:
    """The command of a new workspace."""
    program = shutil.which("bwrap")
    if program is None:
        raise FileNotFoundError("bwrap")
    inside = [word for name in _MODULES for word in _module(name)]
    return [*_walls(program, inside), *_python(), "-c", _BEGIN, json.dumps(_limits())]


def _module(name: str) -> list[str]:
    here = Path(__file__).with_name(name)
    return ["--ro-bind", str(here), f"{_PROGRAM}/routing/tools/{name}"]


def _limits() -> dict[str, int | str]:
    return {
        "shell": next((shell for shell in _SHELLS if Path(shell).exists()), _SHELLS[-1]),
        "memory_bytes": settings.ROUTER_SHELL_MEMORY_BYTES,
        "disk_bytes": settings.ROUTER_SHELL_DISK_BYTES,
        "processes": settings.ROUTER_SHELL_PROCESSES,
    }


def _walls(program: str, inside: list[str]) -> list[str]:
    disk = str(settings.ROUTER_SHELL_DISK_BYTES)
    return [
        program,
        "--unshare-all",
        *nobody(_USER, "workspace"),
        *system_programs(),
        *_interpreter(),
        *read_only_if_there(ETC),
        *inside,
        *("--proc", "/proc", "--dev", "/dev"),
        *("--size", str(_SHARED_MEMORY_BYTES), "--tmpfs", "/dev/shm"),  # noqa: S108 - Its own.
        *("--size", disk, "--tmpfs", "/tmp"),  # noqa: S108 - Its own, inside.
        *("--size", disk, "--tmpfs", WORK),
        # All else is in memory too, and nobody bounds it.
        *("--remount-ro", "/dev", "--remount-ro", "/"),
        "--clearenv",
        *("--setenv", "PATH", "/usr/local/bin:/usr/bin:/bin"),
        *("--setenv", "LANG", "C.UTF-8"),
        *("--setenv", "HOME", WORK),
        *("--chdir", WORK),
    ]


def _interpreter() -> list[str]:
    """Python without the gateway's libraries, where it is not the system's anyway."""
    base = Path(sys.base_prefix).resolve()
    return [] if base.is_relative_to("/usr") else ["--ro-bind", str(base), str(base)]


def _python() -> list[str]:
    base = Path(sys.base_prefix).resolve() / "bin"
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return [str(base / name), "-I", "-S"]


def _trial(program: str) -> list[str]:
    return [*_walls(program, []), *_python(), "-c", _TRIAL]


def _tell(found: Isolation) -> None:
    if found.is_none:
        log.warning("No server tool gets a shell: %s", found.reason)
    else:
        log.info("Shells of server tools run inside %s", found.name)


_TRIED: Final = Trial(_trial, _tell)
