"""Lists one page at a time."""

from typing import Any, Generic, NamedTuple, TypeVar

Row = TypeVar("Row")
# Nobody turns so many pages, and a longer number would be a slow query.
_DIGITS_MAX = 6


class Page(NamedTuple, Generic[Row]):
    """Rows in order, and where the next page begins (empty: nowhere)."""

    rows: list[Row]
    next_cursor: str


def cut_page(rows: Any, cursor: str, limit: int) -> Page[Any]:
    """The rows (a list or a query) from where the cursor says, which is how many come before. One
    that says nothing is the beginning."""
    start = int(cursor) if cursor.isdecimal() and len(cursor) <= _DIGITS_MAX else 0
    found = list(rows[start : start + limit + 1])
    return Page(found[:limit], str(start + limit) if len(found) > limit else "")
