"""Measurements counted in logarithmic buckets, so that many are few and any two sets add up.

A bucket is 10.5 % wide: its value is within 5 % of each measurement in it (`RELATIVE_ERROR`). They
begin at a tenth of a millisecond, or a token in three hours, and end beyond any measurement.
"""

from collections.abc import Mapping
from math import ceil, log
from typing import Final

from routing.selection.types import Percentiles

RELATIVE_ERROR: Final = 0.05
LEAST: Final = 1e-4
BUCKETS: Final = 256
_WIDTH: Final = (1 + RELATIVE_ERROR) / (1 - RELATIVE_ERROR)
_PER_LOG: Final = 1 / log(_WIDTH)
_SHARES: Final = (0.5, 0.75, 0.9, 0.99)
# The middle of a bucket by ratio, which is as far from one end as from the other.
VALUES: Final = tuple(LEAST * _WIDTH**bucket * 2 / (1 + _WIDTH) for bucket in range(BUCKETS))

# How many measurements fell into each bucket; buckets without any are not in it.
Counts = dict[int, int]


def bucket_of(value: float) -> int:
    """Everything at or below `LEAST` is in bucket 0, everything too large in the last."""
    if value <= LEAST:
        return 0
    return min(ceil(log(value / LEAST) * _PER_LOG), BUCKETS - 1)


def count_value(counts: Counts | None, value: float) -> Counts:
    """The counts with one measurement more; the same object where there is one."""
    bucket = bucket_of(value)
    if counts is None:
        return {bucket: 1}
    counts[bucket] = counts.get(bucket, 0) + 1
    return counts


def add_counts(counts: Counts | None, others: Mapping[int, int] | None) -> Counts | None:
    """The sum, in `counts` itself unless it is None; `others` stays as it is."""
    if not others:
        return counts
    if counts is None:
        return dict(others)
    for bucket, number in others.items():
        counts[bucket] = counts.get(bucket, 0) + number
    return counts


def subtract_counts(counts: Counts | None, others: Mapping[int, int] | None) -> Counts | None:
    """Undo `add_counts`; None once nothing is left."""
    if counts is None or not others:
        return counts
    for bucket, number in others.items():
        remaining = counts.get(bucket, 0) - number
        if remaining > 0:
            counts[bucket] = remaining
        else:
            counts.pop(bucket, None)
    return counts or None


def percentiles(counts: Mapping[int, int], *, high_is_good: bool = False) -> Percentiles:
    """The values that 50, 75, 90 and 99 % of the measurements reached or did better than.

    There must be one measurement at least. The worst one of several is never among the values: a
    single outlier says nothing.
    """
    rank = sum(counts.values()) - 1
    ranks = [int(share * rank) for share in _SHARES]
    values: list[float] = []
    passed = 0
    for bucket in sorted(counts, reverse=high_is_good):
        passed += counts[bucket]
        while len(values) < len(ranks) and ranks[len(values)] < passed:
            values.append(VALUES[bucket])
    return Percentiles(*values)


def find_percentile(counts: Mapping[int, int], share: float) -> float:
    """The value that this share of the measurements did not exceed; there must be one at least."""
    rank, passed = int(share * (sum(counts.values()) - 1)), 0
    for bucket in sorted(counts):
        passed += counts[bucket]
        if rank < passed:
            return VALUES[bucket]
    raise AssertionError("no measurement")
