"""An export as CSV or Parquet."""

import csv
import io
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal, Protocol
from uuid import uuid4

from accounts.services.books.statement_file import escape_formula, format_usd
from gateway.database.db import Lane, run_queries
from gateway.eventloop import yield_control
from gateway.home import private_folder
from gateway.http.jsonio import format_time
from routing.exports.columns import Column, Kind
from routing.exports.rows import ROWS_A_TURN, UsageExport, read_pages

Format = Literal["csv", "parquet"]
FORMATS: Final[tuple[Format, ...]] = ("csv", "parquet")
_NANO_PER_USD: Final = Decimal(1_000_000_000)


class ParquetMissing(Exception):
    """pyarrow is not installed."""

    def __str__(self) -> str:
        return "Parquet needs the extra `parquet` (pyarrow): pip install 'routing-gateway[parquet]'"


@dataclass
class ExportSums:
    """What the rows of a file come to, in nano-USD."""

    rows: int = 0
    charge_nano: int = 0
    byok_nano: int = 0


class _Writer(Protocol):
    def write(self, rows: Sequence[Sequence[Any]]) -> None: ...
    def close(self) -> None: ...


def write_export(export: UsageExport, form: Format, path: Path) -> ExportSums:
    """Write an export to a file that is there as a whole or not at all. Raises `ParquetMissing`."""
    columns = export.list_columns()
    names = [column.name for column in columns]
    charge, byok = names.index("charge_nano"), names.index("byok_nano")
    sums = ExportSums()
    part = path.with_name(f".{path.name}.{uuid4().hex}")
    private_folder(path.parent)
    try:
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            writer: _Writer = (_CsvWriter if form == "csv" else _ParquetWriter)(columns, file)
            for rows in read_pages(export):
                writer.write(rows)
                sums.rows += len(rows)
                sums.charge_nano += sum(row[charge] for row in rows)
                sums.byok_nano += sum(row[byok] for row in rows)
            writer.close()
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    return sums


def stream_csv(export: UsageExport) -> Iterator[bytes]:
    """An export as CSV while it is read; the first query is made before this returns.

    It fits a web process: each page is a query in the operators' lane, written in short turns.
    """
    columns, pages = export.list_columns(), read_pages(export)

    def read_next() -> list[list[Any]] | None:
        return run_queries(Lane.OPERATOR, lambda: next(pages, None))

    first = read_next()

    def stream() -> Iterator[bytes]:
        yield encode_head(columns)
        page = first
        while page is not None:
            for begin in range(0, len(page), ROWS_A_TURN):
                yield encode_rows(columns, page[begin : begin + ROWS_A_TURN])
                yield_control()
            page = read_next()

    return stream()


def encode_head(columns: Sequence[Column]) -> bytes:
    return _encode_csv([[column.name for column in columns]])


def encode_rows(columns: Sequence[Column], rows: Sequence[Sequence[Any]]) -> bytes:
    writers = [_CELLS.get(column.kind, str) for column in columns]
    return _encode_csv(
        ["" if value is None else cell(value) for cell, value in zip(writers, row, strict=True)]
        for row in rows
    )


def _encode_csv(rows: Any) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue().encode()


_CELLS: Final[dict[Kind, Any]] = {
    "words": escape_formula,
    "usd": format_usd,
    "moment": format_time,
    "day": date.isoformat,
    "flag": lambda value: "true" if value else "false",
}


class _CsvWriter:
    def __init__(self, columns: Sequence[Column], file: BinaryIO) -> None:
        self._columns, self._file = columns, file
        file.write(encode_head(columns))

    def write(self, rows: Sequence[Sequence[Any]]) -> None:
        self._file.write(encode_rows(self._columns, rows))

    def close(self) -> None:
        self._file.flush()


class _ParquetWriter:
    """A group of rows per page of at least `_GROUP_ROWS`: small groups cost readers much."""

    _GROUP_ROWS: Final = 50_000

    def __init__(self, columns: Sequence[Column], file: BinaryIO) -> None:
        if not is_parquet_available():
            raise ParquetMissing
        arrow = self._arrow = import_module("pyarrow")
        types: dict[Kind, Any] = {
            "whole": arrow.int64(),
            "nano": arrow.int64(),
            "usd": arrow.decimal128(38, 9),
            "flag": arrow.bool_(),
            "moment": arrow.timestamp("us", tz="UTC"),
            "day": arrow.date32(),
        }
        fields = [(column.name, types.get(column.kind, arrow.string())) for column in columns]
        self._schema = self._arrow.schema(fields)
        self._kinds = [column.kind for column in columns]
        self._file = import_module("pyarrow.parquet").ParquetWriter(file, self._schema)
        self._waiting: list[Sequence[Any]] = []

    def write(self, rows: Sequence[Sequence[Any]]) -> None:
        self._waiting += rows
        if len(self._waiting) >= self._GROUP_ROWS:
            self._write_group()

    def close(self) -> None:
        if self._waiting:
            self._write_group()
        self._file.close()

    def _write_group(self) -> None:
        columns = [
            [
                value / _NANO_PER_USD if kind == "usd" and value is not None else value
                for value in values
            ]
            for kind, values in zip(self._kinds, zip(*self._waiting, strict=True), strict=True)
        ]
        arrays = [
            self._arrow.array(values, type=field.type)
            for values, field in zip(columns, self._schema, strict=True)
        ]
        self._file.write_table(self._arrow.Table.from_arrays(arrays, schema=self._schema))
        self._waiting = []


@cache
def is_parquet_available() -> bool:
    return find_spec("pyarrow") is not None
