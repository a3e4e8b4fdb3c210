"""The queue of reports of ended requests, and its observers.

A request pays for one append. Observers get the reports in batches, twice a second, in a greenlet
of their own. Reports that do not fit the queue are dropped and counted, so no request waits.
"""

import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from gateway.eventloop import yield_control
from routing.reports.report import RequestReport
from routing.statistics.periodic import PeriodicWork

log = logging.getLogger("routing.reports")

Observer = Callable[[Sequence[RequestReport]], None]
EVERY_S: Final = 0.5
QUEUE_MAX: Final = 20_000
# So many at once hold the event loop for a millisecond or two in each observer.
_BATCH_MAX: Final = 100


class Publisher:
    """`publish` from any greenlet; the name of an observer is in the log of its failures."""

    def __init__(self) -> None:
        self._queue: deque[RequestReport] = deque()
        self._observers: dict[str, Observer] = {}
        self._failing: set[str] = set()
        self._work = PeriodicWork("reports", self.deliver, every_s=EVERY_S, log=log)
        self.dropped = 0

    def add_observer(self, name: str, observe: Observer) -> None:
        """Have `observe` called with each batch. One of the same name is replaced."""
        self._observers[name] = observe

    def publish(self, report: RequestReport) -> None:
        if len(self._queue) >= QUEUE_MAX:
            self.dropped += 1
            return
        self._queue.append(report)

    def start(self) -> None:
        """Deliver from now on; call after a fork."""
        self._work.start()

    def stop(self, within_s: float) -> None:
        """Deliver what is queued, if observers take it in time."""
        self._work.finish(within_s=within_s)

    def deliver(self) -> None:
        """Give every observer what is queued."""
        while self._queue:
            size = min(_BATCH_MAX, len(self._queue))
            batch = [self._queue.popleft() for _ in range(size)]
            for name, observe in tuple(self._observers.items()):
                try:
                    observe(batch)
                    self._failing.discard(name)
                except Exception as error:
                    if name not in self._failing:
                        log.error("%s lost %d reports", name, len(batch), exc_info=error)
                    self._failing.add(name)
                yield_control()


publisher: Final = Publisher()
