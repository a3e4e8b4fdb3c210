"""Statistics of the endpoints over the last minutes, of this process and of those it shares with.

Requests leave a few numbers behind (`record_attempt`) and read earlier results (`endpoint_stats`).
A thread of its own counts once a second.

Outages, parkings and recoveries that happen here go into this process's health at once
(`routing.serving.attempts.attempts`). One from elsewhere is applied as if it had happened here,
unless something newer is known. All moments are on this process's monotonic clock.
"""

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from operator import attrgetter
from types import MappingProxyType
from typing import Final, Literal, NamedTuple

from django.conf import settings

from gateway.eventloop import yield_control
from routing.selection.health import EndpointHealth
from routing.selection.measurements.endpoint_counter import (
    EndpointCounter,
    build_stats,
    merge_counters,
)
from routing.selection.measurements.window import PIECE_ENDPOINTS, Window
from routing.selection.types import EndpointStats, HealthSnapshot
from routing.serving.request import process
from routing.serving.request.context import Attempt
from routing.statistics.periodic import PeriodicWork
from routing.upstreams.failures import RETRY_HINT_DEFAULT_S, UpstreamFailure

Kind = Literal["outage", "parked", "well"]
_NEVER: Final = float("-inf")
# More endpoints than any catalogue has; from here on, recoveries older than any window are dropped.
_KNOWN_MAX: Final = 20_000
_OLD_S: Final = 900.0


class HealthEvent(NamedTuple):
    """What happened to an endpoint and when; `until` is when a parking ends."""

    kind: Kind
    endpoint: int
    at: float
    until: float = 0.0


class HealthEvents:
    """The events this process has yet to publish, and the newest ones it knows of.

    `probing` are the endpoints that this process is probing, `probed` those whose probe has ended
    since the last exchange.
    """

    def __init__(self) -> None:
        self.probing: set[int] = set()
        self.probed: list[int] = []
        self._outage_at: dict[int, float] = {}
        self._well_at: dict[int, float] = {}
        self._unpublished: dict[tuple[Kind, int], HealthEvent] = {}

    def record_outage(self, endpoint: int, at: float) -> None:
        self._outage_at[endpoint] = at
        self._queue(HealthEvent("outage", endpoint, at))
        self.end_probe(endpoint)

    def record_parking(self, endpoint: int, at: float, *, until: float) -> None:
        self._queue(HealthEvent("parked", endpoint, at, until))
        self.end_probe(endpoint)

    def record_recovery(self, endpoint: int, at: float) -> None:
        """Note that the endpoint answered. It is published only where an outage is known."""
        self._well_at[endpoint] = at
        if endpoint in self._outage_at:
            del self._outage_at[endpoint]
            self._queue(HealthEvent("well", endpoint, at))
        if self.probing:
            self.end_probe(endpoint)

    def end_probe(self, endpoint: int) -> None:
        """End this process's probe, if it has one. Others may probe after the next exchange, when
        they know its outcome."""
        if endpoint in self.probing:
            self.probing.discard(endpoint)
            self.probed.append(endpoint)

    def take(self) -> list[HealthEvent]:
        """Take the unpublished events, in order; the latest of each kind and endpoint."""
        events = sorted(self._unpublished.values(), key=attrgetter("at"))
        self._unpublished = {}
        if len(self._well_at) > _KNOWN_MAX:
            newest = max(self._well_at.values())
            self._well_at = {k: at for k, at in self._well_at.items() if newest - at < _OLD_S}
        return events

    def apply(self, event: HealthEvent, health: EndpointHealth, *, now: float) -> None:
        """Put another process's event into this process's health."""
        endpoint = event.endpoint
        is_newer = event.at > self._outage_at.get(endpoint, _NEVER)
        well_at = self._well_at.get(endpoint, _NEVER)
        if event.kind == "parked":
            if event.until > now:
                health.park(endpoint, now, hint_s=event.until - now)
        elif event.kind == "well":
            if is_newer:
                self._outage_at.pop(endpoint, None)
                health.record_success(endpoint, event.at)
        elif well_at > event.at:
            # The process that met the outage does not know yet that it has passed.
            self._queue(HealthEvent("well", endpoint, well_at))
        elif is_newer:
            self._outage_at[endpoint] = event.at
            health.record_failure(endpoint, event.at)

    def _queue(self, event: HealthEvent) -> None:
        self._unpublished[event.kind, event.endpoint] = event


log = logging.getLogger("routing.statistics")

