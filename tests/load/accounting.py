"""CPU and memory of a server's processes, from the operating system's own books (Linux /proc)."""

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

PROC = Path("/proc")
# Fields of /proc/PID/stat, counted after the command's closing parenthesis.
_PARENT, _USER_TICKS, _SYSTEM_TICKS = 1, 11, 12


class ProcessReplaced(Exception):
    """A process ended or began within an interval, so its CPU cannot be told."""


def stat_fields(stat: str) -> list[str]:
    """The fields after the command's name, which may hold spaces and parentheses."""
    return stat.rpartition(")")[2].split()


def cpu_s_of(stat: str, *, ticks_per_s: int) -> float:
    """User and system time of all threads of a process, in seconds."""
    fields = stat_fields(stat)
    return (int(fields[_USER_TICKS]) + int(fields[_SYSTEM_TICKS])) / ticks_per_s


def rss_bytes_of(status: str) -> int:
    """Resident memory, from the text of /proc/PID/status. One that has ended holds none."""
    found = (line.split()[1] for line in status.splitlines() if line.startswith("VmRSS:"))
    return int(next(found, 0)) * 1024


def parents() -> dict[int, int]:
    """Every process's parent, by pid."""
    found = {}
    for entry in PROC.iterdir():
        if not entry.name.isdigit():
            continue
        with suppress(FileNotFoundError, ProcessLookupError):
            found[int(entry.name)] = int(stat_fields((entry / "stat").read_text())[_PARENT])
    return found


def tree_of(pid: int, parents: Mapping[int, int]) -> list[int]:
    """The process, its children, theirs, and so on."""
    found = [pid]
    for one in found:
        found += sorted(child for child, parent in parents.items() if parent == one)
    return found


def children_of(pid: int) -> list[int]:
    """Pids of the process's own children: of gunicorn's master, its workers."""
    return sorted(child for child, parent in parents().items() if parent == pid)


def cpu_s_by_pid(pids: Iterable[int]) -> dict[int, float]:
    """CPU seconds spent so far, by process; one that has just ended is missing."""
    ticks_per_s = os.sysconf("SC_CLK_TCK")
    found = {}
    for pid in pids:
        with suppress(FileNotFoundError, ProcessLookupError):
            stat = (PROC / str(pid) / "stat").read_text()
            found[pid] = cpu_s_of(stat, ticks_per_s=ticks_per_s)
    return found


def spent_s(before: Mapping[int, float], after: Mapping[int, float]) -> float:
    """CPU seconds of all processes between two readings. Raises `ProcessReplaced`."""
    if before.keys() != after.keys():
        raise ProcessReplaced(f"web processes were {sorted(before)} and are {sorted(after)}")
    return sum(after.values()) - sum(before.values())


class ProcessTree:
    """A server's first process with all that came of it, however it divides its work."""

    def __init__(self, pid: int) -> None:
        self._pid = pid

    def cpu_s(self) -> dict[int, float]:
        return cpu_s_by_pid(tree_of(self._pid, parents()))

    def rss_bytes(self) -> int:
        """Resident memory of all together; what they share counts in each."""
        return sum(
            rss_bytes_of((PROC / str(pid) / "status").read_text())
            for pid in tree_of(self._pid, parents())
        )


class WebProcesses:
    """gunicorn's master and its workers."""

    def __init__(self, master_pid: int) -> None:
        self._master_pid = master_pid

    def cpu_s(self) -> dict[int, float]:
        return cpu_s_by_pid([self._master_pid, *children_of(self._master_pid)])

    def worker_rss_bytes(self) -> dict[int, int]:
        """Resident memory by worker."""
        return {
            pid: rss_bytes_of((PROC / str(pid) / "status").read_text())
            for pid in children_of(self._master_pid)
        }
