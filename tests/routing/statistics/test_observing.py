"""What finished attempts leave behind, and what is made of it."""

import threading
from dataclasses import replace
from typing import Any

import pytest

from routing.entities.entries import EndpointEntry
from routing.selection.measurements.histogram import RELATIVE_ERROR
from routing.selection.measurements.window import PIECE_ENDPOINTS
from routing.selection.types import EndpointStats
from routing.statistics.observation import REFRESH_S, HealthEvent
from routing.statistics.periodic import run_together
from routing.upstreams.failures import (
    UpstreamFailure,
    from_status,
    malformed_answer,
    refused_answer,
)
from tests.routing.serving.learning import (
    FAILURE,
    LIMITED,
    Clock,
    attempt,
    figures,
    observer,
    refresh_all,
    some_endpoint,
)


@pytest.fixture
def clock() -> Clock:
    return Clock()


class Watch:
    """An observer and the endpoint it looks at."""

    def __init__(self, clock: Clock) -> None:
        self.clock, self.seen, self.one = clock, observer(clock), some_endpoint()

    def meet(
        self,
        count: int = 10,
        *,
        at: EndpointEntry | None = None,
        streamed: bool = True,
        tokens: int = 0,
        tools_good: bool | None = None,
        **changes: Any,
    ) -> None:
        said: Any = {"streamed": streamed, "tokens": tokens, "tools_good": tools_good}
        for _ in range(count):
            self.seen.record_attempt(attempt(self.clock, at or self.one, **changes), **said)

    def figures(self) -> EndpointStats:
        return figures(self.seen, self.one)

    def p50s(self) -> tuple[Any, ...]:
        """Latency and pace, of minutes and of half an hour."""
        found = self.figures()
        those = (found.latency_s, found.throughput_tps, found.latency_30m_s)
        return tuple(each and each.p50 for each in (*those, found.throughput_30m_tps))


@pytest.fixture
def watch(clock: Clock) -> Watch:
    return Watch(clock)


def near(*values: float | None) -> tuple[Any, ...]:
    return tuple(each and pytest.approx(each, rel=RELATIVE_ERROR + 1e-6) for each in values)


def test_answers_become_figures(watch) -> None:
    watch.meet(tokens=50, tools_good=True)
    assert watch.p50s()[:2] == near(0.5, 50)
    found = watch.figures()
    assert (found.tool_success, found.calls) == (1.0, 10)
    assert (found.uptime_5m, found.uptime_30m, found.uptime_1d) == (100.0, 100.0, 100.0)


def test_an_answer_in_one_piece_or_at_once_is_paced_over_its_whole_time(watch) -> None:
    watch.meet(first_token_s=2.0, took_s=2.0, streamed=False, tokens=50)
    assert watch.p50s()[:2] == near(2.0, 25)
    at_once = Watch(watch.clock)
    at_once.meet(first_token_s=1.0, took_s=1.001, tokens=100)
    assert at_once.p50s()[:2] == near(1.0, 100)


UNPACED: list[tuple[dict[str, Any], int]] = [
    ({}, 0),
    ({}, 1),
    ({"held_up_s": 0.2}, 50),
    ({"took_s": 0.0, "first_token_s": 0.0}, 50),
]


@pytest.mark.parametrize(("changes", "tokens"), UNPACED)
def test_what_says_nothing_about_the_pace_is_not_counted_for_it(watch, changes, tokens) -> None:
    watch.meet(tokens=tokens, **changes)
    found = watch.figures()
    assert (found.throughput_tps, found.calls) == (None, 10)


LATE = UpstreamFailure(524, 524, "timeout", "late", deadline=True)
POLICY = from_status(403, {}, b'{"error": {"code": "content_policy_violation"}}')
ERRORS = [
    FAILURE,
    malformed_answer("nonsense"),
    *(from_status(n, {}, b"") for n in (401, 404, 500)),
]
NOTHING = [LIMITED, POLICY, LATE, *(from_status(n, {}, b"") for n in (400, 413, 422))]
FAILURES: list[tuple[UpstreamFailure, str]] = [
    *((failure, "error") for failure in [*ERRORS, replace(LATE, outage=True)]),
    *((failure, "nothing") for failure in NOTHING),
    (refused_answer(), "answer"),
]


@pytest.mark.parametrize(("failure", "counts_as"), FAILURES)
def test_who_is_to_blame(watch, failure: UpstreamFailure, counts_as: str) -> None:
    watch.meet()
    watch.meet(failure=failure)
    found = watch.figures()
    uptime = {"error": 50.0, "nothing": 100.0, "answer": 100.0}[counts_as]
    assert (found.uptime_5m, found.calls) == (uptime, 10 if counts_as == "nothing" else 20)


