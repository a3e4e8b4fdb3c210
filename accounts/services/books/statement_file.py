"""A statement as CSV or JSON, written while the database is read and sent when it is complete.

The lines go to a file without a name. So neither a connection nor much memory is held for as long
as somebody takes to download it.
"""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from tempfile import SpooledTemporaryFile
from typing import IO, Any, Final, Protocol
from uuid import UUID

from django.conf import settings
from django.db import connection

from accounts.services.books.statement import (
    StatementLine,
    StatementPeriod,
    StatementTotals,
    read_balance_nano,
    read_statement_lines,
)
from gateway.database.db import read_snapshot
from gateway.eventloop import yield_control
from gateway.home import private_folder
from gateway.http.jsonio import JsonObject, dumps, format_optional_time, format_time, usd

IN_MEMORY_BYTES: Final = 1_048_576
_PIECE_BYTES: Final = 65_536
# Some five milliseconds of writing.
_LINES_A_TURN: Final = 250
# What a spreadsheet would read as a formula: their full-width forms as well, and behind blanks.
_FORMULA_STARTS: Final = tuple("=+-@\t\r\n=+-@")


@dataclass(frozen=True)
class StatementFrame:
    """What stands around the lines."""

    account_id: UUID
    period: StatementPeriod
    made_at: datetime
    opening_nano: int
    sums: StatementTotals

    @property
    def closing_nano(self) -> int:
        return self.opening_nano + self.sums.moved_nano


class StatementFormat(Protocol):
    """How a statement is written. The head comes before the lines and is made after them."""

    content_type: str
    ending: str

    def head(self, facts: StatementFrame) -> bytes: ...
    def line(self, line: StatementLine, *, first: bool) -> bytes: ...
    def tail(self, facts: StatementFrame) -> bytes: ...


@dataclass
class StatementFile:
    """Iterate it once, or close it."""

    form: StatementFormat
    period: StatementPeriod
    head: bytes
    lines: IO[bytes]
    tail: bytes

    @property
    def name(self) -> str:
        """What a browser saves it as."""
        start, end = (f"{moment:%Y-%m-%d}" for moment in self.period)
        return f"statement-{start}-{end}.{self.form.ending}"

    @property
    def size_bytes(self) -> int:
        return len(self.head) + self.lines.seek(0, 2) + len(self.tail)

    def pieces(self) -> Iterator[bytes]:
        with self.lines:
            yield self.head
            self.lines.seek(0)
            while piece := self.lines.read(_PIECE_BYTES):
                yield piece
            yield self.tail


def write_statement(
    account_id: UUID, period: StatementPeriod, form: StatementFormat
) -> StatementFile:
    """Read and write the statement of a period; runs in a lane (`gateway.database.db`)."""
    folder = private_folder(settings.GATEWAY_HOME)
    spool = SpooledTemporaryFile(max_size=IN_MEMORY_BYTES, dir=str(folder))  # noqa: SIM115 - It is closed when it was sent.
    sums = StatementTotals()
    try:
        with read_snapshot():
            made_at = datetime.now(UTC)
            closing_nano = read_balance_nano(account_id, period.end)
            for line in read_statement_lines(account_id, period):
                spool.write(form.line(line, first=not sums.lines))
                sums.add(line)
                # SQLite is read in a thread of its own, which holds nobody up.
                if sums.lines % _LINES_A_TURN == 0 and connection.vendor == "postgresql":
                    yield_control()
    except BaseException:
        spool.close()
        raise
    facts = StatementFrame(account_id, period, made_at, closing_nano - sums.moved_nano, sums)
    return StatementFile(form, period, form.head(facts), spool, form.tail(facts))


