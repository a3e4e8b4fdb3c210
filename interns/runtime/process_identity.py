"""Processes known by more than their number, because numbers are used again.

Imports nothing but the standard library: the supervisor uses it too.
"""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

POLL_S = 0.02
_ZOMBIE = "Z"


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """A process: its number and when it began, the latter in the words of this machine's boot."""

    pid: int
    began: str

    def is_alive(self) -> bool:
        """Whether this very process still runs; one that only waits to be reaped does not."""
        return identify_process(self.pid) == self

    def signal(self, number: int) -> None:
        """Send a signal to the process, if it lives."""
        if self.is_alive():
            with suppress(ProcessLookupError, PermissionError):
                os.kill(self.pid, number)

    def kill_group(self) -> None:
        """SIGKILL to the process and to all of the group that it leads."""
        if self.is_alive():
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)
            with suppress(ProcessLookupError, PermissionError):
                os.kill(self.pid, signal.SIGKILL)

    def wait(self, wait_s: float) -> bool:
        """Wait for its end; whether it came in time."""
        deadline = time.monotonic() + wait_s
        while self.is_alive():
            if time.monotonic() >= deadline:
                return False
            time.sleep(POLL_S)
        return True


def identify_process(pid: int) -> ProcessIdentity | None:
    """The process of this number, None when there is none or it has ended."""
    began = _read_start_on_linux(pid) if sys.platform == "linux" else _read_start_elsewhere(pid)
    return None if began is None else ProcessIdentity(pid, began)


def _read_start_on_linux(pid: int) -> str | None:
    try:
        # The name in parentheses may itself contain spaces and parentheses.
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        fields_after_name = fields.rpartition(")")[2].split()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return None
    state, ticks = fields_after_name[0], fields_after_name[19]
    return None if state in (_ZOMBIE, "X") else f"{boot}:{ticks}"


def _read_start_elsewhere(pid: int) -> str | None:
    command = ["/bin/ps", "-o", "state=,lstart=", "-p", str(pid)]
    shown = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - A number.
    state, _, began = shown.stdout.strip().partition(" ")
    return None if not began or state.startswith(_ZOMBIE) else began.strip()
