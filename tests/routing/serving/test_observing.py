"""What finished attempts leave behind, and what is made of it."""

import time
import tracemalloc
from dataclasses import replace
from typing import Any

import pytest

from routing.selection.ask import Figures
from routing.selection.histogram import RELATIVE_ERROR
from routing.serving.marks import Mark
from routing.serving.observing import REFRESH_S, Observer
from routing.upstreams.failures import UpstreamFailure, from_status, malformed, refused
from tests.routing.serving.learning import (
    FAILURE,
    LIMITED,
    Clock,
    attempt,
    figures,
    observer,
    refreshed,
    some_endpoint,
)
from tests.support.promptness import in_time


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def seen(clock: Clock) -> Observer:
    return observer(clock)


def near(value: float) -> Any:
    return pytest.approx(value, rel=RELATIVE_ERROR + 1e-6)


def test_answers_become_figures(clock: Clock, seen: Observer) -> None:
    one = some_endpoint()
    for _ in range(10):
        seen.observed(attempt(clock, one), streamed=True, tokens=50, tools_good=True)

    found = figures(seen, one)

    assert found.latency_s is not None
    assert found.latency_s.p50 == near(0.5)
    assert found.throughput_tps is not None
    assert found.throughput_tps.p50 == near(50)
    assert (found.tool_success, found.uptime_5m, found.calls) == (1.0, 100.0, 10)
    assert (found.uptime_30m, found.uptime_1d) == (100.0, 100.0)


def test_an_answer_in_one_piece_is_paced_over_its_whole_time(clock: Clock, seen: Observer) -> None:
    one = some_endpoint()
    for _ in range(10):
        whole = attempt(clock, one, first_token_s=2.0, took_s=2.0)
        seen.observed(whole, streamed=False, tokens=50)

    found = figures(seen, one)

    assert found.latency_s is not None
    assert found.latency_s.p50 == near(2.0)
    assert found.throughput_tps is not None
    assert found.throughput_tps.p50 == near(25)


UNPACED: list[tuple[dict[str, Any], int]] = [
    ({}, 0),
    ({}, 1),
    ({"held_up_s": 0.2}, 50),
    ({"took_s": 0.0, "first_token_s": 0.0}, 50),
]


@pytest.mark.parametrize(("changes", "tokens"), UNPACED)
def test_what_says_nothing_about_the_pace_is_not_counted_for_it(
    clock: Clock, seen: Observer, changes: dict[str, Any], tokens: int
) -> None:
    one = some_endpoint()
    for _ in range(10):
        seen.observed(attempt(clock, one, **changes), streamed=True, tokens=tokens)

    found = figures(seen, one)

    assert found.throughput_tps is None
    assert found.calls == 10


def test_a_stream_that_came_at_once_is_paced_over_its_whole_time(
    clock: Clock, seen: Observer
) -> None:
    one = some_endpoint()
    for _ in range(10):
        burst = attempt(clock, one, first_token_s=1.0, took_s=1.001)
        seen.observed(burst, streamed=True, tokens=100)

    found = figures(seen, one).throughput_tps

    assert found is not None
    assert found.p50 == near(100)


FAILURES: list[tuple[UpstreamFailure, str]] = [
    (FAILURE, "error"),
    (malformed("nonsense"), "error"),
    (from_status(401, {}, b""), "error"),
    (from_status(404, {}, b""), "error"),
    (from_status(500, {}, b""), "error"),
    (LIMITED, "nothing"),
    (from_status(400, {}, b""), "nothing"),
    (from_status(422, {}, b""), "nothing"),
    (from_status(413, {}, b""), "nothing"),
    (from_status(403, {}, b'{"error": {"code": "content_policy_violation"}}'), "nothing"),
    (UpstreamFailure(524, 524, "timeout", "late", deadline=True), "nothing"),
    (UpstreamFailure(524, 524, "timeout", "late", deadline=True, outage=True), "error"),
    (refused(), "answer"),
]


@pytest.mark.parametrize(("failure", "counts_as"), FAILURES)
def test_who_is_to_blame(
    clock: Clock, seen: Observer, failure: UpstreamFailure, counts_as: str
) -> None:
    one = some_endpoint()
    for _ in range(10):
        seen.observed(attempt(clock, one), streamed=True)
        seen.observed(attempt(clock, one, failure=failure), streamed=True)

    found = figures(seen, one)

    assert found.uptime_5m == {"error": 50.0, "nothing": 100.0, "answer": 100.0}[counts_as]
    assert found.calls == (10 if counts_as == "nothing" else 20)


def test_failures_are_marked_for_others(clock: Clock, seen: Observer) -> None:
    one, two = some_endpoint(), some_endpoint()
    seen.observed(attempt(clock, one, failure=FAILURE), streamed=True)
    seen.observed(attempt(clock, two, failure=LIMITED), streamed=True)
    hinted = replace(LIMITED, retry_after_s=7.0)
    clock.now += 1
    seen.observed(attempt(clock, two, failure=hinted), streamed=True)
    seen.observed(attempt(clock, one, failure=from_status(400, {}, b"")), streamed=True)

    assert seen.marks.take() == [
        Mark("outage", one.pk, 1000),
        Mark("parked", two.pk, 1001, 1008),
    ]


def test_thin_data_says_nothing(clock: Clock, seen: Observer) -> None:
    one = some_endpoint()
    for _ in range(4):
        seen.observed(attempt(clock, one), streamed=True, tokens=50, tools_good=False)

    assert figures(seen, one) == Figures(calls=4)


