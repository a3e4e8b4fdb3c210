"""SQL with the values bound in it, and several of them as one. Every name in it is ours."""

from collections.abc import Sequence
from typing import Any, NamedTuple


class Sql(NamedTuple):
    """SQL and the values bound in it, in order."""

    sql: str
    values: tuple[Any, ...] = ()


def union_all(branches: Sequence[Sql]) -> Sql:
    """All rows of all of them."""
    values = tuple(value for branch in branches for value in branch.values)
    return Sql(" UNION ALL ".join(branch.sql for branch in branches), values)


def sum_by_groups(branches: Sequence[Sql], told: Sequence[str], groups: Sequence[str]) -> Sql:
    """The rows of all of them, summed by the groups."""
    rows = union_all(branches)
    return Sql(f"SELECT {', '.join(told)} FROM ({rows.sql}) sources{group_by(groups)}", rows.values)  # noqa: S608 - Constant fragments only; the values are bound.


def group_by(groups: Sequence[str]) -> str:
    return f" GROUP BY {', '.join(groups)}" if groups else ""
