"""Tallies add up and survive being packed; thin data says nothing."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.selection.figures import (
    CALLS_MIN,
    SAMPLES_MIN,
    TOOL_ANSWERS_MIN,
    Tally,
    figures_of,
    unpacked,
)
from routing.selection.histogram import RELATIVE_ERROR

SECONDS = st.none() | st.floats(0.001, 600)
EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("failed")),
        st.tuples(st.just("limited")),
        st.tuples(st.just("answered"), SECONDS, st.booleans(), SECONDS, st.none() | st.booleans()),
    ),
    max_size=30,
)


def tally_of(events: list[Any]) -> Tally:
    tally = Tally()
    for event in events:
        match event:
            case ("failed",):
                tally.failed += 1
            case ("limited",):
                tally.limited += 1
            case (_, latency_s, streamed, speed_tps, tools_good):
                tally.answer(
                    latency_s, streamed=streamed, speed_tps=speed_tps, tools_good=tools_good
                )
    return tally


def sum_of(*tallies: Tally) -> Tally:
    total = Tally()
    for tally in tallies:
        total.add(tally)
    return total


def same(one: Tally, other: Tally) -> bool:
    def row(tally: Tally) -> list[Any]:
        counts = (tally.first_token, tally.whole, tally.speed)
        return [*tally.packed(1)[:6], *(each or {} for each in counts)]

    return row(one) == row(other)


@given(EVENTS, EVENTS, EVENTS)
def test_tallies_add_up_in_any_order(a: list[Any], b: list[Any], c: list[Any]) -> None:
    one, two, three = map(tally_of, (a, b, c))

    assert same(sum_of(one, two, three), sum_of(three, sum_of(two, one)))
    assert same(sum_of(one, two, three), tally_of(a + b + c))


@given(EVENTS, EVENTS)
def test_what_was_added_can_be_taken_away_and_is_left_alone(a: list[Any], b: list[Any]) -> None:
    total, first, second = Tally(), tally_of(a), tally_of(b)
    total.add(first)
    total.add(second)
    assert same(first, tally_of(a))

    total.take_away(second)

    assert same(total, first)
    total.take_away(first)
    assert total.is_empty


@given(EVENTS)
def test_a_packed_tally_comes_back_as_it_was(events: list[Any]) -> None:
    endpoint, tally = unpacked(tally_of(events).packed(7))

    assert endpoint == 7
    assert same(tally, tally_of(events))


GOOD: list[Any] = [1, 2, 3, 4, 5, 6, [3, 1], [], []]


@pytest.mark.parametrize(
    "row",
    [
        None,
        [],
        GOOD[:-1],
        [*GOOD, []],
        [*GOOD[:1], -1, *GOOD[2:]],
        [*GOOD[:1], 1.5, *GOOD[2:]],
        [*GOOD[:1], True, *GOOD[2:]],
        ["x", *GOOD[1:]],
        [*GOOD[:6], [3], [], []],
        [*GOOD[:6], [300, 1], [], []],
        [*GOOD[:6], [3, 0], [], []],
        [*GOOD[:6], [3, "1"], [], []],
        [*GOOD[:6], 5, [], []],
        [*GOOD[:6], [[], 1], [], []],
    ],
)
def test_what_is_no_packed_tally_is_refused(row: Any) -> None:
    unpacked(GOOD)
    with pytest.raises(ValueError, match=r"tally|histogram|unpack|zip"):
        unpacked(row)


def answered(count: int, **options: Any) -> Tally:
    tally = Tally()
    for _ in range(count):
        tally.answer(options.get("latency_s", 1.0), streamed=True, **options.get("more", {}))
    return tally


def test_an_uptime_needs_ten_calls_and_rate_limits_are_none() -> None:
    tally = answered(CALLS_MIN - 1)
    tally.limited = 1000
    assert tally.uptime is None

    tally.failed = 1
    assert tally.uptime == pytest.approx(90.0)


def test_percentiles_need_a_few_samples() -> None:
    assert answered(SAMPLES_MIN - 1).latency_s is None

    found = answered(SAMPLES_MIN).latency_s
    assert found is not None
    assert found.p99 == pytest.approx(1.0, rel=RELATIVE_ERROR)


def test_tool_success_needs_a_few_answers_with_tool_calls() -> None:
    tally = answered(20)
    assert tally.tool_success is None
    for good in [True] * 3 + [False] * (TOOL_ANSWERS_MIN - 4):
        tally.answer(None, streamed=False, tools_good=good)
    assert tally.tool_success is None

    tally.answer(None, streamed=False, tools_good=False)

    assert tally.tool_success == pytest.approx(3 / TOOL_ANSWERS_MIN)


def test_answers_in_one_piece_count_where_there_are_too_few_streams() -> None:
    tally = Tally()
    for _ in range(SAMPLES_MIN):
        tally.answer(8.0, streamed=False)
    assert tally.latency_s is not None
    assert tally.latency_s.p50 == pytest.approx(8.0, rel=RELATIVE_ERROR)

    tally.add(answered(SAMPLES_MIN, latency_s=0.5))

    assert tally.latency_s.p50 == pytest.approx(0.5, rel=RELATIVE_ERROR)


def test_ninety_percent_are_at_least_as_fast_as_the_ninetieth_percentile() -> None:
    tally = Tally()
    for speed in [10.0] * 5 + [100.0] * 95:
        tally.answer(None, streamed=True, speed_tps=speed)

    found = tally.throughput_tps

    assert found is not None
    assert found.p90 == pytest.approx(100, rel=RELATIVE_ERROR)
    assert found.p99 == pytest.approx(10, rel=RELATIVE_ERROR)


def test_figures_put_the_windows_together() -> None:
    assert figures_of(None, None, None) is None

    quiet = figures_of(None, answered(20), answered(5))
    assert quiet is not None
    assert (quiet.calls, quiet.uptime_5m, quiet.uptime_30m, quiet.uptime_1d) == (0, None, 100, None)

    busy = figures_of(answered(3), None, None)
    assert busy is not None
    assert (busy.calls, busy.latency_s) == (3, None)