def test_windows_pass(clock: Clock, seen: Observer) -> None:
    one = some_endpoint()
    for _ in range(10):
        seen.observed(attempt(clock, one, failure=FAILURE), streamed=True)

    told = []
    for minutes in (0, 6, 36, 60 * 25):
        clock.now = 1000 + 60 * minutes
        found = figures(seen, one)
        told.append((found.uptime_5m, found.uptime_30m, found.uptime_1d))

    assert told == [(0, 0, 0), (None, 0, 0), (None, None, 0), (None, None, None)]
    assert one.pk not in seen.figures()


def test_latency_and_pace_are_known_of_half_an_hour_too(clock: Clock, seen: Observer) -> None:
    one = some_endpoint()
    for _ in range(10):
        seen.observed(attempt(clock, one), streamed=True, tokens=50)
    refreshed(seen)
    clock.now += 600
    for _ in range(10):
        slow = attempt(clock, one, first_token_s=2.0, took_s=4.0)
        seen.observed(slow, streamed=True, tokens=50)

    found = figures(seen, one)

    assert found.latency_s is not None
    assert found.latency_30m_s is not None
    assert (found.latency_s.p50, found.latency_30m_s.p50) == (near(2.0), near(0.5))
    assert found.throughput_tps is not None
    assert found.throughput_30m_tps is not None
    assert (found.throughput_tps.p50, found.throughput_30m_tps.p50) == (near(25), near(50))
    clock.now += 1200
    later = figures(seen, one)
    assert later.latency_s is later.throughput_tps is None
    assert later.latency_30m_s is not None
    assert (later.latency_30m_s.p50, later.uptime_5m) == (near(2.0), None)
    clock.now += 1800
    assert figures(seen, one).latency_30m_s is None


def test_figures_are_made_anew_once_a_second_at_most(clock: Clock, seen: Observer) -> None:
    one = some_endpoint()
    assert one.pk not in seen.figures()
    for _ in range(10):
        seen.observed(attempt(clock, one), streamed=True)

    clock.now += REFRESH_S / 2
    assert one.pk not in seen.figures()
    clock.now += REFRESH_S / 2
    assert seen.figures()[one.pk].calls == 10


def test_only_what_is_followed_is_left_alone(clock: Clock, seen: Observer) -> None:
    """Where a greenlet does it, no request does."""
    one = some_endpoint()
    seen.followed = True
    seen.observed(attempt(clock, one), streamed=True)
    clock.now += 10 * REFRESH_S

    assert one.pk not in seen.figures()


def test_what_was_counted_here_is_handed_out_once(clock: Clock) -> None:
    one, seen = some_endpoint(), observer(clock, collects=True)
    for _ in range(3):
        seen.observed(attempt(clock, one), streamed=True)
        refreshed(seen)

    taken = seen.take()

    assert {endpoint: tally.answered for endpoint, tally in taken.items()} == {one.pk: 3}
    assert seen.take() == {}


# Of a step's real work there is a tenth; the rest is room for a busy machine.
STEP_S, RECORD_S = 0.02, 5e-6
BYTES_PER_ENDPOINT_MAX = 6_000


class Traffic:
    """All of so many endpoints busy in every slice; `pass_slice` returns the steps' durations."""

    def __init__(self, clock: Clock, endpoints: int) -> None:
        self.clock = clock
        self.seen = observer(clock, collects=True)
        each = (some_endpoint() for _ in range(endpoints))
        self.attempts = [attempt(clock, one, took_s=1 + one.pk % 7) for one in each]

    def pass_slice(self) -> list[float]:
        for each in self.attempts:
            each.started, each.ended = self.clock.now - 1 - each.endpoint.pk % 7, self.clock.now
            self.seen.observed(each, streamed=True, tokens=40 + each.endpoint.pk % 50)
        steps = durations(self.seen)
        self.seen.take()
        self.clock.now += 10
        return steps


@pytest.mark.timed
def test_ten_thousand_endpoints_hold_nobody_up(clock: Clock) -> None:
    traffic = Traffic(clock, 10_000)
    for _ in range(31):
        traffic.pass_slice()

    steps = sorted(step for _ in range(3) for step in traffic.pass_slice())

    assert len(steps) > 100
    in_time(steps[-1 - len(steps) // 50], STEP_S)


def test_the_memory_of_an_endpoint_is_bounded(clock: Clock) -> None:
    endpoints = 500
    traffic = Traffic(clock, endpoints)
    tracemalloc.start()
    try:
        for _ in range(65):
            traffic.pass_slice()
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert used / endpoints <= BYTES_PER_ENDPOINT_MAX


def durations(seen: Observer) -> list[float]:
    """How long each step of a refresh takes where nobody else wants the processor."""
    found, begun = [], time.thread_time()
    for _ in seen.refresh():
        found.append(time.thread_time() - begun)
        begun = time.thread_time()
    return found


def test_a_record_costs_a_few_microseconds(clock: Clock, seen: Observer) -> None:
    ended = attempt(clock, some_endpoint())
    best_s = float("inf")
    for _ in range(5):
        begun = time.perf_counter()
        for _ in range(10_000):
            seen.observed(ended, streamed=True, tokens=50, tools_good=None)
        best_s = min(best_s, (time.perf_counter() - begun) / 10_000)
        refreshed(seen)

    in_time(best_s, RECORD_S)