class JsonFormat:
    """Amounts as numbers, and as whole nano-USD beside them."""

    content_type = "application/json"
    ending = "json"

    def head(self, facts: StatementFrame) -> bytes:
        fields = {
            "account_id": str(facts.account_id),
            "start": format_time(facts.period.start),
            "end": format_time(facts.period.end),
            "made_at": format_time(facts.made_at),
            **_serialize_money("opening_balance", facts.opening_nano),
        }
        return b'{"data":' + dumps(fields)[:-1] + b',"lines":['

    def line(self, line: StatementLine, *, first: bool) -> bytes:
        fields = {
            "date": line.day.isoformat(),
            "at": format_optional_time(line.at),
            "kind": line.kind,
            "entries": line.entries,
            **_serialize_money("amount", line.amount_nano),
            "workspace_id": str(line.workspace_id) if line.workspace_id else None,
            "workspace": line.workspace,
            "key_hash": line.key_hash,
            "key": line.key,
            "source": line.source,
            "source_ref": line.source_ref,
            "generation_id": line.generation_id,
            "note": line.note,
        }
        return (b"" if first else b",") + dumps(fields)

    def tail(self, facts: StatementFrame) -> bytes:
        sums = facts.sums
        totals = {
            "lines": sums.lines,
            "entries": sums.entries,
            **_serialize_money("credits", sums.credits_nano),
            **_serialize_money("usage", sums.usage_nano),
            **_serialize_money("change", sums.moved_nano),
        }
        fields = {"totals": totals, **_serialize_money("closing_balance", facts.closing_nano)}
        return b"]," + dumps(fields)[1:] + b"}"


def _serialize_money(name: str, nano: int) -> JsonObject:
    return {name: usd(nano), f"{name}_nano": nano}


class CsvFormat:
    """One table: the opening balance, the lines, three totals and the closing balance."""

    content_type = "text/csv; charset=utf-8"
    ending = "csv"
    COLUMNS: Final = (
        *("line", "date", "at", "kind", "entries", "amount_usd", "workspace_id", "workspace"),
        *("key_hash", "key", "source", "source_ref", "generation_id", "note"),
    )

    def head(self, facts: StatementFrame) -> bytes:
        start = facts.period.start
        opening = self._balance("opening_balance", start, facts.opening_nano)
        return _write_row(self.COLUMNS) + opening

    def line(self, line: StatementLine, *, first: bool) -> bytes:
        del first
        return _write_row(
            (
                "entry" if line.at else "sum",
                line.day.isoformat(),
                format_time(line.at) if line.at else "",
                line.kind,
                str(line.entries),
                format_usd(line.amount_nano),
                str(line.workspace_id or ""),
                *map(escape_formula, (line.workspace, line.key_hash, line.key)),
                *map(escape_formula, (line.source, line.source_ref, line.generation_id, line.note)),
            )
        )

    def tail(self, facts: StatementFrame) -> bytes:
        sums, end = facts.sums, facts.period.end
        return b"".join(
            (
                self._total("total_credits", sums.credits_nano),
                self._total("total_usage", sums.usage_nano),
                self._total("total_change", sums.moved_nano, entries=str(sums.entries)),
                self._balance("closing_balance", end, facts.closing_nano),
            )
        )

    def _balance(self, name: str, at: datetime, nano: int) -> bytes:
        return _write_row(
            self._pad_row(name, at.date().isoformat(), format_time(at), "", "", format_usd(nano))
        )

    def _total(self, name: str, nano: int, *, entries: str = "") -> bytes:
        return _write_row(self._pad_row(name, "", "", "", entries, format_usd(nano)))

    def _pad_row(self, *cells: str) -> tuple[str, ...]:
        return cells + ("",) * (len(self.COLUMNS) - len(cells))


FORMATS: Final[dict[str, StatementFormat]] = {"json": JsonFormat(), "csv": CsvFormat()}


def format_usd(nano: int) -> str:
    """All nine decimal places, so that a column of amounts lines up."""
    sign = "-" if nano < 0 else ""
    whole, fraction = divmod(abs(nano), 1_000_000_000)
    return f"{sign}{whole}.{fraction:09d}"


def escape_formula(text: str | None) -> str:
    """A cell of words that no spreadsheet takes for a formula: an apostrophe leads what looks like
    one.
    """
    text = text or ""
    starts = text.startswith(_FORMULA_STARTS) or text.lstrip().startswith(_FORMULA_STARTS)
    return f"'{text}" if starts else text


class _Echo:
    """A file for `csv` that gives back what is written to it."""

    def write(self, text: str) -> str:
        return text


_csv = csv.writer(_Echo())


def _write_row(cells: tuple[str, ...]) -> bytes:
    written: Any = _csv.writerow(cells)
    return str(written).encode()
