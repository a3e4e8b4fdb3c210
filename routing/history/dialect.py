"""SQL: fragments of it in the words of each database, and statements with their bound values."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Literal, NamedTuple
from uuid import UUID

from django.db import connection

Granularity = Literal["minute", "hour", "day", "week", "month"]
GRANULARITIES: Final[tuple[Granularity, ...]] = ("minute", "hour", "day", "week", "month")
_SQLITE_CHARS: Final = {"minute": 16, "hour": 13, "day": 10, "month": 7}


@dataclass(frozen=True)
class Dialect:
    """Fragments of SQL. No value of a caller gets into one: values are bound."""

    sqlite: bool

    def json_text(self, column: str, name: str) -> str:
        """A top-level field of a JSON column as text, null where it is not there."""
        if self.sqlite:
            return f"json_extract({column}, '$.{name}')"
        return f"({column} ->> '{name}')"

    def json_part(self, column: str, name: str) -> str:
        """A top-level object of a JSON column as JSON, null where it is not there."""
        if self.sqlite:
            return f"json_extract({column}, '$.{name}')"
        return f"({column} -> '{name}')"

    def tags(self, column: str) -> str:
        """Behind a FROM or a JOIN: the pairs of a JSON object, as rows of `tag`."""
        if self.sqlite:
            return f"json_each({column}) AS tag"
        return f"jsonb_each_text({column}) AS tag(key, value)"

    def aggregate(self, value: str) -> str:
        """All values of a group as one JSON list."""
        return f"json_group_array({value})" if self.sqlite else f"jsonb_agg({value})"

    def build_list(self, value: str) -> str:
        """A JSON list of one."""
        return f"json_array({value})" if self.sqlite else f"jsonb_build_array({value})"

    def elements(self, column: str) -> str:
        """Behind a FROM: the numbers of a JSON list, as `each.value`."""
        if self.sqlite:
            return f" CROSS JOIN json_each({column}) AS each"
        return f" CROSS JOIN LATERAL jsonb_array_elements({column}) AS each(value)"

    def period_start(self, granularity: Granularity, column: str) -> str:
        """The beginning of the period (UTC) that a moment lies in, as `parse_moment` reads it."""
        if not self.sqlite:
            return f"date_trunc('{granularity}', {column} AT TIME ZONE 'UTC')"
        if granularity == "week":
            return f"date({column}, 'weekday 0', '-6 days')"
        return f"substr({column}, 1, {_SQLITE_CHARS[granularity]})"

    def parse_moment(self, value: object) -> datetime:
        """Read a value of `period_start`, in UTC."""
        if isinstance(value, str):
            value = datetime.fromisoformat(value if len(value) > 7 else f"{value}-01")
        assert isinstance(value, datetime)
        return value.replace(tzinfo=UTC)

    def join(self, *texts: str) -> str:
        """Join texts by a character that no name has."""
        return f" || {self.separator} || ".join(texts)

    @property
    def separator(self) -> str:
        return "char(31)" if self.sqlite else "chr(31)"

    def hash_text(self, salt: str, text: str) -> str:
        """SHA-256 hex of a bound salt and a text behind it."""
        if self.sqlite:
            return f"SHA256({salt} || {text})"
        return f"encode(sha256(convert_to({salt} || {text}, 'UTF8')), 'hex')"

    def text_of_uuid(self, column: str) -> str:
        """A UUID with hyphens, as Python writes it."""
        if not self.sqlite:
            return f"CAST({column} AS text)"
        cuts = ((1, 8), (9, 4), (13, 4), (17, 4), (21, 12))
        return " || '-' || ".join(f"substr({column}, {at}, {chars})" for at, chars in cuts)

    def last_word(self, column: str, mark: str) -> str:
        """The text after the first `mark`, "" without one."""
        if self.sqlite:
            rest = f"substr({column}, instr({column}, '{mark}') + 1)"
            return f"CASE WHEN instr({column}, '{mark}') > 0 THEN {rest} ELSE '' END"
        rest = f"substr({column}, strpos({column}, '{mark}') + 1)"
        return f"CASE WHEN strpos({column}, '{mark}') > 0 THEN {rest} ELSE '' END"

    @property
    def bytewise(self) -> str:
        """Appended to a text column to order it by its bytes, as SQLite does."""
        return "" if self.sqlite else ' COLLATE "C"'

    def moment(self, value: datetime) -> Any:
        """The value to bind for a column of moments."""
        return connection.ops.adapt_datetimefield_value(value)

    def uuid(self, value: UUID) -> Any:
        return value.hex if self.sqlite else value


def dialect() -> Dialect:
    """The dialect of the database in use."""
    return Dialect(connection.vendor == "sqlite")


def read_moment(value: object) -> datetime:
    """A moment in UTC; SQLite returns text."""
    moment = datetime.fromisoformat(value) if isinstance(value, str) else value
    assert isinstance(moment, datetime)
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


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