REFRESH_S: Final = 1.0
SLICE_S: Final = 10.0
HALF_HOUR: Final = (300.0, 6)
DAY: Final = (3600.0, 24)
# A portion that takes a few milliseconds.
_EVENTS_AT_ONCE: Final = 500
# Far more than a second brings.
_EVENTS_MAX: Final = 100_000
# Fewer tokens than this give no speed, and a shorter time means one piece.
_TOKENS_MIN: Final = 2
_SPAN_MIN_S: Final = 0.005
# A larger share of waiting for the caller tells nothing about the endpoint.
_HELD_UP_MAX: Final = 0.1
_REQUEST_STATUSES: Final = frozenset({400, 413, 422})
_REQUEST_ERRORS: Final = frozenset(
    {"content_policy_violation", "context_length_exceeded", "refusal"}
)

# Endpoint, outcome, time to first token, streamed, tokens per second, tool calls.
_Event = tuple[int, int, float | None, bool, float | None, bool | None]
_ANSWERED, _FAILED, _LIMITED, _CANCELLED = range(4)


class Observer:
    """Counts what happened, here and (through `add_others`) elsewhere. Moments are monotonic.

    With `collects`, own counts are gathered until `take` hands them out for sharing. With
    `followed`, a thread calls `refresh` every second.
    """

    def __init__(self, *, window_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.health_events = HealthEvents()
        self.collects = False
        self.followed = False
        self.recent = Window(slice_s=SLICE_S, slices=max(1, round(window_s / SLICE_S)))
        self.half_hour = Window(slice_s=HALF_HOUR[0], slices=HALF_HOUR[1])
        self.day = Window(slice_s=DAY[0], slices=DAY[1])
        self._clock = clock
        self._events: deque[_Event] = deque(maxlen=_EVENTS_MAX)
        self._stats: dict[int, EndpointStats] = {}
        self._view = MappingProxyType(self._stats)
        self._dirty: set[int] = set()
        self._own: dict[int, EndpointCounter] = {}
        self._refreshed_at = float("-inf")

    # --- What requests call ---------------------------------------------------------------------

    def record_attempt(
        self,
        attempt: Attempt,
        *,
        streamed: bool,
        tokens: int = 0,
        tools_good: bool | None = None,
    ) -> None:
        """Note a finished attempt, once. `tokens` are those of its answer, 0 where that is unknown
        or was not read to its end. `tools_good` judges its tool calls, if it made any."""
        failure, endpoint = attempt.failure, attempt.endpoint.pk
        at = attempt.ended or self._clock()
        if failure is None or failure.error_type == "refusal":
            first = attempt.first_token
            latency_s = None if first is None else first - attempt.started
            speed = (
                _compute_speed_tps(attempt, streamed=streamed, tokens=tokens) if tokens else None
            )
            if attempt.own is None:
                self.health_events.record_recovery(endpoint, at)
            self._events.append((endpoint, _ANSWERED, latency_s, streamed, speed, tools_good))
        elif failure.parked:
            hint_s = failure.retry_after_s
            hint_s = RETRY_HINT_DEFAULT_S if hint_s is None else hint_s
            self.health_events.record_parking(endpoint, at, until=at + hint_s)
            self._events.append((endpoint, _LIMITED, None, False, None, None))
        elif not is_request_at_fault(failure):
            if failure.outage:
                self.health_events.record_outage(endpoint, at)
            self._events.append((endpoint, _FAILED, None, False, None, None))

    def record_cancelled(self, attempt: Attempt, *, streamed: bool, usual_s: float) -> None:
        """Note that an attempt had no content in its usual time when another endpoint's came.
        Without that only its fast answers would count. It counts with the usual time: with the
        whole wait the usual time of one that hangs would grow with each."""
        waited_s = (attempt.first_token or attempt.ended or self._clock()) - attempt.started
        if attempt.first_token is None:
            if waited_s < usual_s:
                return
            waited_s = usual_s
        self._events.append((attempt.endpoint.pk, _CANCELLED, waited_s, streamed, None, None))

    def endpoint_stats(self) -> Mapping[int, EndpointStats]:
        """Statistics by endpoint, about a second old at most. A live view, for look-ups only."""
        if not self.followed and self._clock() - self._refreshed_at >= REFRESH_S:
            for _ in self.refresh():
                pass
        return self._view

    # --- What the thread calls ------------------------------------------------------------------

    def refresh(self) -> Iterator[None]:
        """Count new events, drop old slices, and recompute changed statistics. Run it to its end;
        each step takes some milliseconds."""
        self._refreshed_at = now = self._clock()
        while self._events:
            counters = self._count_events()
            self.add_others(list(counters.items()), now, in_long=True)
            if self.collects:
                merge_counters(self._own, counters.items())
            yield
        for window in (self.recent, self.half_hour, self.day):
            for endpoints in window.advance(window.number_at(now)):
                self._dirty.update(endpoints)
                yield
        changed, self._dirty = list(self._dirty), set()
        recent, half_hour, day = self.recent.totals, self.half_hour.totals, self.day.totals
        for start in range(0, len(changed), PIECE_ENDPOINTS):
            for each in changed[start : start + PIECE_ENDPOINTS]:
                stats = build_stats(recent.get(each), half_hour.get(each), day.get(each))
                if stats is None:
                    self._stats.pop(each, None)
                else:
                    self._stats[each] = stats
            yield

    def take(self) -> dict[int, EndpointCounter]:
        """Take what was counted here since the last call."""
        taken, self._own = self._own, {}
        return taken

    def add_others(
        self, pairs: list[tuple[int, EndpointCounter]], at: float, *, in_long: bool
    ) -> None:
        """Add counts of another process; without `in_long` the long windows have them already."""
        self.recent.add(self.recent.number_at(at), pairs)
        if in_long:
            self.half_hour.add(self.half_hour.number_at(at), pairs)
            bare = [(endpoint, counter.calls_only()) for endpoint, counter in pairs]
            self.day.add(self.day.number_at(at), bare)
        self._dirty.update(endpoint for endpoint, _ in pairs)

    def touch(self, endpoints: Iterable[int]) -> None:
        """Recompute these at the next refresh: a window got new counts."""
        self._dirty.update(endpoints)

    def _count_events(self) -> dict[int, EndpointCounter]:
        counters: dict[int, EndpointCounter] = {}
        events = self._events
        for _ in range(min(len(events), _EVENTS_AT_ONCE)):
            endpoint, outcome, latency_s, streamed, speed, tools = events.popleft()
            counter = counters.get(endpoint)
            if counter is None:
                counter = counters[endpoint] = EndpointCounter()
            if outcome == _ANSWERED:
                counter.count_answer(
                    latency_s, streamed=streamed, speed_tps=speed, tools_good=tools
                )
            elif outcome == _CANCELLED:
                assert latency_s is not None
                counter.count_latency(latency_s, streamed=streamed)
            elif outcome == _FAILED:
                counter.failed += 1
            else:
                counter.limited += 1
        return counters


def is_request_at_fault(failure: UpstreamFailure) -> bool:
    """Whether the endpoint did its part: it refused this request, or a time passed that was not its
    own. That is what was left of the request's, or the caller's wait for the first byte."""
    return (
        failure.status in _REQUEST_STATUSES
        or failure.error_type in _REQUEST_ERRORS
        or ((failure.deadline or failure.first_byte) and not failure.outage)
    )


def _compute_speed_tps(attempt: Attempt, *, streamed: bool, tokens: int) -> float | None:
    """Tokens per second: from the first token of a stream, else over the full time."""
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
    """The one of this process."""
    return Observer(window_s=settings.ROUTER_STATS_WINDOW_SECONDS)


def record_attempt(
    attempt: Attempt, *, streamed: bool, tokens: int = 0, tools_good: bool | None = None
) -> None:
    """`Observer.record_attempt` of this process."""
    observer().record_attempt(attempt, streamed=streamed, tokens=tokens, tools_good=tools_good)


def record_cancelled(attempt: Attempt, *, streamed: bool, usual_s: float) -> None:
    """`Observer.record_cancelled` of this process."""
    observer().record_cancelled(attempt, streamed=streamed, usual_s=usual_s)


def endpoint_stats() -> Mapping[int, EndpointStats]:
    """`Observer.endpoint_stats` of this process."""
    return observer().endpoint_stats()


def health_snapshot() -> HealthSnapshot:
    """Endpoints that are unstable, parked or half open now, as far as this process knows."""
    return process.health().snapshot(process.now())


def refresh() -> None:
    """Run the refresh of every second now, letting others run in between."""
    for _ in observer().refresh():
        yield_control()


_refreshing: Final = PeriodicWork("statistics", refresh, every_s=REFRESH_S, log=log)


def start() -> None:
    """Refresh in a thread from now on; call after a fork."""
    observer().followed = True
    _refreshing.start()


def stop() -> None:
    """Refresh at each reading, from now on."""
    _refreshing.stop(within_s=0.2)
    observer().followed = False
