"""Statements that leave together and are answered together, straight through libpq's pipeline.

The ledger's batch is a dozen small statements, always the same ones. psycopg's cursors cost ten
microseconds of CPU each on top of the database's own work; here every text is prepared once per
connection and its values go as text.
"""

import itertools
from collections.abc import Generator, Iterable, Sequence
from datetime import datetime
from functools import cache
from typing import Any
from uuid import UUID

import psycopg
from psycopg import errors, pq
from psycopg.waiting import Wait

_NAMES = itertools.count()


class Landed:
    """The answer to one statement, there once its flight has landed."""

    __slots__ = ("_result",)

    _result: Any

    @property
    def rowcount(self) -> int:
        """Rows moved or found."""
        return int(self._result.command_tuples or 0)

    def fetchall(self) -> list[tuple[str | None, ...]]:
        """All rows, every value as the text PostgreSQL prints."""
        result = self._result
        columns = range(result.nfields)
        return [
            tuple(_text(result.get_value(row, column)) for column in columns)
            for row in range(result.ntuples)
        ]


_Queued = tuple[str, list[bytes | None], Landed]


class Flight:
    """Collects statements; `land` sends them and reads all answers. For one greenlet at a time.

    An error of any statement is raised by `land` after the last answer was read, so that the
    connection can go on. Outside a transaction every flight is one of its own.
    """

    def __init__(self, raw: "psycopg.Connection[Any]", prepared: "dict[str, bytes]") -> None:
        self._raw = raw
        self._prepared = prepared
        self._waiting: list[_Queued] = []

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> Landed:
        """Queue a statement written with `%s` placeholders."""
        landed = Landed()
        self._waiting.append((sql, [as_text(value) for value in parameters], landed))
        return landed

    def land(self) -> None:
        """Send what was queued. Raises `psycopg.Error`."""
        pgconn = self._raw.pgconn
        waiting, self._waiting = self._waiting, []
        pgconn.enter_pipeline_mode()
        fresh: list[str] = []
        for sql, parameters, _ in waiting:
            if sql not in self._prepared:
                self._prepare(sql)
                fresh.append(sql)
            pgconn.send_query_prepared(self._prepared[sql], parameters)
        pgconn.pipeline_sync()
        results = self._raw.wait(_answers(pgconn))
        pgconn.exit_pipeline_mode()
        failed = next((each for each in results if each.status == pq.ExecStatus.FATAL_ERROR), None)
        if failed is not None:
            self._forget(fresh)
            raise _error_of(failed)
        _hand_out(waiting, results, set(fresh))

    def _prepare(self, sql: str) -> None:
        name = b"flight_%d" % next(_NAMES)
        self._prepared[sql] = name
        self._raw.pgconn.send_prepare(name, numbered(sql))

    def _forget(self, fresh: Iterable[str]) -> None:
        """Behind a failed statement nothing is prepared; what was before it is prepared twice."""
        for sql in fresh:
            del self._prepared[sql]


def _hand_out(waiting: Sequence[_Queued], results: Sequence[Any], fresh: set[str]) -> None:
    answers = iter(results)
    for sql, _, landed in waiting:
        if sql in fresh:
            fresh.discard(sql)
            next(answers)
        landed._result = next(answers)


def _answers(pgconn: pq.abc.PGconn) -> Generator[Wait, int, list[Any]]:
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


def _error_of(result: Any) -> psycopg.Error:
    message = result.error_message.decode("utf-8", "replace").strip()
    state = result.error_field(pq.DiagnosticField.SQLSTATE)
    return _class_of(state.decode())(message) if state else psycopg.OperationalError(message)


def _class_of(state: str) -> type[psycopg.Error]:
    try:
        return errors.lookup(state)
    except KeyError:
        return psycopg.DatabaseError


@cache
def insertion(table: str, columns: tuple[str, ...]) -> str:
    """The statement that inserts one row unless it is there."""
    marks = ", ".join(["%s"] * len(columns))
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks}) ON CONFLICT DO NOTHING"  # noqa: S608 - Names are constants of this package; values are bound.


def numbered(sql: str) -> bytes:
    """`%s` placeholders as libpq wants them."""
    first, *rest = sql.split("%s")
    return (first + "".join(f"${n}{part}" for n, part in enumerate(rest, 1))).encode()


def as_text(value: Any) -> bytes | None:
    """A value in PostgreSQL's text format. Raises `psycopg.DataError` for a NUL, `TypeError`."""
    if value is None:
        return None
    kind = type(value)
    if kind is str:
        data: bytes = value.encode()
        if b"\0" in data:
            raise psycopg.DataError("PostgreSQL text cannot contain NUL (0x00) bytes")
        return data
    if kind is bool:
        return b"t" if value else b"f"
    if kind is int:
        return b"%d" % value
    if kind is UUID:
        return str(value).encode()
    if kind is datetime:
        return value.isoformat().encode()  # type: ignore[no-any-return]  # mypy cannot follow `kind`.
    if kind is list:
        return b"{" + b",".join(map(_element, value)) + b"}"
    raise TypeError(f"no text form for {kind.__name__}")


def _element(value: Any) -> bytes:
    data = as_text(value)
    assert data is not None
    if type(value) is str:
        return b'"' + data.replace(b"\\", b"\\\\").replace(b'"', b'\\"') + b'"'
    return data


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode()
