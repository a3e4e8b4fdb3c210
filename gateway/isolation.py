"""Bubblewrap: whether it works on this machine, and the walls that everything put into it has."""

import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

BUBBLEWRAP, NONE = "bubblewrap", "none"
TRIAL_S: Final = 10.0
RETRY_S: Final = 60.0
# What programs need of /etc: where shared libraries and alternatives are.
ETC: Final = ("/etc/ld.so.cache", "/etc/alternatives")
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
        self, command: Callable[[str], Sequence[str]], tell: Callable[[Isolation], None]
    ) -> None:
        self._command = command
        self._tell = tell
        self._lock = threading.Lock()
        self._found: Isolation | None = None
        self._found_at = 0.0

    def look(self) -> Isolation:
        with self._lock:
            is_old = time.monotonic() - self._found_at > RETRY_S
            if self._found is None or (self._found.is_none and is_old):
                self._found = tried(self._command)
                self._found_at = time.monotonic()
                self._tell(self._found)
            return self._found


def tried(command: Callable[[str], Sequence[str]]) -> Isolation:
    """See `Trial`; now."""
    program = shutil.which("bwrap")
    if program is None:
        return Isolation(NONE, "bubblewrap (bwrap) is not installed")
    try:
        trial = subprocess.run(  # noqa: S603 - Our own words.
            command(program),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=TRIAL_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Isolation(NONE, f"bubblewrap does not work here: {error}")
    if trial.returncode:
        said = trial.stderr.decode("utf-8", "replace").strip().splitlines()
        return Isolation(
            NONE, f"bubblewrap does not work here: {said[-1] if said else 'it failed'}"
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


def read_only_if_there(names: Sequence[str]) -> list[str]:
    return [word for name in names for word in ("--ro-bind-try", name, name)]


def nobody(user: int, host_name: str) -> list[str]:
    """No network, no other process, no privileges, no user but one of its own; it ends with whoever
    started it."""
    return [
        *("--unshare-user", "--disable-userns", "--uid", str(user), "--gid", str(user)),
        *("--cap-drop", "ALL", "--new-session", "--die-with-parent", "--hostname", host_name),
    ]
