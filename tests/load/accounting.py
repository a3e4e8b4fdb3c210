"""The machine, and CPU and memory of a server's processes, from Linux's own books (/proc)."""

import os
import platform
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tests.support.manage import PROJECT

PROC = Path("/proc")
# Fields of /proc/PID/stat, counted after the command's closing parenthesis.
_USER_TICKS, _SYSTEM_TICKS = 11, 12
# What the required values are meant for: two web processes, with all that is beside them.
CORES = 2
_PACKAGES = ("django", "gunicorn", "gevent", "psycopg", "pydantic", "orjson")


class ProcessReplaced(Exception):
    """A process ended or began within an interval, so its CPU cannot be told."""


def check_system() -> None:
    """Raises ValueError where there is no /proc."""
    if not (PROC / "self" / "stat").exists():
        raise ValueError("CPU and memory are read from /proc, so this needs Linux")


def confined_machine() -> dict[str, Any]:
    """This process, and all that it will start, to two cores, as far as there are more. Returns the
    load already there, versions, and the checkout's commit."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    told = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.partition(":")[2].strip() for line in told if line.startswith("model name")]
    head = ["git", "rev-parse", "HEAD"]
    done = subprocess.run(head, cwd=PROJECT, capture_output=True, text=True, check=False)
    return {
        "cores": len(os.sched_getaffinity(0)),
        "processor": (names or [platform.machine()])[0],
        "load_average_before": os.getloadavg()[0],
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "packages": {name: version(name) for name in _PACKAGES},
        "commit": done.stdout.strip() or None,
    }


def cpu_s_of(stat: str, *, ticks_per_s: int) -> float:
    """User and system time of all threads of a process, in seconds."""
    # The command's name may hold spaces and parentheses.
    fields = stat.rpartition(")")[2].split()
    return (int(fields[_USER_TICKS]) + int(fields[_SYSTEM_TICKS])) / ticks_per_s


def spent_s(before: Mapping[int, float], after: Mapping[int, float]) -> float:
    """CPU seconds of all processes between two readings. Raises `ProcessReplaced`."""
    if before.keys() != after.keys():
        raise ProcessReplaced(f"web processes were {sorted(before)} and are {sorted(after)}")
    return sum(after.values()) - sum(before.values())


class ProcessTree:
    """A server's first process with all that came of it: of gunicorn, its master and workers."""

    def __init__(self, pid: int) -> None:
        self._pid = pid

    def cpu_s(self) -> dict[int, float]:
        """CPU seconds spent so far, by process; one that has just ended is missing."""
        ticks_per_s, found = os.sysconf("SC_CLK_TCK"), {}
        for pid in _tree_of(self._pid):
            with suppress(FileNotFoundError, ProcessLookupError):
                stat = (PROC / str(pid) / "stat").read_text()
                found[pid] = cpu_s_of(stat, ticks_per_s=ticks_per_s)
        return found

    def rss_bytes(self) -> dict[int, int]:
        """Resident memory by process; what they share counts in each."""
        page_bytes = os.sysconf("SC_PAGE_SIZE")
        return {
            pid: int((PROC / str(pid) / "statm").read_text().split()[1]) * page_bytes
            for pid in _tree_of(self._pid)
        }

    def worker_rss_bytes(self) -> dict[int, int]:
        """The same without the first process."""
        return {pid: size for pid, size in self.rss_bytes().items() if pid != self._pid}


def _tree_of(pid: int) -> list[int]:
    """The process, its children, theirs, and so on."""
    found = [pid]
    for one in found:
        # A process's children are told by the thread that started them.
        for file in (PROC / str(one) / "task").glob("*/children"):
            with suppress(FileNotFoundError, ProcessLookupError):
                found += map(int, file.read_text().split())
    return found
