"""Signals and a parent that leaves, as things to wait for."""

import os
import select
import signal
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from types import FrameType, TracebackType
from typing import IO, Self


class Signals:
    """Within the block, stop signals are counted and every signal ends a `wait`."""

    def __init__(self) -> None:
        self.stops = 0
        self._wakeup, self._write_end = os.pipe()

    def __enter__(self) -> Self:
        os.set_blocking(self._write_end, False)
        os.set_blocking(self._wakeup, False)
        signal.set_wakeup_fd(self._write_end, warn_on_full_buffer=False)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._count)
        # Under nohup it is ignored and stays so.
        if signal.getsignal(signal.SIGHUP) == signal.SIG_DFL:
            signal.signal(signal.SIGHUP, self._count)
        signal.signal(signal.SIGCHLD, self._ignore)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # The handlers stay: a late second Ctrl-C must not cut the clean-up short.
        signal.set_wakeup_fd(-1)
        os.close(self._wakeup)
        os.close(self._write_end)

    def _count(self, number: int, frame: FrameType | None) -> None:
        self.stops += 1

    def _ignore(self, number: int, frame: FrameType | None) -> None:
        """A handler must exist for the signal to end the wait."""

    def wait(self, timeout_s: float, readers: Iterable[IO[bytes]] = ()) -> None:
        """Sleep until a signal comes, there is something to read, or the time is up."""
        sources: list[int | IO[bytes]] = [self._wakeup, *readers]
        select.select(sources, [], [], max(0.0, timeout_s))
        with suppress(BlockingIOError):
            os.read(self._wakeup, 4096)


class Parent:
    """The process that must live for this one to go on, such as `make`.

    A SIGKILL of it shows as another parent. GNU make passes SIGTERM on, but on SIGINT only drops
    its handler and waits for us. A terminal's Ctrl-C makes up for that, `kill -INT` does not.
    """

    def __init__(self, pid: int | None) -> None:
        self._pid = pid
        # Shells take their handler off and on at will; only make's is a sign.
        name = ""
        with suppress(OSError):
            name = Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip()
        is_make = pid is not None and name in {"make", "gmake"}
        self._caught_interrupts = is_make and _catches_interrupts(pid or 0)

    def is_gone(self) -> bool:
        if self._pid is None:
            return False
        if os.getppid() != self._pid:
            return True
        return self._caught_interrupts and not _catches_interrupts(self._pid)


def _catches_interrupts(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    except OSError:
        return False
    caught = next(line for line in status.splitlines() if line.startswith("SigCgt:"))
    return bool(int(caught.split()[1], 16) >> (signal.SIGINT - 1) & 1)
