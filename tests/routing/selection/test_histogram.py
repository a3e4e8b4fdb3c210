"""Buckets keep their promise of precision. That counts add up, the tallies prove."""

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
    percentiles,
)

VALUE = st.floats(LEAST, 1e6, allow_nan=False)
SOME = st.lists(VALUE, min_size=1, max_size=200)


def counts_of(values: list[float]) -> Counts | None:
    counts: Counts | None = None
    for value in values:
        counts = counted(counts, value)
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
