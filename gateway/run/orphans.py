"""Processes of a run whose own parent ended: interns' keepers, and what a killed child leaves.

Linux hands them to the supervisor once it has asked for them; elsewhere each notices the
supervisor's end by itself.
"""

import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36
LOOK_S = 0.05
# Past a SIGKILL: who has not ended by then waits for a device.
KILL_S = 0.5


def adopt() -> None:
    """From now on, who loses a parent below this process becomes its child."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)


def reap(known: Collection[int | None]) -> None:
    """Take the status of those that ended. Whose number is known has somebody who waits for it."""
    with suppress(ChildProcessError):
        while ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            if ended.si_pid in known:
                return
            os.waitpid(ended.si_pid, 0)


def end(grace_s: float, wait: Callable[[float], None]) -> None:
    """SIGTERM to all, SIGKILL past the grace; `wait` sleeps at most so many seconds."""
    deadline = time.monotonic() + grace_s
    number = signal.SIGTERM
    asked: set[int] = set()
    while (children := _children()) and time.monotonic() < deadline + KILL_S:
        if number == signal.SIGTERM and time.monotonic() >= deadline:
            number, asked = signal.SIGKILL, set()
        for pid in children - asked:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)
        asked |= children
        wait(LOOK_S)
        reap(())


def _children() -> set[int]:
    me = str(os.getpid())
    found = set()
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            # The name in parentheses may itself contain spaces and parentheses.
            state_and_parent = entry.read_text(errors="replace").rpartition(")")[2].split()[:2]
            if state_and_parent[1] == me:
                found.add(int(entry.parent.name))
    return found
