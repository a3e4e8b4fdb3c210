"""Histograms are precise, tallies add up and survive being packed, windows forget; and thin data
says nothing."""

import zlib
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.selection.measurements.endpoint_counter import (
    CALLS_MIN,
    SAMPLES_MIN,
    TOOL_ANSWERS_MIN,
    EndpointCounter,
    build_stats,
    parse_counter,
)
from routing.selection.measurements.histogram import (
    BUCKETS,
    LEAST,
    RELATIVE_ERROR,
    VALUES,
    Counts,
    bucket_of,
    count_value,
    percentiles,
)
from routing.selection.measurements.window import PIECE_ENDPOINTS, Window, unpack_piece

# --- Histograms; that counts add up, the tallies prove --------------------------------------------

VALUE = st.floats(LEAST, 1e6, allow_nan=False)
SOME = st.lists(VALUE, min_size=1, max_size=200)


def counts_of(values: list[float]) -> Counts | None:
    counts: Counts | None = None
    for value in values:
        counts = count_value(counts, value)
    return counts


@given(VALUE)
def test_what_is_read_is_within_the_stated_error(value: float) -> None:
    assert VALUES[bucket_of(value)] == pytest.approx(value, rel=RELATIVE_ERROR + 1e-9)


@pytest.mark.parametrize(("value", "bucket"), [(0, 0), (-1, 0), (LEAST, 0), (1e300, BUCKETS - 1)])
def test_the_ends_hold_everything(value: float, bucket: int) -> None:
    assert bucket_of(value) == bucket


@pytest.mark.parametrize("high_is_good", [False, True])
@given(values=SOME)
def test_percentiles_are_those_of_the_measurements(values: list[float], high_is_good: bool) -> None:
    """Counted from the good end: from above where high is good."""
    ordered = sorted(values, reverse=high_is_good)
    found = percentiles(counts_of(values) or {}, high_is_good=high_is_good)

    assert list(found) == sorted(found, reverse=high_is_good)
    for share, told in zip((0.5, 0.75, 0.9, 0.99), found, strict=True):
        exact = ordered[int(share * (len(values) - 1))]
        assert told == pytest.approx(exact, rel=RELATIVE_ERROR + 1e-9)


# --- Tallies --------------------------------------------------------------------------------------

SECONDS = st.none() | st.floats(0.001, 600)
EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("failed")),
        st.tuples(st.just("limited")),
        st.tuples(st.just("answered"), SECONDS, st.booleans(), SECONDS, st.none() | st.booleans()),
    ),
    max_size=30,
)


def tally_of(events: list[Any]) -> EndpointCounter:
    tally = EndpointCounter()
    for event in events:
        match event:
            case ("failed",):
                tally.failed += 1
            case ("limited",):
                tally.limited += 1
            case (_, latency_s, streamed, speed_tps, tools_good):
                tally.count_answer(
                    latency_s, streamed=streamed, speed_tps=speed_tps, tools_good=tools_good
                )
    return tally


def sum_of(*tallies: EndpointCounter) -> EndpointCounter:
    total = EndpointCounter()
    for tally in tallies:
        total.add(tally)
    return total


def same(one: EndpointCounter, other: EndpointCounter) -> bool:
    def row(tally: EndpointCounter) -> list[Any]:
        counts = (tally.first_token, tally.whole, tally.speed)
        return [*tally.serialize(1)[:6], *(each or {} for each in counts)]

    return row(one) == row(other)


@given(EVENTS, EVENTS, EVENTS)
def test_tallies_add_up_in_any_order(a: list[Any], b: list[Any], c: list[Any]) -> None:
    one, two, three = map(tally_of, (a, b, c))

    assert same(sum_of(one, two, three), sum_of(three, sum_of(two, one)))
    assert same(sum_of(one, two, three), tally_of(a + b + c))


@given(EVENTS, EVENTS)
def test_what_was_added_can_be_taken_away_and_is_left_alone(a: list[Any], b: list[Any]) -> None:
    total, first, second = EndpointCounter(), tally_of(a), tally_of(b)
    total.add(first)
    total.add(second)
    assert same(first, tally_of(a))

    total.subtract(second)

    assert same(total, first)
    total.subtract(first)
    assert total.is_empty


@given(EVENTS)
def test_a_packed_tally_comes_back_as_it_was(events: list[Any]) -> None:
    endpoint, tally = parse_counter(tally_of(events).serialize(7))

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
    parse_counter(GOOD)
    with pytest.raises(ValueError, match=r"tally|histogram|unpack|zip"):
        parse_counter(row)


def count_answers(count: int, **options: Any) -> EndpointCounter:
    tally = EndpointCounter()
    for _ in range(count):
        tally.count_answer(options.get("latency_s", 1.0), streamed=True, **options.get("more", {}))
    return tally


def test_an_uptime_needs_ten_calls_and_rate_limits_are_none() -> None:
    tally = count_answers(CALLS_MIN - 1)
    tally.limited = 1000
    assert tally.uptime is None

    tally.failed = 1
    assert tally.uptime == pytest.approx(90.0)


