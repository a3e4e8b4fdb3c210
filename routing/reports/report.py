"""How one inference request ended, as a value; the queue of such reports, and its observers. Log
lines, metrics, spans, destinations and the records of failed requests are made from it.

A request pays for one append. Observers get the reports in batches, twice a second, in a greenlet
of their own. Reports that do not fit the queue are dropped and counted, so no request waits.
"""

import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from accounts.caller import Caller
from gateway.eventloop import yield_control
from gateway.http.jsonio import JsonObject
from gateway.http.request_id import RequestIdentity
from gateway.http.tags import NO_TAGS, Tags
from routing.formats.caller import ToolActivity
from routing.history.content_draft import ContentDraft
from routing.ledger.tickets import Ticket
from routing.serving.request.context import Attempt, RequestProgress
from routing.serving.request.errors import ErrorFacts
from routing.statistics.periodic import PeriodicWork


class Phases(NamedTuple):
    """When a request came in, its planning began and ended, and its hold was asked for, in
    monotonic seconds; None where that is not so."""

    received: float | None = None
    planning_began: float | None = None
    planned: float | None = None
    hold_asked: float | None = None


NO_PHASES: Final = Phases()


def read_phases(progress: RequestProgress) -> Phases:
    return Phases(
        progress.received,
        progress.planning_began,
        progress.context.started,
        progress.hold_asked,
    )


class RequestReport(NamedTuple):
    """One request that was answered, failed or refused.

    `started` and `ended` are monotonic seconds. `caller` is None where nobody knows the key;
    then `key_prefix` has the first characters of the credential, "" where there was none. `record`
    holds the columns of the generation, None where no upstream was asked, and `settlement` is its
    place in the ledger's queue. `trace` is the object of that name in the request. `plan` is that
    of a refused request as JSON text, in the form of `routing.selection.trace`, "" where it had
    none. `is_counted` says that its source fails too often for a record of each. `tool_calls` are
    those of server tools, and `ended_calls` counts them by tool and by whether they failed, with
    those of models that tools asked. `submodel_attempts` are those at such models, one sequence for
    each time that one was asked. `is_repeat` says that an earlier answer was given once more.
    """

    ended_at: datetime
    started: float
    ended: float
    identity: RequestIdentity | None
    caller: Caller | None
    format: str
    requested_model: str
    streamed: bool
    status: int
    error: ErrorFacts | None = None
    generation_id: str | None = None
    record: JsonObject | None = None
    attempts: Sequence[Attempt] = ()
    content: ContentDraft | None = None
    trace: JsonObject | None = None
    region: str = "global"
    address: str = ""
    key_prefix: str = ""
    plan: str = ""
    is_counted: bool = False
    phases: Phases = NO_PHASES
    settlement: Ticket | None = None
    tool_calls: Sequence[ToolActivity] = ()
    ended_calls: Mapping[tuple[str, bool], int] = {}
    submodel_attempts: Sequence[Sequence[Attempt]] = ()
    is_repeat: bool = False
    tags: Tags = NO_TAGS
    # The result of each look of an external guard.
    guard_checks: Sequence[JsonObject] = ()

    @property
    def duration_ms(self) -> int:
        return max(0, round((self.ended - self.started) * 1000))


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
                    # One observer's fault takes no report from the others.
                    if name not in self._failing:
                        log.error("%s lost %d reports", name, len(batch), exc_info=error)
                    self._failing.add(name)
                yield_control()


publisher: Final = Publisher()
