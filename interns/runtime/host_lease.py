"""Until when this machine may run interns, as a file beside them.

Where others may take its interns over, the machine renews it with each life sign that the database
has. Supervisors stop their agents once it is over, which is before another machine begins. Without
the file there is no bound. Standard library only: the supervisor uses it too.
"""

import os
import time
from contextlib import suppress
from pathlib import Path

FILE_NAME = "intern-host-lease"
# How often supervisors look.
LOOK_S = 2.0


def read_clock() -> float:
    """Seconds since the machine's start, those in which it slept or was frozen too."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def write_lease(path: Path, until: float) -> None:
    """Let interns run until then, on `read_clock`."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(f"{until:.3f}", encoding="ascii")
    temporary.replace(path)


def remove_lease(path: Path) -> None:
    """Let interns run without a bound."""
    path.unlink(missing_ok=True)


def is_over(path: Path) -> bool:
    """Whether there is a bound, and it has passed."""
    with suppress(OSError, ValueError):
        return read_clock() > float(path.read_text(encoding="ascii"))
    return False
