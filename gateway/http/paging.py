"""Pages of management lists: `offset` and `limit` of the query, never clamped."""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from gateway.http.errors import SchemaInvalid
from gateway.http.validation import Issue

LIMIT_DEFAULT: Final = 50
LIMIT_MAX: Final = 100
# The largest row number that a database can be asked for.
OFFSET_MAX: Final = 2**63 - 1 - LIMIT_MAX
# More digits than any bound has. `int` itself would be the cost of a very long number.
_INTEGER: Final = re.compile(r"-?[0-9]{1,30}")


class Page(NamedTuple):
    """The rows from `offset` on, at most `limit` of them."""

    offset: int = 0
    limit: int = LIMIT_DEFAULT

    @property
    def rows(self) -> slice:
        return slice(self.offset, self.offset + self.limit)


def parse_page(
    query: Mapping[str, str], *, limit_default: int = LIMIT_DEFAULT, offset_max: int = OFFSET_MAX
) -> Page:
    """The page a query asks for; an empty offset, or `null`, is 0. Raises `SchemaInvalid`."""
    offset, limit = query.get("offset", ""), query.get("limit", str(limit_default))
    issues = [
        *_check_integer("offset", "0" if offset in {"", "null"} else offset, 0, offset_max),
        *_check_integer("limit", limit, 1, LIMIT_MAX),
    ]
    if issues:
        raise SchemaInvalid(issues)
    return Page(0 if offset in {"", "null"} else int(offset), int(limit))


def _check_integer(name: str, text: str, least: int, most: int) -> list[Issue]:
    if not _INTEGER.fullmatch(text):
        return [Issue(name, "Invalid input: expected int, received string")]
    number = int(text)
    if number < least:
        return [Issue(name, f"Too small: expected number to be >={least}")]
    if number > most:
        return [Issue(name, f"Too big: expected number to be <={most}")]
    return []
