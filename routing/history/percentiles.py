"""Exact percentiles by groups: the smallest value that enough values do not exceed.

Values may come in buckets. The counts of all buckets show which ones hold the percentiles, so only
the values of those are read.
"""

from collections.abc import Sequence

from routing.history.dialect import Dialect, Sql, group_by, sum_by_groups


def rank_values(branches: Sequence[Sql], groups: Sequence[str], percents: Sequence[int]) -> Sql:
    """`p50` and so on by the groups; branches have the groups, `value`, and `many` (its count)."""
    by_value = [*groups, "value"]
    counts = sum_by_groups(branches, [*by_value, "SUM(many) AS many"], by_value)
    ranked = (
        f"SELECT {', '.join(by_value)}, {_upto_sql(groups, 'value')}, {_total_sql(groups)}"  # noqa: S608 - Constant fragments only; the values are bound.
        f" FROM ({counts.sql}) counts"
    )
    return Sql(_select_percentiles(ranked, groups, percents), counts.values)


def find_needed_buckets(heaps: str, groups: Sequence[str], percents: Sequence[int]) -> Sql:
    """The buckets that hold percentiles, with the number of the group's values `below` and in
    `total`. `heaps` has the groups, `bucket`, and `many` (its count)."""
    by_bucket = [*groups, "bucket"]
    counted = (
        f"SELECT {', '.join(by_bucket)}, CAST(SUM(many) AS bigint) AS many"  # noqa: S608 - Constant fragments only.
        f" FROM {heaps}{group_by(by_bucket)}"
    )
    here = " OR ".join(
        f"(upto * 100 >= total * {percent} AND (upto - many) * 100 < total * {percent})"
        for percent in percents
    )
    return Sql(
        f"SELECT {', '.join(by_bucket)}, upto - many AS below, total FROM"  # noqa: S608 - Constant fragments only.
        f" (SELECT {', '.join(by_bucket)}, many,"
        f" {_upto_sql(groups, 'bucket')}, {_total_sql(groups)}"
        f" FROM ({counted}) counts) counted WHERE {here}"
    )


def rank_values_of_buckets(
    heaps: str, needed: str, groups: Sequence[str], percents: Sequence[int], dialect: Dialect
) -> Sql:
    """`rank_values` of those in the needed buckets. `heaps` has them as lists (`figures`);
    each value of a list counts as often as `times` says."""
    columns = [*(f"heaps.{name}" for name in groups), "needed.below", "needed.total"]
    columns.append("heaps.times AS many")
    same = " AND ".join(f"needed.{name} = heaps.{name}" for name in [*groups, "bucket"])
    values = (
        f"SELECT {', '.join(columns)}, CAST(each.value AS bigint) AS value"  # noqa: S608 - Constant fragments only.
        f" FROM {heaps} heaps JOIN {needed} needed ON {same}{dialect.elements('heaps.figures')}"
    )
    # `below` identifies a bucket within its group.
    by_value = [*groups, "below", "total", "value"]
    counted = (
        f"SELECT {', '.join(by_value)}, SUM(many) AS many FROM ({values}) pairs{group_by(by_value)}"  # noqa: S608 - Constant fragments only.
    )
    ranked = (
        f"SELECT {', '.join([*groups, 'value', 'total'])},"  # noqa: S608 - Constant fragments only.
        f" below + {_upto_sql([*groups, 'below'], 'value')} FROM ({counted}) counted"
    )
    return Sql(_select_percentiles(ranked, groups, percents))


def _select_percentiles(ranked: str, groups: Sequence[str], percents: Sequence[int]) -> str:
    firsts = [
        f"MIN(CASE WHEN upto * 100 >= total * {percent} THEN value END) AS p{percent}"
        for percent in percents
    ]
    return f"SELECT {', '.join([*groups, *firsts])} FROM ({ranked}) ranked{group_by(groups)}"  # noqa: S608 - Constant fragments only.


def _upto_sql(groups: Sequence[str], order: str) -> str:
    return f"CAST(SUM(many) OVER ({_partition_sql(groups)} ORDER BY {order}) AS bigint) AS upto"


def _total_sql(groups: Sequence[str]) -> str:
    return f"CAST(SUM(many) OVER ({_partition_sql(groups)}) AS bigint) AS total"


def _partition_sql(groups: Sequence[str]) -> str:
    return f"PARTITION BY {', '.join(groups)}" if groups else ""
