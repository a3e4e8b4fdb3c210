"""CPU and memory of a server's processes, from the operating system's own books (Linux /proc)."""

import os
from collections.abc import Iterable, Mapping
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
    """Resident memory, from the text of /proc/PID/status."""
    line = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1]) * 1024


def children_of(pid: int) -> list[int]:
    """Pids of the process's own children: of gunicorn's master, its workers."""
    found = []
    for entry in PROC.iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = stat_fields((entry / "stat").read_text())
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[_PARENT]) == pid:
            found.append(int(entry.name))
    return sorted(found)


def cpu_s_by_pid(pids: Iterable[int]) -> dict[int, float]:
    """CPU seconds spent so far, by process."""
    ticks_per_s = os.sysconf("SC_CLK_TCK")
    return {
        pid: cpu_s_of((PROC / str(pid) / "stat").read_text(), ticks_per_s=ticks_per_s)
        for pid in pids
    }


def spent_s(before: Mapping[int, float], after: Mapping[int, float]) -> float:
    """CPU seconds of all processes between two readings. Raises `ProcessReplaced`."""
    if before.keys() != after.keys():
        raise ProcessReplaced(f"web processes were {sorted(before)} and are {sorted(after)}")
    return sum(after.values()) - sum(before.values())


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