def test_failures_are_marked_for_others(clock, watch) -> None:
    two = some_endpoint()
    watch.meet(1, failure=FAILURE)
    watch.meet(1, at=two, failure=LIMITED)
    clock.now += 1
    watch.meet(1, at=two, failure=replace(LIMITED, retry_after_s=7.0))
    watch.meet(1, failure=from_status(400, {}, b""))
    outage, parked = (
        HealthEvent("outage", watch.one.pk, 1000),
        HealthEvent("parked", two.pk, 1001, 1008),
    )
    assert watch.seen.health_events.take() == [outage, parked]


def test_who_was_cancelled_counts_with_its_usual_time_and_in_nothing_else(clock, watch) -> None:
    watch.meet(10, first_token_s=1.0)
    for waited_s in [0.2, *[3.0] * 10]:
        late = attempt(clock, watch.one, first_token_s=None, took_s=waited_s)
        watch.seen.record_cancelled(late, streamed=True, usual_s=2.0)
    found = watch.figures()
    assert (found.uptime_5m, found.calls) == (100, 10)
    # One that hangs does not get more time with each.
    assert (found.stream_p95_s, found.whole_p95_s) == near(2.0, None)
    last_moment = attempt(clock, watch.one, first_token_s=2.5, took_s=2.5)
    for _ in range(20):
        watch.seen.record_cancelled(last_moment, streamed=True, usual_s=2.0)
    assert (watch.figures().stream_p95_s,) == near(2.5)
    clock.now += 3600
    assert watch.figures().stream_p95_s is None


def test_windows_pass(clock, watch) -> None:
    watch.meet(failure=FAILURE)
    told = []
    for minutes in (0, 6, 36, 60 * 25):
        clock.now = 1000 + 60 * minutes
        found = watch.figures()
        told.append((found.uptime_5m, found.uptime_30m, found.uptime_1d))
    assert told == [(0, 0, 0), (None, 0, 0), (None, None, 0), (None, None, None)]
    assert watch.one.pk not in watch.seen.endpoint_stats()


def test_latency_and_pace_are_known_of_half_an_hour_too(clock, watch) -> None:
    watch.meet(tokens=50)
    refresh_all(watch.seen)
    clock.now += 600
    watch.meet(first_token_s=2.0, took_s=4.0, tokens=50)

    assert watch.p50s() == near(2.0, 25, 0.5, 50)
    clock.now += 1200
    assert watch.p50s()[:3] == near(None, None, 2.0)
    assert watch.figures().uptime_5m is None
    clock.now += 1800
    assert watch.figures().latency_30m_s is None


def test_figures_are_made_anew_once_a_second_at_most(clock, watch) -> None:
    assert watch.one.pk not in watch.seen.endpoint_stats()
    watch.meet()
    clock.now += REFRESH_S / 2
    assert watch.one.pk not in watch.seen.endpoint_stats()
    clock.now += REFRESH_S / 2
    assert watch.seen.endpoint_stats()[watch.one.pk].calls == 10


def test_only_what_is_followed_is_left_alone(clock, watch) -> None:
    """Where a greenlet does it, no request does."""
    watch.seen.followed = True
    watch.meet(1)
    clock.now += 10 * REFRESH_S
    assert watch.one.pk not in watch.seen.endpoint_stats()


def test_what_was_counted_here_is_handed_out_once(watch) -> None:
    watch.seen.collects = True
    for _ in range(3):
        watch.meet(1)
        refresh_all(watch.seen)
    taken = watch.seen.take()
    assert {endpoint: tally.answered for endpoint, tally in taken.items()} == {watch.one.pk: 3}
    assert watch.seen.take() == {}


def test_figures_of_many_endpoints_are_worked_out_in_pieces(clock) -> None:
    seen, pieces = observer(clock), 4
    for _ in range(pieces * PIECE_ENDPOINTS):
        seen.record_attempt(attempt(clock, some_endpoint()), streamed=True)

    assert len(list(seen.refresh())) > pieces
    assert len(seen.endpoint_stats()) == pieces * PIECE_ENDPOINTS


def test_work_that_does_not_end_keeps_nobody() -> None:
    done, never = threading.Event(), threading.Event()

    run_together(never.wait, done.set, within_s=0.05)

    assert done.wait(60)
    never.set()
