"""Reading the rows of an export, page by page.

A page is a short query that begins behind the last row of the one before. So neither memory nor a
connection is held for as long as an export takes. What was booked stays as it is, therefore pages
need no common snapshot.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Final, NamedTuple
from uuid import UUID

from django.db import connection

from accounts.models import Account, LedgerEntry
from accounts.models.ledger import USAGE_KINDS
from gateway.eventloop import yield_control
from routing.exports.columns import Column, Per, build_reader, list_columns
from routing.history.dialect import Dialect, dialect, read_moment
from routing.history.spans import DAY, day_of

_ROWS_PER_PAGE: Final[dict[Per, int]] = {"generation": 500, "day": 5_000}
# Some five milliseconds of decoding.
ROWS_A_TURN: Final = 250
# Moments that the databases and their arithmetic can hold.
YEARS: Final = range(1970, 9000)
_DAY: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


@dataclass(frozen=True)
class UsageExport:
    """What was booked on the days (UTC) from `first_day` to `last_day`, both included.

    `account_ids` is None for every account.
    """

    first_day: date
    last_day: date
    per: Per
    account_ids: tuple[UUID, ...] | None = None

    @property
    def start(self) -> datetime:
        return datetime.combine(self.first_day, time(), UTC)

    @property
    def end(self) -> datetime:
        return datetime.combine(self.last_day, time(), UTC) + DAY

    def name(self, ending: str) -> str:
        """What its file is called."""
        days = sorted({self.first_day, self.last_day})
        return f"usage-{self.per}-{'-to-'.join(day.isoformat() for day in days)}.{ending}"

    def list_columns(self) -> tuple[Column, ...]:
        """The columns of its rows."""
        columns = list_columns(self.per, dialect())
        return columns if self.per == "generation" else (_DAY_COLUMN, *columns)


class _Span(NamedTuple):
    account_id: UUID
    start: datetime
    end: datetime


# Each query reads one day, which needs no column in SQL.
_DAY_COLUMN: Final = Column("day", "day", "")
_FROM: Final = """
 FROM accounts_ledgerentry e
 JOIN accounts_account a ON a.id = e.account_id
 LEFT JOIN routing_generation g ON g.id = e.generation_id
 LEFT JOIN accounts_apikey k ON k.id = e.api_key_id
 LEFT JOIN accounts_workspace w ON w.id = e.workspace_id
"""
# The fee for a team's own credentials is an entry of its own, booked with the charge.
_FEE: Final = """ LEFT JOIN accounts_ledgerentry f
 ON e.kind = 'usage' AND f.source = 'byok_fee' AND f.source_ref = e.generation_id
"""
_WHERE: Final = " WHERE e.account_id = %s AND e.created_at >= %s AND e.created_at < %s"


def read_pages(
    export: UsageExport, *, rows_per_page: int | None = None
) -> Iterator[list[list[Any]]]:
    """The rows, in pages; each `next` makes its own queries. Rows of one account are in order of
    time; a value is what `routing.exports.columns.build_reader` says."""
    accounts = Account.objects.order_by("pk").values_list("pk", flat=True)
    if export.account_ids is not None:
        accounts = accounts.filter(pk__in=export.account_ids)
    read = _read_entries if export.per == "generation" else _read_days
    size = rows_per_page or _ROWS_PER_PAGE[export.per]
    for account_id in list(accounts):
        yield from read(_Span(account_id, export.start, export.end), size)


def _read_entries(span: _Span, size: int) -> Iterator[list[list[Any]]]:
    """A row per charge, and one per reversal."""
    sql_dialect = dialect()
    columns = list_columns("generation", sql_dialect)
    read = build_reader(columns, span.account_id)
    kinds = "e.kind IN ('usage', 'usage_reversal')"
    select = f"SELECT {_join_columns(columns)}{_FROM}{_FEE}{_WHERE} AND {kinds}"
    tail = f" ORDER BY e.created_at, e.id LIMIT {size}"
    rows = _fetch_page(select + tail, _bind_span(sql_dialect, span))
    while rows:
        yield [read(row) for row in rows]
        if len(rows) < size:
            return
        last_id, booked_at = rows[-1][0], rows[-1][1]
        after = span._replace(start=read_moment(booked_at))
        values = [*_bind_span(sql_dialect, after), sql_dialect.moment(after.start), last_id]
        rows = _fetch_page(f"{select} AND (e.created_at, e.id) > (%s, %s){tail}", values)


def _read_days(span: _Span, size: int) -> Iterator[list[list[Any]]]:
    """Days without any entry are skipped."""
    start = span.start
    while True:
        entries = LedgerEntry.objects.filter(
            account=span.account_id,
            created_at__gte=start,
            created_at__lt=span.end,
            kind__in=USAGE_KINDS,
        )
        first = entries.order_by("created_at").values_list("created_at", flat=True).first()
        if first is None:
            return
        start = day_of(first) + DAY
        yield from _read_day(_Span(span.account_id, day_of(first), start), size)


def _read_day(span: _Span, size: int) -> Iterator[list[list[Any]]]:
    """A row for each key, model, provider and end user of one day."""
    sql_dialect = dialect()
    columns = list_columns("day", sql_dialect)
    read = build_reader(columns, span.account_id)
    places = [place for place, column in enumerate(columns) if column.groups]
    groups = _join_columns([columns[place] for place in places])
    kinds = ", ".join(f"'{kind}'" for kind in USAGE_KINDS)
    select = f"SELECT {_join_columns(columns)}{_FROM}{_WHERE} AND e.kind IN ({kinds})"
    tail = f" GROUP BY {groups} ORDER BY {groups} LIMIT {size}"
    behind = f" AND ({groups}) > ({', '.join(['%s'] * len(places))})"
    day = span.start.date()
    rows = _fetch_page(select + tail, _bind_span(sql_dialect, span))
    while rows:
        yield [[day, *read(row)] for row in rows]
        if len(rows) < size:
            return
        last = [rows[-1][place] for place in places]
        rows = _fetch_page(select + behind + tail, [*_bind_span(sql_dialect, span), *last])


def _join_columns(columns: Sequence[Column]) -> str:
    return ", ".join(column.sql for column in columns)


def _bind_span(sql_dialect: Dialect, span: _Span) -> list[Any]:
    start, end = sql_dialect.moment(span.start), sql_dialect.moment(span.end)
    return [sql_dialect.uuid(span.account_id), start, end]


def _fetch_page(sql: str, values: Sequence[Any]) -> list[Any]:
    """All rows of a page, decoded in turns: PostgreSQL's are decoded on the event loop."""
    rows: list[Any] = []
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
        while some := cursor.fetchmany(ROWS_A_TURN):
            rows += some
            if connection.vendor == "postgresql":
                yield_control()
    return rows


def parse_day(text: str) -> date:
    """`YYYY-MM-DD`. Raises `ValueError`."""
    # Python also reads days of weeks, such as 2026-W01-1.
    if not _DAY.fullmatch(text):
        raise ValueError(text)
    day = date.fromisoformat(text)
    if day.year not in YEARS:
        raise ValueError(text)
    return day


def yesterday(now: datetime) -> date:
    """The last day (UTC) that is over."""
    return (now.astimezone(UTC) - timedelta(days=1)).date()
