"""SQL with its bound values, and ways to combine several. Names in it are constants of ours."""

from collections.abc import Sequence
from typing import Any, NamedTuple


class Sql(NamedTuple):
    """SQL and the values bound in it, in order."""

    sql: str
    values: tuple[Any, ...] = ()


def union_all(branches: Sequence[Sql]) -> Sql:
    """All rows of all branches."""
    values = tuple(value for branch in branches for value in branch.values)
    return Sql(" UNION ALL ".join(branch.sql for branch in branches), values)


def sum_by_groups(branches: Sequence[Sql], columns: Sequence[str], groups: Sequence[str]) -> Sql:
    """The rows of all branches, aggregated by the groups; `columns` are what is selected."""
    rows = union_all(branches)
    text = f"SELECT {', '.join(columns)} FROM ({rows.sql}) sources{group_by(groups)}"  # noqa: S608 - Constant fragments only; the values are bound.
    return Sql(text, rows.values)


def group_by(groups: Sequence[str]) -> str:
    return f" GROUP BY {', '.join(groups)}" if groups else ""
