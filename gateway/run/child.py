"""One supervised process: started, watched, restarted with back-off, stopped. And orphans: what a
killed child leaves, and interns' supervisors.

Linux hands orphans to our supervisor once it has asked for them; elsewhere each notices the
supervisor's end by itself.
"""

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from gateway.home import PROJECT

BACK_OFF_FIRST_S = 0.5
BACK_OFF_MAX_S = 8.0
DEATHS_MAX = 5
DEATHS_WINDOW_S = 60.0
_PR_SET_PDEATHSIG = 1


class Restarts:
    """When a child that died may come back. Times are seconds of any steady clock."""

    def __init__(self) -> None:
        self._deaths: deque[float] = deque()

    def after_death(self, now: float) -> float | None:
        """The back-off in seconds, or None once it died five times within a minute."""
        self._deaths.append(now)
        while self._deaths[0] <= now - DEATHS_WINDOW_S:
            self._deaths.popleft()
        if len(self._deaths) >= DEATHS_MAX:
            return None
        return float(min(BACK_OFF_MAX_S, BACK_OFF_FIRST_S * 2 ** (len(self._deaths) - 1)))


def bound_to_parent(death_signal: int) -> Callable[[], None]:
    """For `preexec_fn`: the child gets `death_signal` when the supervisor's main thread ends.

    Only Linux has this; elsewhere a SIGKILL of the supervisor leaves children behind.
    """
    parent = os.getpid()
    prctl = ctypes.CDLL(None).prctl if sys.platform == "linux" else None

    def bind() -> None:
        if prctl is not None:
            prctl(_PR_SET_PDEATHSIG, death_signal)
        # The supervisor may have died before the line above.
        if os.getppid() != parent:
            os._exit(1)

    return bind


@dataclass(eq=False)
class Child:
    """`command` is asked anew at each start. `environment` is the child's whole environment.

    `death_signal` reaches it when the supervisor is killed, `stop_signal` when it is to end. Its
    stdout goes to our stderr, to a pipe (`pipes`) or nowhere (`quiet`).
    """

    name: str
    command: Callable[[], Sequence[object]]
    environment: dict[str, str]
    death_signal: int = signal.SIGTERM
    stop_signal: int = signal.SIGTERM
    pass_fds: tuple[int, ...] = ()
    pipes: bool = False
    quiet: bool = False
    restarts: Restarts = field(default_factory=Restarts)
    restart_at: float | None = None
    _process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the process in a group of its own, so that the terminal's Ctrl-C passes it by."""
        self.restart_at = None
        if self.quiet:
            stdout: int | IO[str] = subprocess.DEVNULL
        else:
            stdout = subprocess.PIPE if self.pipes else sys.stderr
        self._process = subprocess.Popen(  # noqa: S603 - Commands are built from our own parts.
            [str(word) for word in self.command()],
            stdin=subprocess.PIPE if self.pipes else subprocess.DEVNULL,
            stdout=stdout,
            env=self.environment,
            cwd=PROJECT,
            pass_fds=self.pass_fds,
            start_new_session=True,
            preexec_fn=bound_to_parent(self.death_signal),
        )

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    @property
    def stdin(self) -> IO[Any]:
        assert self._process is not None
        assert self._process.stdin is not None
        return self._process.stdin

    @property
    def stdout(self) -> IO[Any]:
        assert self._process is not None
        assert self._process.stdout is not None
        return self._process.stdout

    def death(self) -> int | None:
        """The exit status, once, when the process has ended since the last look."""
        if self._process is None or self._process.poll() is None:
            return None
        status = self._process.returncode
        # Its own children, such as gunicorn's workers, would otherwise find out by themselves.
        self._signal_group(signal.SIGTERM)
        self._process = None
        return status

    def runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def ask_to_stop(self) -> None:
        self.restart_at = None
        if self._process is not None and self.runs():
            self._process.send_signal(self.stop_signal)

    def end(self) -> None:
        """SIGKILL to whatever is left of its group, and wait for it."""
        if self._process is not None:
            self._signal_group(signal.SIGKILL)
            self._process.wait()

    def _signal_group(self, number: int) -> None:
        assert self._process is not None
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)


_PR_SET_CHILD_SUBREAPER = 36
LOOK_S = 0.05
# Past a SIGKILL: who has not ended by then waits for a device.
KILL_S = 0.5


def adopt_orphans() -> None:
    """From now on, who loses a parent below this process becomes its child."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)


def reap_orphans(known: Collection[int | None]) -> None:
    """Take the status of those that ended. Whose number is known has somebody who waits for it."""
    with suppress(ChildProcessError):
        while ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            if ended.si_pid in known:
                return
            os.waitpid(ended.si_pid, 0)


def end_orphans(grace_s: float, wait: Callable[[float], None]) -> None:
    """SIGTERM to all, SIGKILL past the grace; `wait` sleeps at most as long as it is asked."""
    deadline = time.monotonic() + grace_s
    number = signal.SIGTERM
    asked: set[int] = set()
    while (children := _read_children()) and time.monotonic() < deadline + KILL_S:
        if number == signal.SIGTERM and time.monotonic() >= deadline:
            number, asked = signal.SIGKILL, set()
        for pid in children - asked:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)
        asked |= children
        wait(LOOK_S)
        reap_orphans(())


def _read_children() -> set[int]:
    me = str(os.getpid())
    found = set()
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            # The name in parentheses may itself contain spaces and parentheses.
            state_and_parent = entry.read_text(errors="replace").rpartition(")")[2].split()[:2]
            if state_and_parent[1] == me:
                found.add(int(entry.parent.name))
    return found
