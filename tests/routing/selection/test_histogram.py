"""Buckets keep their promise of precision, and whatever is counted apart adds up."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.selection.histogram import (
    BUCKETS,
    LEAST,
    RELATIVE_ERROR,
    VALUES,
    Counts,
    bucket_of,
    counted,
    merged,
    percentiles,
    without,
)

VALUE = st.floats(LEAST, 1e6, allow_nan=False)
SOME = st.lists(VALUE, max_size=40)


def counts_of(values: list[float]) -> Counts | None:
    counts: Counts | None = None
    for value in values:
        counts = counted(counts, value)
    return counts


def copied(counts: Counts | None) -> Counts | None:
    return None if counts is None else dict(counts)


@given(VALUE)
def test_what_is_read_is_within_the_stated_error(value: float) -> None:
    assert VALUES[bucket_of(value)] == pytest.approx(value, rel=RELATIVE_ERROR + 1e-9)


@pytest.mark.parametrize(("value", "bucket"), [(0, 0), (-1, 0), (LEAST, 0), (1e300, BUCKETS - 1)])
def test_the_ends_hold_everything(value: float, bucket: int) -> None:
    assert bucket_of(value) == bucket


@given(SOME, SOME, SOME)
def test_merging_is_associative_and_commutative(
    a: list[float], b: list[float], c: list[float]
) -> None:
    one, two, three = map(counts_of, (a, b, c))

    left = merged(merged(copied(one), two), three)
    right = merged(copied(one), merged(copied(two), three))
    swapped = merged(merged(copied(three), two), one)

    assert left == right == swapped == counts_of(a + b + c)


@given(SOME, SOME)
def test_what_was_merged_can_be_taken_away(a: list[float], b: list[float]) -> None:
    one, two = counts_of(a), counts_of(b)

    assert without(merged(copied(one), two), two) == one


@given(st.lists(VALUE, min_size=1, max_size=200))
def test_percentiles_are_those_of_the_measurements(values: list[float]) -> None:
    ordered = sorted(values)
    found = percentiles(counts_of(values) or {})

    for share, told in zip((0.5, 0.75, 0.9, 0.99), found, strict=True):
        exact = ordered[int(share * (len(values) - 1))]
        assert told == pytest.approx(exact, rel=RELATIVE_ERROR + 1e-9)


@given(st.lists(VALUE, min_size=1, max_size=200))
def test_where_high_is_good_they_count_from_above(values: list[float]) -> None:
    ordered = sorted(values, reverse=True)
    found = percentiles(counts_of(values) or {}, high_is_good=True)

    assert found.p50 >= found.p75 >= found.p90 >= found.p99
    assert found.p90 == pytest.approx(
        ordered[int(0.9 * (len(values) - 1))], rel=RELATIVE_ERROR + 1e-9
    )


@given(st.lists(VALUE, min_size=2, max_size=100), st.floats(2, 1e6))
def test_one_outlier_decides_nothing(values: list[float], factor: float) -> None:
    """However bad one more measurement is, every percentile is still one of the others'."""
    others = {VALUES[bucket_of(value)] for value in values}
    worse = counts_of([*values, min(max(values) * factor, 1e7)])

    assert set(percentiles(worse or {})) <= others


@given(st.lists(VALUE, min_size=5, max_size=100), VALUE)
def test_one_sample_moves_a_median_to_its_neighbour_at_most(
    values: list[float], more: float
) -> None:
    ordered = sorted(values)
    middle = (len(values) - 1) // 2
    low, high = ordered[max(0, middle - 1)], ordered[min(len(values) - 1, middle + 1)]

    median = percentiles(counts_of([*values, more]) or {}).p50

    assert low * (1 - 2 * RELATIVE_ERROR) <= median <= high * (1 + 2 * RELATIVE_ERROR)
