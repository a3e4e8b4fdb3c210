"""Statements that leave together and are answered together, straight through libpq's pipeline.

The ledger's batch is a dozen small statements, always the same ones. Cursors of psycopg cost ten
microseconds of CPU each on top of the database's own work. Here every text is prepared once per
connection and its values go as text. Behind a pooler a connection is another one after each
transaction, and nothing is prepared.
"""

import itertools
from collections.abc import Callable, Generator, Iterator, Sequence
from datetime import datetime
from functools import cache
from operator import call
from types import NoneType
from typing import Any, TypeVar
from uuid import UUID

import psycopg
from psycopg import errors, pq
from psycopg.waiting import Wait

_NAMES = itertools.count()
_PORTIONS = (16, 8, 4, 2, 1)
_NUMBERS = {int}
_T = TypeVar("_T")
_Queued = tuple[str, list[bytes | None]]


class Pipeline:
    """Collects statements; `send` sends them and reads all answers. For one greenlet at a time.

    Rows are not handed out: a statement tells by failing that it did not do what it should.

    An error of any statement is raised by `send` after the last answer was read, so that the
    connection can go on. Outside a transaction every pipeline is one of its own.
    """

    def __init__(self, raw: "psycopg.Connection[Any]", prepared: "dict[str, bytes] | None") -> None:
        self._raw = raw
        self._prepared = prepared
        self._waiting: list[_Queued] = []

    def execute(self, sql: str, parameters: Sequence[Any] = (), *, rows: int | None = None) -> None:
        """Queue a statement written with `%s` placeholders. A statement that must move `rows` rows
        and does not fails with `DivisionByZero`, and what stands behind it is not carried out."""
        texts = encode_values(parameters)
        if rows is not None:
            sql = _counted_sql(sql)
            texts.append(b"%d" % rows)
        self._waiting.append((sql, texts))

    def send(self) -> None:
        """Send what was queued. Raises `psycopg.Error`."""
        pgconn = self._raw.pgconn
        waiting, self._waiting = self._waiting, []
        pgconn.enter_pipeline_mode()
        prepared, fresh = self._prepared, list[str]()
        for sql, parameters in waiting:
            if prepared is None:
                pgconn.send_query_params(number_placeholders(sql), parameters)
                continue
            if sql not in prepared:
                name = b"flight_%d" % next(_NAMES)
                prepared[sql] = name
                self._raw.pgconn.send_prepare(name, number_placeholders(sql))
                fresh.append(sql)
            pgconn.send_query_prepared(prepared[sql], parameters)
        pgconn.pipeline_sync()
        results = self._raw.wait(_read_results(pgconn))
        pgconn.exit_pipeline_mode()
        failed = next((each for each in results if each.status == pq.ExecStatus.FATAL_ERROR), None)
        if failed is not None:
            # Behind a failed statement nothing is prepared; what was before it is prepared twice.
            for sql in fresh:
                assert prepared is not None
                del prepared[sql]
            message = failed.error_message.decode("utf-8", "replace").strip()
            state = failed.error_field(pq.DiagnosticField.SQLSTATE)
            error: type[psycopg.Error] = psycopg.OperationalError
            if state:
                try:
                    error = errors.lookup(state.decode())
                except KeyError:
                    error = psycopg.DatabaseError
            raise error(message)


def _read_results(pgconn: pq.abc.PGconn) -> Generator[Wait, int, list[Any]]:
    """Everything up to the pipeline's end, as psycopg's waiting functions drive it."""
    while pgconn.flush():
        ready = yield Wait.RW
        if ready & Wait.R:
            pgconn.consume_input()
    results: list[Any] = []
    while True:
        while pgconn.is_busy():
            yield Wait.R
            pgconn.consume_input()
        result = pgconn.get_result()
        if result is None:
            if pgconn.status == pq.ConnStatus.BAD:
                raise psycopg.OperationalError("the connection is lost")
        elif result.status == pq.ExecStatus.PIPELINE_SYNC:
            return results
        else:
            results.append(result)


@cache
def _counted_sql(sql: str) -> str:
    return f"WITH moved AS ({sql} RETURNING 1) SELECT 1 / (count(*) = %s)::int FROM moved"  # noqa: S608 - Wraps a statement of this package.


@cache
def insert_sql(table: str, columns: tuple[str, ...], rows: int = 1) -> str:
    """The statement that inserts this many rows, each unless it is there."""
    marks = ", ".join([f"({', '.join(['%s'] * len(columns))})"] * rows)
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES {marks} ON CONFLICT DO NOTHING"  # noqa: S608 - Names are constants of this package; values are bound.


def split_rows(rows: Sequence[_T]) -> Iterator[Sequence[_T]]:
    """The rows in portions of few different sizes, since each size is a statement of its own. One
    of sixteen rows costs the database a quarter less than sixteen of one (measured)."""
    begin = 0
    for size in _PORTIONS:
        while len(rows) - begin >= size:
            yield rows[begin : begin + size]
            begin += size


def number_placeholders(sql: str) -> bytes:
    """`%s` placeholders as libpq wants them."""
    first, *rest = sql.split("%s")
    return (first + "".join(f"${n}{part}" for n, part in enumerate(rest, 1))).encode()


def encode_values(values: Sequence[Any]) -> list[bytes | None]:
    """Values in PostgreSQL's text format. Raises `psycopg.DataError` for a NUL, `TypeError`.

    A batch is a thousand of them, so nothing here runs Python for the kinds that come most.
    """
    forms = map(_FORMS.__getitem__, map(type, values))
    texts: list[bytes | None] = list(map(call, forms, values))
    if b"\0" in b"".join(filter(None, texts)):
        raise psycopg.DataError("PostgreSQL text cannot contain NUL (0x00) bytes")
    return texts


def _uuid(value: UUID) -> bytes:
    return b"%032x" % value.int


def _time(value: datetime) -> bytes:
    return value.isoformat().encode()


def _array(values: list[Any]) -> bytes:
    if set(map(type, values)) == _NUMBERS:
        # Python writes them as PostgreSQL does, but for brackets and spaces.
        return b"{" + repr(values)[1:-1].replace(" ", "").encode() + b"}"
    return b"{" + b",".join(map(_element, values, encode_values(values))) + b"}"


def _element(value: object, text: bytes | None) -> bytes:
    assert text is not None
    if type(value) is str:
        return b'"' + text.replace(b"\\", b"\\\\").replace(b'"', b'\\"') + b'"'
    return text


class _Forms(dict[type, Callable[[Any], bytes | None]]):
    def __missing__(self, kind: type) -> Callable[[Any], bytes | None]:
        raise TypeError(f"no text form for {kind.__name__}")


_FORMS = _Forms(
    {
        str: str.encode,
        int: b"%d".__mod__,
        # What finds nothing in nothing returns None.
        NoneType: {}.get,
        bool: {True: b"t", False: b"f"}.__getitem__,
        UUID: _uuid,
        datetime: _time,
        list: _array,
    }
)
