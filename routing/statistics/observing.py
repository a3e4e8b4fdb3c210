"""What this process, and those it shares with, have seen of endpoints lately.

Requests leave a few numbers behind (`observed`) and read what was made of them before (`figures`).
The counting is done beside them, once a second.
"""

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from types import MappingProxyType
from typing import Final

from django.conf import settings

from gateway.eventloop import yield_control
from routing.selection.measurements.endpoint_counter import EndpointCounter, build_stats
from routing.selection.measurements.window import PIECE_ENDPOINTS, Pairs, Window
from routing.selection.types import EndpointStats, HealthSnapshot
from routing.serving.request import process
from routing.serving.request.call import Attempt
from routing.statistics.beside import Beside
from routing.statistics.marks import Marks
from routing.upstreams.failures import RETRY_HINT_DEFAULT_S, UpstreamFailure

log = logging.getLogger("routing.statistics")

REFRESH_S: Final = 1.0
SLICE_S: Final = 10.0
HALF_HOUR: Final = (300.0, 6)
DAY: Final = (3600.0, 24)
# So many are counted at a stretch: a few milliseconds.
_EVENTS_AT_ONCE: Final = 500
# Far more than a second brings.
_EVENTS_MAX: Final = 100_000
# Two tokens are no pace, and what came within so little came in one piece.
_TOKENS_MIN: Final = 2
_SPAN_MIN_S: Final = 0.005
# A caller who reads slowly says nothing about the endpoint.
_HELD_UP_MAX: Final = 0.1
_REQUEST_STATUSES: Final = frozenset({400, 413, 422})
_REQUEST_ERRORS: Final = frozenset(
    {"content_policy_violation", "context_length_exceeded", "refusal"}
)

# Endpoint, outcome, time to first token, streamed, tokens per second, tool calls.
_Event = tuple[int, int, float | None, bool, float | None, bool | None]
_ANSWERED, _FAILED, _LIMITED = range(3)


