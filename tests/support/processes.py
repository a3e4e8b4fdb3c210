"""Processes that tests start: each ends with the test run, also when the run is killed."""

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from tests.support.promptness import PATIENCE_S

PROJECT = Path(__file__).resolve().parents[2]
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


class Process(Protocol):
    """What starting gives: `subprocess.Popen`, or a child of a fork server."""

    @property
    def pid(self) -> int: ...
    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def send_signal(self, sig: int, /) -> None: ...


def dies_with_parent(death_signal: int = signal.SIGKILL) -> Callable[[], None]:
    """For `preexec_fn`: the child gets `death_signal` when the thread that started it ends.

    It also heeds the signals that a shell told its background jobs to ignore.
    """
    parent = os.getpid()

    def prepare() -> None:
        for number in (signal.SIGINT, signal.SIGQUIT):
            signal.signal(number, signal.SIG_DFL)
        if _LIBC is not None:
            _LIBC.prctl(_PR_SET_PDEATHSIG, death_signal)
        if os.getppid() != parent:
            os._exit(1)

    return prepare


def spawn(
    command: Sequence[str | Path],
    *,
    log: Path,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    pass_fds: Sequence[int] = (),
    death_signal: int = signal.SIGKILL,
) -> subprocess.Popen[bytes]:
    """Start `command` in a session of its own; stdout and stderr are appended to `log`."""
    with log.open("ab") as output:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=env,
            cwd=cwd,
            pass_fds=pass_fds,
            start_new_session=True,
            preexec_fn=dies_with_parent(death_signal),
        )


def stop(process: Process, *, grace_s: float, how: int = signal.SIGTERM) -> int:
    """Ask the process to end; past the grace kill its whole group. Returns its exit status."""
    if process.poll() is None:
        process.send_signal(how)
    try:
        return process.wait(grace_s)
    except subprocess.TimeoutExpired:
        return kill(process)


def kill(process: Process) -> int:
    """SIGKILL to the process and its group."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    return process.wait(60)


def eventually(holds: Callable[[], bool], *, within_s: float, what: str, log: Path | None) -> None:
    """Poll until `holds()`; past the deadline fail with the end of `log`.

    The deadline is exact where nothing else runs; elsewhere it only finds what hangs.
    """
    deadline = time.monotonic() + within_s + PATIENCE_S
    while not holds():
        if time.monotonic() > deadline:
            tail = log.read_text(errors="replace")[-4000:] if log and log.exists() else ""
            raise TimeoutError(f"{what} did not happen within {within_s} s\n{tail}")
        time.sleep(0.02)


def _facts(pid: int) -> list[str]:
    """What stands in a process's record behind its name: its state, its parent's id and so on."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def children(parent: int) -> list[int]:
    """Pids of a process's children, lowest first.

    Read from every process's own record: the parent's list skips some while they come and go.
    """
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(FileNotFoundError, ProcessLookupError):
            if int(_facts(int(folder.name))[1]) == parent:
                found.append(int(folder.name))
    return sorted(found)


def is_alive(pid: int) -> bool:
    """Whether the process runs; one that nobody has waited for yet does not."""
    try:
        return _facts(pid)[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def cpu_s(pid: int) -> float:
    """Processor time a process has used so far."""
    user, system = _facts(pid)[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
