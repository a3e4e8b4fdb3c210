"""The ledger writer's own connection: plain SQL on PostgreSQL and SQLite, outside every pool.

No request signal reaches this connection; the writer opens, checks and closes it. SQL is written
with `%s` placeholders and uses only what both databases do alike.
"""

import sqlite3
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import psycopg
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from gateway.db import under_gevent
from routing.metering.cooperative import CooperativeConnection

# The connection is gone or was refused; what was under way may or may not have been committed.
CONNECTION_ERRORS = (psycopg.OperationalError, psycopg.InterfaceError, sqlite3.OperationalError)
CONSTRAINT_ERRORS = (psycopg.IntegrityError, sqlite3.IntegrityError)
# One of the items is at fault; nothing was committed.
ITEM_ERRORS = (
    psycopg.IntegrityError,
    psycopg.DataError,
    psycopg.ProgrammingError,
    sqlite3.IntegrityError,
    sqlite3.ProgrammingError,
    sqlite3.InterfaceError,
    OverflowError,
    KeyError,
    TypeError,
    ValueError,
)


class Session:
    """One raw connection with explicit transactions."""

    def __init__(self) -> None:
        wrapper: BaseDatabaseWrapper = connections.create_connection("default")
        options = {k: v for k, v in wrapper.settings_dict["OPTIONS"].items() if k != "pool"}
        wrapper.settings_dict = {**wrapper.settings_dict, "OPTIONS": options}
        self.is_sqlite = wrapper.vendor == "sqlite"
        self._adapt_time = wrapper.ops.adapt_datetimefield_value
        parameters = wrapper.get_connection_params()
        self._raw = (
            _open_sqlite(wrapper, parameters) if self.is_sqlite else _open_postgresql(parameters)
        )

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> Any:
        """A cursor with `rowcount` and `fetchall()`."""
        return self._raw.execute(self._spelled(sql), parameters)

    def insert(self, table: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """Insert rows; a row that is there already stays as it is."""
        marks = ", ".join(["%s"] * len(columns))
        sql = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks}) ON CONFLICT DO NOTHING"  # noqa: S608 - Names are constants of this package; values are bound.
        self._raw.cursor().executemany(self._spelled(sql), rows)

    def among(self, column: str, values: Sequence[Any]) -> tuple[str, list[Any]]:
        """A condition that `column` is one of `values`, and its parameters."""
        if self.is_sqlite:
            return f"{column} IN ({', '.join(['%s'] * len(values))})", list(values)
        return f"{column} = ANY(%s)", [list(values)]

    @contextmanager
    def flight(self) -> Iterator[None]:
        """Statements that leave together and are answered together, where the database can.

        Their results are there when the block ends; an error of any of them is raised then.
        """
        if self.is_sqlite:
            yield
        else:
            with self._raw.pipeline():
                yield

    def begin(self) -> None:
        self.execute("BEGIN IMMEDIATE" if self.is_sqlite else "BEGIN")

    def commit(self) -> None:
        self.execute("COMMIT")

    def rollback(self) -> None:
        self.execute("ROLLBACK")

    def close(self) -> None:
        self._raw.close()

    def close_quietly(self) -> None:
        """Close a connection that may be broken already."""
        try:
            self._raw.close()
        except (*CONNECTION_ERRORS, sqlite3.ProgrammingError):
            return

    def time(self, value: datetime) -> Any:
        return self._adapt_time(value)

    def uuid(self, value: uuid.UUID) -> Any:
        return value.hex if self.is_sqlite else value

    def _spelled(self, sql: str) -> str:
        return sql.replace("%s", "?") if self.is_sqlite else sql


def _open_sqlite(wrapper: BaseDatabaseWrapper, parameters: dict[str, Any]) -> Any:
    raw = wrapper.get_new_connection(parameters)
    raw.isolation_level = None
    return raw


def _open_postgresql(parameters: dict[str, Any]) -> Any:
    kept = {k: v for k, v in parameters.items() if k not in ("cursor_factory", "prepare_threshold")}
    if under_gevent():
        return CooperativeConnection.connect(**kept, autocommit=True)
    return psycopg.connect(**kept, autocommit=True)
