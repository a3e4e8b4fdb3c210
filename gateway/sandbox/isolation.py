"""Bubblewrap: whether it works on this machine, and the walls that everything put into it has.

A gateway that is root has bubblewrap set the walls up as root. Then `unprivileged.py` becomes a
user of the host that owns nothing else. Any other gateway has it make a user namespace.
"""

import json
import os
import platform
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gateway.home import write_private
from gateway.live_settings import settings
from gateway.sandbox import host_users, unprivileged
from gateway.sandbox.cgroups import Bounds, new_group
from gateway.sandbox.seccomp import filter_program
from gateway.sandbox.unprivileged import INFO, LIFE

BUBBLEWRAP, NONE = "bubblewrap", "none"
TRIAL_S: Final = 10.0
RETRY_S: Final = 60.0
# What programs need of /etc: where shared libraries and alternatives are.
ETC: Final = ("/etc/ld.so.cache", "/etc/alternatives")
# A shell's words: a group of processes to enter or nothing, options of `ulimit` with their amounts,
# `--`, and the command to begin.
BEGIN: Final = (
    '[ -z "$1" ] || echo $$ >"$1/cgroup.procs" || exit 2; shift; '
    'while [ "$1" != -- ]; do ulimit "$1" "$2" || exit 2; shift 2; done; shift; exec "$@" 9<"$0"'
)
_INIT: Final = "/init.py"
# Of /proc, what speaks of the whole machine: its keys, its memory, its devices, its settings.
_HIDDEN: Final = (
    *("acpi", "asound", "bus", "fs", "irq", "scsi", "sys"),
    *("kcore", "keys", "kmsg", "kallsyms", "latency_stats", "modules", "sched_debug"),
    *("sysrq-trigger", "timer_list", "timer_stats", "vmallocinfo"),
)
_SYSTEM: Final = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64")


@dataclass(frozen=True)
class Isolation:
    """What keeps a program from the host, and why it is no more than that."""

    name: str
    reason: str = ""

    @property
    def is_none(self) -> bool:
        return self.name == NONE


class Trial:
    """Which isolation this machine gives a command: tried once, and again a while after it failed.

    `command` makes the command of the trial, given bubblewrap's path; it must end with success.
    """

    def __init__(
        self, command: Callable[[str], Sequence[str]], report: Callable[[Isolation], None]
    ) -> None:
        self._command = command
        self._report = report
        self._lock = threading.Lock()
        self._found: Isolation | None = None
        self._found_at = 0.0

    def look(self) -> Isolation:
        with self._lock:
            is_old = time.monotonic() - self._found_at > RETRY_S
            if self._found is None or (self._found.is_none and is_old):
                self._found = try_isolation(self._command)
                self._found_at = time.monotonic()
                self._report(self._found)
            return self._found


