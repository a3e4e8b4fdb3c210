"""The sandbox of a workspace: what there is inside, and whether it works here."""

import json
import logging
import shutil
import sys
from pathlib import Path
from typing import Final

from gateway.live_settings import settings
from gateway.sandbox import host_users
from gateway.sandbox.cgroups import Bounds
from gateway.sandbox.isolation import (
    BUBBLEWRAP,
    ETC,
    NONE,
    Isolation,
    Trial,
    bind,
    bound_sandbox,
    init_program,
    memory_folder,
    nobody,
    processes_file_system,
    read_only_if_there,
    system_programs,
    with_init,
)
from routing.tools.sandbox.program import ADDRESSES_PER_BYTE, OPEN_FILES

log = logging.getLogger("gateway.tools")

WORK: Final = "/workspace"
_USER: Final = 1000
# Of the sandbox itself, with room for those that a stopped command leaves for a moment.
_OWN_PROCESSES: Final = 16
_SHARED_MEMORY_BYTES: Final = 16 * 1_048_576
# Of the gateway nothing else is there.
_PROGRAM: Final = "/program"
_MODULES: Final = ("program.py", "diffs.py")
_BEGIN: Final = f"""
import sys
sys.path.append({_PROGRAM!r})
from routing.tools.sandbox.program import main
main()
"""
_SHELLS: Final = ("/bin/bash", "/bin/sh")
_TRIAL: Final = "import ctypes, json, resource, select, struct, subprocess"


def isolation() -> Isolation:
    """What a workspace made now would get."""
    if settings.ROUTER_SHELL == "off":
        return Isolation(NONE, "ROUTER_SHELL is off")
    return _TRIED.look()


def is_available() -> bool:
    return isolation().name == BUBBLEWRAP


def workspace_command(uid: int | None) -> list[str]:
    """The command of a new workspace, which runs as that user of the host if there is one."""
    program = shutil.which("bwrap")
    if program is None:
        raise FileNotFoundError("bwrap")
    inside: list[str] = []
    for name in _MODULES:
        module = f"{_PROGRAM}/routing/tools/sandbox/{name}"
        inside += bind(Path(__file__).with_name(name), module)
    limits = {
        "shell": next((shell for shell in _SHELLS if Path(shell).exists()), _SHELLS[-1]),
        "memory_bytes": settings.ROUTER_SHELL_MEMORY_BYTES,
        "disk_bytes": settings.ROUTER_SHELL_DISK_BYTES,
        "processes": settings.ROUTER_SHELL_PROCESSES,
    }
    return _sandbox_command(program, inside, uid, ["-c", _BEGIN, json.dumps(limits)])


def _sandbox_command(
    program: str, inside: list[str], uid: int | None, rest: list[str]
) -> list[str]:
    """The command of a sandbox in which Python does what `rest` says."""
    command = with_init(
        _python(),
        [_python(), "-I", "-S", *rest],
        uid=uid,
        processes=settings.ROUTER_SHELL_PROCESSES + _OWN_PROCESSES,
    )
    disk_bytes = settings.ROUTER_SHELL_DISK_BYTES
    # What `inside` sets for itself holds for bubblewrap too, in the shell's units.
    limits = {
        "c": 0,
        "n": OPEN_FILES,
        "v": ADDRESSES_PER_BYTE * settings.ROUTER_SHELL_MEMORY_BYTES // 1024,
        "f": disk_bytes // 512,
    }
    whole = Bounds(
        # The folders are in memory: the workspace and /tmp, each as large as the disk.
        settings.ROUTER_SHELL_MEMORY_BYTES + 2 * disk_bytes + _SHARED_MEMORY_BYTES,
        settings.ROUTER_SHELL_PROCESSES + _OWN_PROCESSES,
        settings.ROUTER_SHELL_CPUS,
    )
    return bound_sandbox([*_walls(program, inside), *command], limits=limits, whole=whole)


def _walls(program: str, inside: list[str]) -> list[str]:
    disk_bytes, base = settings.ROUTER_SHELL_DISK_BYTES, Path(sys.base_prefix).resolve()
    return [
        program,
        *nobody(_USER, "workspace"),
        *system_programs(),
        # Python without the gateway's libraries, where it is not the system's anyway.
        *([] if base.is_relative_to("/usr") else bind(base, base)),
        *read_only_if_there(ETC),
        *inside,
        *init_program(),
        *processes_file_system(),
        *("--dev", "/dev"),
        *memory_folder("/dev/shm", _SHARED_MEMORY_BYTES),  # noqa: S108 - Its own.
        *memory_folder("/tmp", disk_bytes),  # noqa: S108 - Its own, inside.
        *memory_folder(WORK, disk_bytes),
        # All else is in memory too, and nobody bounds it.
        *("--remount-ro", "/dev", "--remount-ro", "/"),
        "--clearenv",
        *("--setenv", "PATH", "/usr/local/bin:/usr/bin:/bin"),
        *("--setenv", "LANG", "C.UTF-8"),
        *("--setenv", "HOME", WORK),
        *("--chdir", WORK),
    ]


def _python() -> str:
    base = Path(sys.base_prefix).resolve() / "bin"
    return str(base / f"python{sys.version_info.major}.{sys.version_info.minor}")


def _trial(program: str) -> list[str]:
    return _sandbox_command(program, [], host_users.find_trial_user(), ["-c", _TRIAL])


def _report(found: Isolation) -> None:
    if found.is_none:
        log.warning("No server tool gets a shell: %s", found.reason)
    else:
        log.info("Shells of server tools run inside %s", found.name)


_TRIED: Final = Trial(_trial, _report)