class Observer:
    """Counts what happened, here and (through `add_others`) elsewhere. Moments are monotonic.

    `collects` says that somebody will `take` what was counted here, to share it.
    """

    def __init__(self, *, window_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.marks = Marks()
        self.collects = False
        self.followed = False
        self.recent = Window(slice_s=SLICE_S, slices=max(1, round(window_s / SLICE_S)))
        self.half_hour = Window(slice_s=HALF_HOUR[0], slices=HALF_HOUR[1])
        self.day = Window(slice_s=DAY[0], slices=DAY[1])
        self._clock = clock
        self._events: deque[_Event] = deque(maxlen=_EVENTS_MAX)
        self._figures: dict[int, EndpointStats] = {}
        self._view = MappingProxyType(self._figures)
        self._dirty: set[int] = set()
        self._mine: dict[int, EndpointCounter] = {}
        self._refreshed_at = float("-inf")

    # --- What requests call ---------------------------------------------------------------------

    def observed(
        self,
        attempt: Attempt,
        *,
        streamed: bool,
        tokens: int = 0,
        tools_good: bool | None = None,
    ) -> None:
        """Note a finished attempt, once. `tokens` are those of its answer, 0 where that is unknown
        or was not read to its end; `tools_good` judges its tool calls, if it made any."""
        failure = attempt.failure
        if failure is not None and failure.error_type != "refusal":
            self._note_failure(attempt, failure)
            return
        endpoint, first = attempt.endpoint.pk, attempt.first_token
        latency_s = None if first is None else first - attempt.started
        speed = _speed_tps(attempt, streamed=streamed, tokens=tokens) if tokens else None
        if attempt.own is None:
            self.marks.well(endpoint, attempt.ended or self._clock())
        self._events.append((endpoint, _ANSWERED, latency_s, streamed, speed, tools_good))

    def figures(self) -> Mapping[int, EndpointStats]:
        """Figures by endpoint, at most about a second old. To look things up in: it changes."""
        if not self.followed and self._clock() - self._refreshed_at >= REFRESH_S:
            for _ in self.refresh():
                pass
        return self._view

    def _note_failure(self, attempt: Attempt, failure: UpstreamFailure) -> None:
        endpoint = attempt.endpoint.pk
        at = attempt.ended or self._clock()
        if failure.parked:
            hint_s = failure.retry_after_s
            hint_s = RETRY_HINT_DEFAULT_S if hint_s is None else hint_s
            self.marks.parked(endpoint, at, until=at + hint_s)
            self._events.append((endpoint, _LIMITED, None, False, None, None))
        elif not is_requests_fault(failure):
            if failure.outage:
                self.marks.outage(endpoint, at)
            self._events.append((endpoint, _FAILED, None, False, None, None))

    # --- What goes on beside them ---------------------------------------------------------------

    def refresh(self) -> Iterator[None]:
        """Count what came, forget what is old, and work the changed figures out anew. To be run to
        its end; each step takes some milliseconds."""
        self._refreshed_at = now = self._clock()
        while self._events:
            self._count(self._drained(), now)
            yield
        for window in (self.recent, self.half_hour, self.day):
            for fewer in window.advance(window.number_at(now)):
                self._dirty.update(fewer)
                yield
        changed, self._dirty = list(self._dirty), set()
        for start in range(0, len(changed), PIECE_ENDPOINTS):
            self._rework(changed[start : start + PIECE_ENDPOINTS])
            yield

    def take(self) -> dict[int, EndpointCounter]:
        """What was counted here since the last time."""
        taken, self._mine = self._mine, {}
        return taken

    def add_others(
        self, pairs: list[tuple[int, EndpointCounter]], at: float, *, in_long: bool
    ) -> None:
        """What was counted elsewhere; without `in_long` the long windows know it already."""
        self.recent.add(self.recent.number_at(at), pairs)
        if in_long:
            self._add_long(pairs, at)
        self._dirty.update(endpoint for endpoint, _ in pairs)

    def touch(self, endpoints: Iterable[int]) -> None:
        """Work these out anew: somebody added to a window."""
        self._dirty.update(endpoints)

    def _count(self, tallies: dict[int, EndpointCounter], at: float) -> None:
        pairs = list(tallies.items())
        self.add_others(pairs, at, in_long=True)
        if self.collects:
            for endpoint, tally in pairs:
                known = self._mine.get(endpoint)
                if known is None:
                    self._mine[endpoint] = tally
                else:
                    known.add(tally)

    def _add_long(self, pairs: Pairs, at: float) -> None:
        self.half_hour.add(self.half_hour.number_at(at), pairs)
        bare = [(endpoint, tally.calls_only()) for endpoint, tally in pairs]
        self.day.add(self.day.number_at(at), bare)

    def _drained(self) -> dict[int, EndpointCounter]:
        tallies: dict[int, EndpointCounter] = {}
        events = self._events
        for _ in range(min(len(events), _EVENTS_AT_ONCE)):
            endpoint, outcome, latency_s, streamed, speed, tools = events.popleft()
            tally = tallies.get(endpoint)
            if tally is None:
                tally = tallies[endpoint] = EndpointCounter()
            if outcome == _ANSWERED:
                tally.count_answer(latency_s, streamed=streamed, speed_tps=speed, tools_good=tools)
            elif outcome == _FAILED:
                tally.failed += 1
            else:
                tally.limited += 1
        return tallies

    def _rework(self, endpoints: Iterable[int]) -> None:
        recent, half_hour, day = self.recent.totals, self.half_hour.totals, self.day.totals
        for endpoint in endpoints:
            found = build_stats(recent.get(endpoint), half_hour.get(endpoint), day.get(endpoint))
            if found is None:
                self._figures.pop(endpoint, None)
            else:
                self._figures[endpoint] = found


def is_requests_fault(failure: UpstreamFailure) -> bool:
    """Whether the endpoint did as it should: it refused this request, or our own time ran out."""
    return (
        failure.status in _REQUEST_STATUSES
        or failure.error_type in _REQUEST_ERRORS
        or (failure.deadline and not failure.outage)
    )


def _speed_tps(attempt: Attempt, *, streamed: bool, tokens: int) -> float | None:
    """Tokens per second: from the first token of a stream, over the whole time else."""
    if tokens < _TOKENS_MIN or attempt.ended is None:
        return None
    since = attempt.first_token if streamed and attempt.first_token else attempt.started
    if attempt.ended - since < _SPAN_MIN_S:
        since = attempt.started
    span_s = attempt.ended - since
    if span_s <= 0 or attempt.held_up_s > _HELD_UP_MAX * span_s:
        return None
    return tokens / span_s


@cache
def observer() -> Observer:
    """This process's own."""
    return Observer(window_s=settings.ROUTER_STATS_WINDOW_SECONDS)


def observed(
    attempt: Attempt, *, streamed: bool, tokens: int = 0, tools_good: bool | None = None
) -> None:
    """`Observer.observed` of this process."""
    observer().observed(attempt, streamed=streamed, tokens=tokens, tools_good=tools_good)


def figures() -> Mapping[int, EndpointStats]:
    """`Observer.figures` of this process."""
    return observer().figures()


def standing() -> HealthSnapshot:
    """Who is unstable, parked or half open at this moment, as far as this process knows."""
    return process.health().snapshot(process.now())


def refresh() -> None:
    """Do at once what is done every second, letting others run in between."""
    for _ in observer().refresh():
        yield_control()


_following: Final = Beside("statistics", refresh, every_s=REFRESH_S, log=log)


def start() -> None:
    """Count beside the requests from now on; call after a fork."""
    observer().followed = True
    _following.start()


def stop() -> None:
    """Back to counting when somebody asks."""
    _following.stop(within_s=0.2)
    observer().followed = False
