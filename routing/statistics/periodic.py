"""Periodic work of a process, in a thread of its own."""

import logging
import threading
import time
from collections.abc import Callable


class PeriodicWork:
    """Calls `work` every `every_s` seconds in a thread, which is a greenlet in web processes.

    Of consecutive failures the first is logged, and it goes on.
    """

    def __init__(
        self, name: str, work: Callable[[], object], *, every_s: float, log: logging.Logger
    ) -> None:
        self._name = name
        self._work = work
        self._every_s = every_s
        self._log = log
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._failing = False

    def start(self) -> None:
        """Begin at once; call after a fork."""
        if self._thread is not None:
            return
        self._stopping.clear()
        self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        self._thread.start()

    def stop(self, *, within_s: float) -> None:
        """Begin no further round, and wait that long for the current one."""
        if self._thread is None:
            return
        self._stopping.set()
        self._thread.join(within_s)
        self._thread = None

    def finish(self, *, within_s: float) -> None:
        """Stop, and do the work once more; what takes longer goes on without being waited for."""
        self.stop(within_s=within_s / 2)
        last = threading.Thread(target=self._work, name=self._name, daemon=True)
        last.start()
        last.join(within_s / 2)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._work()
                self._failing = False
            except Exception as error:  # noqa: BLE001 - A bug here must not end what every request reads.
                if not self._failing:
                    self._log.error("%s failed", self._name, exc_info=error)
                self._failing = True
            self._stopping.wait(self._every_s)


def run_together(*works: Callable[[], object], within_s: float) -> None:
    """Run several functions at once, and wait at most that long for all of them. One that takes
    longer, as with a silent store, goes on without being waited for."""
    until = time.monotonic() + within_s
    threads = [threading.Thread(target=work, daemon=True) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
