"""Bubblewrap: whether it works here, and the command that puts an agent into it.

Inside there are the system's programs and Python's, read-only, the intern's own disk, and a Unix
socket of the gateway. No other file of the host, no other process, no network, no privileges.
"""

import compileall
import logging
import shutil
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from django.conf import settings

import interns
from gateway.doctor.findings import Finding, Question
from gateway.sandbox import host_users
from gateway.sandbox.cgroups import Bounds
from gateway.sandbox.isolation import (
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
from interns.runtime.supervisor import SOCKETS

log = logging.getLogger(__name__)

INSIDE_HOME = "/intern"
INSIDE_SOCKET = "/run/gateway.sock"
INSIDE_CODE = "/gateway"
INSIDE_USER = 1000
TMP_BYTES = 268_435_456
SHARED_MEMORY_BYTES = 67_108_864
# Bubblewrap and the first process, which are not the intern's.
OWN_PROCESSES = 4
NO_ISOLATION_TEXT = (
    "No isolation: interns run as plain processes of the gateway's user, without the shell tool"
)
NOT_AS_ROOT = "A gateway that runs as root starts no intern without a sandbox"
_ETC_FOR_NETWORK = (
    "/etc/resolv.conf",
    "/etc/hosts",
    "/etc/ssl",
    "/etc/ca-certificates",
    "/etc/pki",
)
_IMPORTS = "import encodings, socket, ssl"
# After all the mounts: what lies between them is in memory, and nobody bounds it.
_READ_ONLY_ROOT = ("--remount-ro", "/dev", "--remount-ro", "/")


class SandboxMissing(Exception):
    """There is no sandbox that works, and the operator or a root gateway insists on one."""


class Sandboxes:
    """Which isolation this machine gives: tried once, and again a while after it failed."""

    def __init__(self) -> None:
        self._trial = Trial(_build_trial, _log_isolation)

    def isolation(self) -> Isolation:
        """What agents started now get. Raises `SandboxMissing` where the operator wants more."""
        found = self.look()
        if found.is_none and settings.INTERN_SANDBOX == "required":
            raise SandboxMissing(f"INTERN_SANDBOX is required: {found.reason}")
        if found.is_none and host_users.is_root():
            raise SandboxMissing(f"{NOT_AS_ROOT}: {found.reason}")
        return found

    def look(self) -> Isolation:
        """As `isolation`, for those who only want to know."""
        if settings.INTERN_SANDBOX == "off":
            return Isolation(NONE, "INTERN_SANDBOX is off")
        return self._trial.look()


def _log_isolation(found: Isolation) -> None:
    if found.is_none:
        log.warning(
            "%s: %s", NOT_AS_ROOT if host_users.is_root() else NO_ISOLATION_TEXT, found.reason
        )
    else:
        log.info("Interns run inside %s", found.name)


def _build_trial(program: str) -> list[str]:
    # From inside, nothing compiled could be kept.
    agent = Path(interns.__file__).parent / "agent"
    compileall.compile_dir(agent, quiet=2)
    # Nor be read there by another user, as this process makes its files.
    with suppress(OSError):
        for place in (agent / "__pycache__", *agent.glob("__pycache__/*")):
            place.chmod(place.stat().st_mode | (0o055 if place.is_dir() else 0o044))
    return bound_sandbox(
        [
            *_build_walls(program),
            *_READ_ONLY_ROOT,
            *_wrap_python(["-c", _IMPORTS], host_users.find_trial_user()),
        ]
    )


def build_agent_command(disk: Path, uid: int | None, *, egress: bool) -> list[str]:
    """The command of an agent in its sandbox. `disk` has the folders `workspace` and `sessions`,
    which belong to `uid` where a root gateway gives it one."""
    program = shutil.which("bwrap")
    assert program is not None
    folders = [
        word
        for name in ("workspace", "sessions")
        for word in bind(disk / name, f"{INSIDE_HOME}/{name}", how="--bind")
    ]
    walls = [
        *_build_walls(program, egress=egress),
        *folders,
        *bind(f"{SOCKETS}/gateway.sock", INSIDE_SOCKET, how="--bind"),
        *_READ_ONLY_ROOT,
        *("--setenv", "HOME", f"{INSIDE_HOME}/workspace"),
    ]
    work = f"{INSIDE_HOME}/workspace"
    whole = Bounds(
        settings.INTERN_MEMORY_BYTES + TMP_BYTES + SHARED_MEMORY_BYTES,
        settings.INTERN_PROCESSES + OWN_PROCESSES,
        settings.INTERN_CPUS,
    )
    return bound_sandbox([*walls, *_wrap_python(["-m", "interns.agent"], uid, work)], whole=whole)


def _wrap_python(rest: list[str], uid: int | None, folder: str = "/") -> list[str]:
    """Python doing what `rest` says, as the child of the sandbox's first process."""
    python = str(Path(sys.prefix).resolve() / "bin" / Path(sys.executable).name)
    # `-P`: no folder of the intern's comes first.
    command = [python, "-s", "-P", *rest]
    processes = settings.INTERN_PROCESSES
    return with_init(python, command, uid=uid, processes=processes, folder=folder)


def _build_walls(program: str, *, egress: bool = False) -> list[str]:
    """Everything that is the same for all interns."""
    return [
        program,
        *nobody(INSIDE_USER, "intern", has_network=egress),
        *system_programs(),
        *read_only_if_there(ETC + (_ETC_FOR_NETWORK if egress else ())),
        *init_program(),
        *processes_file_system(),
        *("--dev", "/dev"),
        *memory_folder("/dev/shm", SHARED_MEMORY_BYTES),  # noqa: S108 - Its own.
        *memory_folder("/tmp", TMP_BYTES),  # noqa: S108 - Its own, inside.
        # After these two, which would hide a gateway that is installed below them.
        *_bind_code(),
        "--clearenv",
        *("--setenv", "PATH", "/usr/local/bin:/usr/bin:/bin"),
        *("--setenv", "LANG", "C.UTF-8"),
        *("--setenv", "PYTHONPATH", INSIDE_CODE),
        *("--setenv", "PYTHONDONTWRITEBYTECODE", "1"),
    ]


def _bind_code() -> list[str]:
    """Python with its libraries where they are, and of the gateway the agent's package alone."""
    package = Path(interns.__file__).parent
    libraries = {Path(place).resolve() for place in (sys.prefix, sys.base_prefix)}
    outside = [place for place in sorted(libraries) if not place.is_relative_to("/usr")]
    return [
        *(word for place in outside for word in bind(place, place)),
        *bind(package / "__init__.py", f"{INSIDE_CODE}/interns/__init__.py"),
        *bind(package / "agent", f"{INSIDE_CODE}/interns/agent"),
    ]


SANDBOXES = Sandboxes()


def examine_sandbox(question: Question) -> Iterator[Finding]:
    """What `manage.py doctor` says of the walls of interns."""
    if settings.INTERN_RUNTIME != "process":
        text = f"INTERN_RUNTIME is {settings.INTERN_RUNTIME}, which has walls of its own"
        yield Finding("sandbox", "unknown", text)
        return
    try:
        found = Sandboxes().isolation()
    except SandboxMissing as error:
        advice = "Install bubblewrap, and see docs/reference/interns-agent.md."
        yield Finding("sandbox", "warning", str(error), advice)
        return
    if found.is_none:
        advice = "Interns run as plain processes, and shells are refused."
        yield Finding("sandbox", "warning", found.reason, advice)
    else:
        yield Finding("sandbox", "ok", f"interns run inside {found.name}")
