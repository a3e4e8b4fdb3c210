"""SQL with the values bound in it, and several of them as one. Every name in it is ours."""

from collections.abc import Sequence
from typing import Any, NamedTuple


class Text(NamedTuple):
    """SQL and the values bound in it, in order."""

    sql: str
    values: tuple[Any, ...] = ()


def union(branches: Sequence[Text]) -> Text:
    """All rows of all of them."""
    values = tuple(value for branch in branches for value in branch.values)
    return Text(" UNION ALL ".join(branch.sql for branch in branches), values)


def together(branches: Sequence[Text], told: Sequence[str], groups: Sequence[str]) -> Text:
    """The rows of all of them, summed by the groups."""
    rows = union(branches)
    return Text(f"SELECT {', '.join(told)} FROM ({rows.sql}) sources{by(groups)}", rows.values)  # noqa: S608 - Constant fragments only; the values are bound.


def by(groups: Sequence[str]) -> str:
    return f" GROUP BY {', '.join(groups)}" if groups else ""