def try_isolation(command: Callable[[str], Sequence[str]]) -> Isolation:
    """See `Trial`; now."""
    program = shutil.which("bwrap")
    if program is None:
        return Isolation(NONE, "bubblewrap (bwrap) is not installed")
    if filter_program(platform.machine()) is None:
        return Isolation(NONE, f"no filter of system calls is known for {platform.machine()}")
    if host_users.is_root() and (why := host_users.explain_missing_users(settings.SANDBOX_UIDS)):
        return Isolation(NONE, why)
    life, owned = unprivileged.pipe()
    try:
        trial = subprocess.run(  # noqa: S603 - Our own words.
            [word.replace(INFO, "1").replace(LIFE, str(life)) for word in command(program)],
            pass_fds=(life,),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=TRIAL_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Isolation(NONE, f"bubblewrap does not work here: {error}")
    finally:
        os.close(life)
        os.close(owned)
    if trial.returncode:
        lines = trial.stderr.decode("utf-8", "replace").strip().splitlines()
        return Isolation(
            NONE, f"bubblewrap does not work here: {lines[-1] if lines else 'it failed'}"
        )
    return Isolation(BUBBLEWRAP)


def system_programs() -> list[str]:
    """The system's programs; links such as /bin stay links where /usr has it all."""
    words: list[str] = []
    for name in _SYSTEM:
        place = Path(name)
        if place.is_symlink():
            words += ["--symlink", str(place.readlink()), name]
        elif place.is_dir():
            words += ["--ro-bind", name, name]
    return words


def bind(source: str | Path, place: str | Path, *, how: str = "--ro-bind") -> list[str]:
    """Something of the host at a place inside. Bubblewrap makes folders on the way to it for root
    alone, so they are made here."""
    folders = [str(folder) for folder in reversed(Path(place).parents[:-1])]
    return [
        *(word for folder in folders for word in ("--perms", "0755", "--dir", folder)),
        *(how, str(source), str(place)),
    ]


def read_only_if_there(names: Sequence[str]) -> list[str]:
    return [word for name in names for word in bind(name, name, how="--ro-bind-try")]


def nobody(user: int, host_name: str, *, has_network: bool = False) -> list[str]:
    """No network, no other process, no privileges, no user but one of its own; it ends with whoever
    started it."""
    if host_users.is_root():
        # In the host's user namespace. The init needs two rights to leave root, and then has none.
        rights = ["--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
    else:
        identity = ["--uid", str(user), "--gid", str(user)]
        rights = ["--unshare-user", "--disable-userns", *identity, "--cap-drop", "ALL"]
    return [
        *("--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try"),
        *([] if has_network else ["--unshare-net"]),
        *rights,
        *("--new-session", "--die-with-parent", "--hostname", host_name, "--as-pid-1"),
    ]


def processes_file_system() -> list[str]:
    """/proc without what speaks of the whole machine. Files there go by the host's user, so what
    remains is read-only too."""
    hidden = [name for name in _HIDDEN if Path("/proc", name).exists()]
    words = ["--proc", "/proc"]
    for name in hidden:
        place = f"/proc/{name}"
        if Path(place).is_dir():
            words += ["--tmpfs", place, "--remount-ro", place]
        else:
            words += ["--ro-bind", "/dev/null", place]
    return [*words, "--remount-ro", "/proc"]


def memory_folder(place: str, size_bytes: int) -> list[str]:
    """A folder in memory that is full at that size, and anybody's."""
    return ["--perms", "1777", "--size", str(size_bytes), "--tmpfs", place]


def init_program() -> list[str]:
    """What puts the sandbox's first process where `with_init` looks for it."""
    return bind(Path(unprivileged.__file__).resolve(), _INIT)


def with_init(
    python: str, command: Sequence[str], *, uid: int | None, processes: int, folder: str = "/"
) -> list[str]:
    """`command` as the child of a sandbox's first process, in a folder inside. `python` is an
    interpreter inside, `uid` the host's user that a root gateway gives it."""
    limits = {"uid": uid, "processes": processes, "folder": folder, "life": LIFE}
    return [python, "-I", "-S", _INIT, "init", json.dumps(limits), *command]


def bound_sandbox(
    walls: Sequence[str], *, limits: Mapping[str, int] | None = None, whole: Bounds | None = None
) -> list[str]:
    """The command that starts bubblewrap (`walls`) bounded and filtered from its first moment.

    `limits` are the shell's: letters of `ulimit` with their amounts, in its own units. `whole` are
    those of all processes together, set where the machine lets us. The filter is open for
    bubblewrap as file 9. The starter puts numbers of pipes in the places of `INFO`, which
    `first_process` reads, and `LIFE`.
    """
    bounds = [word for letter, most in (limits or {}).items() for word in (f"-{letter}", str(most))]
    program, *options = walls
    filtered = [program, "--seccomp", "9", "--info-fd", INFO, *options]
    group = None if whole is None else new_group(whole)
    # The filter of system calls, as a file that bubblewrap can be given.
    bytecode = filter_program(platform.machine())
    assert bytecode is not None
    file = Path(settings.GATEWAY_HOME) / "run" / "seccomp.bpf"
    if not file.exists() or file.read_bytes() != bytecode:
        write_private(file, bytecode)
    begin = ["/bin/sh", "-c", BEGIN, str(file), "" if group is None else str(group)]
    return [*begin, *bounds, "--", *filtered]