def test_percentiles_need_a_few_samples() -> None:
    assert count_answers(SAMPLES_MIN - 1).latency_s is None

    found = count_answers(SAMPLES_MIN).latency_s
    assert found is not None
    assert found.p99 == pytest.approx(1.0, rel=RELATIVE_ERROR)


def test_tool_success_needs_a_few_answers_with_tool_calls() -> None:
    tally = count_answers(20)
    assert tally.tool_success is None
    for good in [True] * 3 + [False] * (TOOL_ANSWERS_MIN - 4):
        tally.count_answer(None, streamed=False, tools_good=good)
    assert tally.tool_success is None

    tally.count_answer(None, streamed=False, tools_good=False)

    assert tally.tool_success == pytest.approx(3 / TOOL_ANSWERS_MIN)


def test_answers_in_one_piece_count_where_there_are_too_few_streams() -> None:
    tally = EndpointCounter()
    for _ in range(SAMPLES_MIN):
        tally.count_answer(8.0, streamed=False)
    assert tally.latency_s is not None
    assert tally.latency_s.p50 == pytest.approx(8.0, rel=RELATIVE_ERROR)

    tally.add(count_answers(SAMPLES_MIN, latency_s=0.5))

    assert tally.latency_s.p50 == pytest.approx(0.5, rel=RELATIVE_ERROR)


def test_figures_put_the_windows_together() -> None:
    assert build_stats(None, None, None) is None

    quiet = build_stats(None, count_answers(20), count_answers(5))
    assert quiet is not None
    assert (quiet.calls, quiet.uptime_5m, quiet.uptime_30m, quiet.uptime_1d) == (0, None, 100, None)

    busy = build_stats(count_answers(3), None, None)
    assert busy is not None
    assert (busy.calls, busy.latency_s) == (3, None)


# --- The last so many slices: sums that grow and shrink as slices come and go ---------------------

SLICES = 3


def advance_window(window: Window, number: int) -> set[int]:
    return {endpoint for step in window.advance(number) for endpoint in step}


def sums(window: Window) -> dict[int, int]:
    return {endpoint: tally.answered for endpoint, tally in window.totals.items()}


def test_a_slice_counts_until_it_leaves_the_window() -> None:
    window = Window(slice_s=10, slices=SLICES)
    window.add(window.number_at(100), [(1, count_answers(2))])
    assert advance_window(window, 12) == set()
    window.add(12, [(1, count_answers(1)), (2, count_answers(1))])
    assert sums(window) == {1: 3, 2: 1}

    assert advance_window(window, 13) == {1}

    assert sums(window) == {1: 1, 2: 1}
    assert advance_window(window, 100) == {1, 2}
    assert window.totals == {}


@given(
    st.lists(
        st.tuples(st.integers(0, 4), st.integers(0, 3), st.integers(1, 5), st.integers(1, 3)),
        max_size=40,
    )
)
def test_sums_are_those_of_the_slices_in_the_window(steps: list[tuple[int, int, int, int]]) -> None:
    """Each step: time passes, then something is counted, some slices late."""
    window, now = Window(slice_s=1, slices=SLICES), 10
    told: list[tuple[int, int, int]] = []
    for passes, late, endpoint, calls in steps:
        now += passes
        advance_window(window, now)
        window.add(now - late, [(endpoint, count_answers(calls))])
        told.append((now - late, endpoint, calls))

        wanted: Counter[int] = Counter()
        for number, of, count in told:
            if now - SLICES < number:
                wanted[of] += count
        assert sums(window) == wanted
        between: Counter[int] = Counter()
        for _, piece in window.dump_pieces():
            for of, tally in unpack_piece(piece):
                between[of] += tally.answered
        assert between == wanted


def test_a_big_window_is_worked_on_in_pieces() -> None:
    window = Window(slice_s=10, slices=SLICES)
    everybody = range(5 * PIECE_ENDPOINTS)
    window.add(1, [(endpoint, count_answers(1)) for endpoint in everybody])

    sealing = list(window.advance(2))
    leaving = list(window.advance(20))

    assert len(sealing) == len(leaving) == 5
    assert max(map(len, leaving)) == PIECE_ENDPOINTS


def test_what_was_dumped_can_be_loaded() -> None:
    window = Window(slice_s=10, slices=SLICES)
    window.add(1, [(1, count_answers(2))])
    advance_window(window, 2)
    window.add(2, [(1, count_answers(3)), (2, count_answers(1))])

    other = Window(slice_s=10, slices=SLICES)
    for number, piece in window.dump_pieces():
        other.add(number + 100, unpack_piece(piece))

    assert sums(other) == sums(window) == {1: 5, 2: 1}
    assert advance_window(other, 104) == {1}
    assert sums(other) == {1: 3, 2: 1}


def test_a_piece_of_more_than_four_mebibytes_is_not_unpacked() -> None:
    largest = b"[]".ljust(4 * 1024 * 1024)
    assert unpack_piece(zlib.compress(largest)) == []

    with pytest.raises(ValueError, match="too large"):
        unpack_piece(zlib.compress(largest + b" "))
