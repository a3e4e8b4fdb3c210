"""A statement as CSV or JSON, made while the database is read and sent when it is done.

What is read goes to a file without a name, so that neither a connection nor much memory is held
for as long as somebody takes to download it.
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

from accounts.services.statements.statement import Line, Period, Sums, balance_nano, statement_lines
from gateway.database.snapshots import one_moment
from gateway.eventloop import yield_control
from gateway.home import private_folder
from gateway.http.jsonio import dumps, usd
from gateway.http.times import iso, iso_or_none

IN_MEMORY_BYTES: Final = 1_048_576
_PIECE_BYTES: Final = 65_536
# Some five milliseconds of writing.
_LINES_A_TURN: Final = 250
# What a spreadsheet would read as a formula: their full-width forms as well, and behind blanks.
_FORMULA_STARTS: Final = tuple("=+-@\t\r\n=+-@")


@dataclass(frozen=True)
class Facts:
    """What stands around the lines."""

    account_id: UUID
    period: Period
    made_at: datetime
    opening_nano: int
    sums: Sums

    @property
    def closing_nano(self) -> int:
        return self.opening_nano + self.sums.moved_nano


class Form(Protocol):
    """How a statement is written. The head comes before the lines and is made after them."""

    content_type: str
    ending: str

    def head(self, facts: Facts) -> bytes: ...
    def line(self, line: Line, *, first: bool) -> bytes: ...
    def tail(self, facts: Facts) -> bytes: ...


@dataclass
class StatementFile:
    """Iterate it once, or close it."""

    form: Form
    period: Period
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


def make_statement(account_id: UUID, period: Period, form: Form) -> StatementFile:
    """Read and write the statement of a period; runs in a lane (`gateway.database.db`)."""
    folder = private_folder(settings.GATEWAY_HOME)
    spool = SpooledTemporaryFile(max_size=IN_MEMORY_BYTES, dir=str(folder))  # noqa: SIM115 - It is closed when it was sent.
    sums = Sums()
    try:
        with one_moment():
            made_at = datetime.now(UTC)
            closing_nano = balance_nano(account_id, period.end)
            for line in statement_lines(account_id, period):
                spool.write(form.line(line, first=not sums.lines))
                sums.add(line)
                _give_way(sums.lines)
    except BaseException:
        spool.close()
        raise
    facts = Facts(account_id, period, made_at, closing_nano - sums.moved_nano, sums)
    return StatementFile(form, period, form.head(facts), spool, form.tail(facts))


def _give_way(lines: int) -> None:
    # SQLite is read in a thread of its own, which holds nobody up.
    if lines % _LINES_A_TURN == 0 and connection.vendor == "postgresql":
        yield_control()


class JsonForm:
    """Amounts as numbers, and as whole nano-USD beside them."""

    content_type = "application/json"
    ending = "json"

    def head(self, facts: Facts) -> bytes:
        said = {
            "account_id": str(facts.account_id),
            "start": iso(facts.period.start),
            "end": iso(facts.period.end),
            "made_at": iso(facts.made_at),
            **_money("opening_balance", facts.opening_nano),
        }
        return b'{"data":' + dumps(said)[:-1] + b',"lines":['

    def line(self, line: Line, *, first: bool) -> bytes:
        said = {
            "date": line.day.isoformat(),
            "at": iso_or_none(line.at),
            "kind": line.kind,
            "entries": line.entries,
            **_money("amount", line.amount_nano),
            "workspace_id": str(line.workspace_id) if line.workspace_id else None,
            "workspace": line.workspace,
            "key_hash": line.key_hash,
            "key": line.key,
            "source": line.source,
            "source_ref": line.source_ref,
            "generation_id": line.generation_id,
            "note": line.note,
        }
        return (b"" if first else b",") + dumps(said)

    def tail(self, facts: Facts) -> bytes:
        sums = facts.sums
        totals = {
            "lines": sums.lines,
            "entries": sums.entries,
            **_money("credits", sums.credits_nano),
            **_money("usage", sums.usage_nano),
            **_money("change", sums.moved_nano),
        }
        said = {"totals": totals, **_money("closing_balance", facts.closing_nano)}
        return b"]," + dumps(said)[1:] + b"}"


def _money(name: str, nano: int) -> dict[str, Any]:
    return {name: usd(nano), f"{name}_nano": nano}


class CsvForm:
    """One table: the opening balance, the lines, three totals and the closing balance."""

    content_type = "text/csv; charset=utf-8"
    ending = "csv"
    COLUMNS: Final = (
        *("line", "date", "at", "kind", "entries", "amount_usd", "workspace_id", "workspace"),
        *("key_hash", "key", "source", "source_ref", "generation_id", "note"),
    )

    def head(self, facts: Facts) -> bytes:
        start = facts.period.start
        opening = self._balance("opening_balance", start, facts.opening_nano)
        return _row(self.COLUMNS) + opening

    def line(self, line: Line, *, first: bool) -> bytes:
        del first
        return _row(
            (
                "entry" if line.at else "sum",
                line.day.isoformat(),
                iso(line.at) if line.at else "",
                line.kind,
                str(line.entries),
                plain_usd(line.amount_nano),
                str(line.workspace_id or ""),
                *map(harmless, (line.workspace, line.key_hash, line.key)),
                *map(harmless, (line.source, line.source_ref, line.generation_id, line.note)),
            )
        )

    def tail(self, facts: Facts) -> bytes:
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
        return _row(self._padded(name, at.date().isoformat(), iso(at), "", "", plain_usd(nano)))

    def _total(self, name: str, nano: int, *, entries: str = "") -> bytes:
        return _row(self._padded(name, "", "", "", entries, plain_usd(nano)))

    def _padded(self, *cells: str) -> tuple[str, ...]:
        return cells + ("",) * (len(self.COLUMNS) - len(cells))


FORMS: Final[dict[str, Form]] = {"json": JsonForm(), "csv": CsvForm()}


def plain_usd(nano: int) -> str:
    """All nine decimal places, so that a column of amounts lines up."""
    sign = "-" if nano < 0 else ""
    whole, fraction = divmod(abs(nano), 1_000_000_000)
    return f"{sign}{whole}.{fraction:09d}"


def harmless(text: str | None) -> str:
    """A cell of words that no spreadsheet takes for a formula: an apostrophe leads such a one."""
    text = text or ""
    starts = text.startswith(_FORMULA_STARTS) or text.lstrip().startswith(_FORMULA_STARTS)
    return f"'{text}" if starts else text


class _Echo:
    """A file for `csv` that gives back what is written to it."""

    def write(self, text: str) -> str:
        return text


_csv = csv.writer(_Echo())


def _row(cells: tuple[str, ...]) -> bytes:
    written: Any = _csv.writerow(cells)
    return str(written).encode()
