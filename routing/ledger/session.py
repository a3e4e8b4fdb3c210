"""The ledger writer's own connection: plain SQL on PostgreSQL and SQLite, outside every pool.

No request signal reaches this connection; the writer opens, checks and closes it. SQL is written
with `%s` placeholders and uses only what both databases do alike.
"""

import os
import socket
import sqlite3
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from itertools import chain
from types import TracebackType
from typing import Any, Self

import psycopg
from django.conf import settings
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from gateway.database.db import under_gevent
from gateway.database.keepalive import select_url_parameters
from gateway.http.jsonio import JsonObject
from routing.ledger.pipeline import Pipeline, insert_sql, split_rows
from routing.ledger.tickets import new_event

# Longer than any transaction of a writer that is alive.
_GHOST_MS = 5_000
_LOOK_S = 0.25
# A peer that is gone without a word is noticed while nothing is under way, and unsent bytes are
# given up. The URL's own parameters win. (Unix sockets ignore these.)
_KEEPALIVE = {
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 5_000,
}
CONSTRAINT_ERRORS = (psycopg.IntegrityError, sqlite3.IntegrityError)


class NotAsExpected(Exception):
    """A statement moved other rows than it had to; the transaction must be rolled back."""


class LedgerSession:
    """One raw connection with explicit transactions."""

    def __init__(self) -> None:
        wrapper: BaseDatabaseWrapper = connections.create_connection("default")
        options = {k: v for k, v in wrapper.settings_dict["OPTIONS"].items() if k != "pool"}
        wrapper.settings_dict = {**wrapper.settings_dict, "OPTIONS": options}
        self.is_sqlite = wrapper.vendor == "sqlite"
        self._adapt_time = wrapper.ops.adapt_datetimefield_value
        parameters = wrapper.get_connection_params()
        self._raw: Any
        if self.is_sqlite:
            self._raw = wrapper.get_new_connection(parameters)
            self._raw.isolation_level = None
        else:
            self._raw = _open_postgresql(parameters)
        self._prepared: dict[str, bytes] | None = None if settings.DATABASE_POOLER else {}
        # What each transaction begins with.
        self._local_settings: list[str] = []
        self._pipeline: Pipeline | None = None
        self._block = _PipelineBlock(self)
        self._rows: int | None = None
        self._begun = False

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> Any:
        """A cursor with `rowcount` and `fetchall()`; None inside a pipeline."""
        rows, self._rows = self._rows, None
        if self._pipeline is not None:
            return self._pipeline.execute(sql, parameters, rows=rows)
        cursor = self._raw.execute(self._translate_placeholders(sql), parameters)
        if rows is not None and cursor.rowcount != rows:
            raise NotAsExpected
        return cursor

    def expect(self, rows: int) -> None:
        """The next statement, an update or a deletion, must move this many rows. Else it raises
        `NotAsExpected`, inside a pipeline when that ends."""
        self._rows = rows

    def insert(self, table: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """Insert rows; a row that is there already stays as it is."""
        names, rows = tuple(columns), list(rows)
        if self._pipeline is None:
            self._raw.cursor().executemany(
                self._translate_placeholders(insert_sql(table, names)), rows
            )
            return
        for several in split_rows(rows):
            values = list(chain.from_iterable(several))
            self._pipeline.execute(insert_sql(table, names, len(several)), values)

    def build_membership(self, column: str, values: Sequence[Any]) -> tuple[str, list[Any]]:
        """A condition that `column` is one of `values`, and its parameters."""
        if self.is_sqlite:
            return f"{column} IN ({', '.join(['%s'] * len(values))})", list(values)
        return f"{column} = ANY(%s)", [list(values)]

    def pipeline(self) -> AbstractContextManager[None]:
        """Statements that leave together and are answered together, where the database can.

        An error of any of them is raised when the block ends; what stands behind it was not
        carried out.
        """
        return self._block

    def begin(self, *, alone: bool = False) -> None:
        """Begin a transaction. Where one pipeline is to be all of it (`alone`), it is one by
        itself: neither this nor `commit` sends its begin or end."""
        self._begun = not alone
        begin = ["BEGIN IMMEDIATE" if self.is_sqlite else "BEGIN"] if self._begun else []
        self._execute_in_pipeline(*begin, *self._local_settings)

    def commit(self) -> None:
        if self._begun:
            self._begun = False
            self._execute_in_pipeline("COMMIT")

    def rollback(self) -> None:
        self._begun = False
        self._execute_in_pipeline("ROLLBACK")

    def _execute_in_pipeline(self, *statements: str) -> None:
        """Run statements in a pipeline of their own, which costs less than a cursor."""
        with self.pipeline() if self._pipeline is None else nullcontext():
            for sql in statements:
                self.execute(sql)

    def close(self) -> None:
        self._raw.close()

    def close_quietly(self) -> None:
        """Close a connection that may be broken already."""
        try:
            self._raw.close()
        except (psycopg.Error, sqlite3.Error):
            return

    def cut(self) -> None:
        """End a statement that gets no answer, from another thread: it fails as if the server had
        hung up. SQLite answers by itself, or its disk does not."""
        if self.is_sqlite:
            return
        try:
            # A descriptor of our own on the same connection; libpq keeps and closes its own.
            with socket.socket(fileno=os.dup(self._raw.pgconn.socket)) as line:
                line.shutdown(socket.SHUT_RDWR)
        except (psycopg.Error, OSError):
            return  # It is closed by now.

    def set_up(self) -> None:
        """Tell the server what kind of client this is: once, and behind a pooler in each
        transaction, whose connection is another client's afterwards."""
        if self.is_sqlite:
            return
        limits: dict[str, object] = {
            # Every statement names rows by key. Planned while a table was empty, it would go on
            # reading all of it. The holds' table is mostly rows that were deleted just now.
            "enable_seqscan": "off",
            # A transaction whose client fell silent is to end. Its row locks would keep the next
            # connection waiting for as long as the network hides that this one is gone. PostgreSQL
            # 18 does not count what follows a pipeline as idle; so also, where it is known, the
            # next one.
            "idle_in_transaction_session_timeout": _GHOST_MS,
        }
        if self._raw.info.server_version >= 170_000:
            limits["transaction_timeout"] = _GHOST_MS
        if settings.DATABASE_POOLER:
            calls = ", ".join(
                f"set_config('{name}', '{value}', true)" for name, value in limits.items()
            )
            self._local_settings = [f"SELECT {calls}"]
            return
        limits |= {
            "tcp_keepalives_idle": 5,
            "tcp_keepalives_interval": 2,
            "tcp_keepalives_count": 3,
            # What is prepared is planned once: for lists of keys PostgreSQL would otherwise plan
            # anew each time.
            "plan_cache_mode": "force_generic_plan",
        }
        self.execute("; ".join(f"SET {name} = {value}" for name, value in limits.items()))

    def time(self, value: datetime) -> Any:
        return self._adapt_time(value)

    def uuid(self, value: uuid.UUID) -> Any:
        return value.hex if self.is_sqlite else value

    def _translate_placeholders(self, sql: str) -> str:
        return sql.replace("%s", "?") if self.is_sqlite else sql


class _PipelineBlock(AbstractContextManager[None]):
    """The block of `LedgerSession.pipeline`, made once: a generator costs more than sending."""

    def __init__(self, session: LedgerSession) -> None:
        self._session = session

    def __enter__(self) -> None:
        session = self._session
        if not session.is_sqlite:
            session._pipeline = Pipeline(session._raw, session._prepared)

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        """Send what was queued, unless the block itself failed."""
        session = self._session
        pipeline, session._pipeline = session._pipeline, None
        if pipeline is None or kind is not None:
            return
        try:
            pipeline.send()
        except psycopg.errors.DivisionByZero:
            raise NotAsExpected from None


class CooperativeConnection(psycopg.Connection[Any]):
    """A psycopg connection that waits on gevent's event loop directly.

    psycopg notices gevent and waits through a patched `select.poll`, which builds a poll object and
    two watchers for every wait. One watcher kept per direction halves the CPU of a statement. Use
    it from one greenlet at a time, on the hub that opened it.
    """

    _watchers: dict[int, Any]

    def wait(self, gen: Any, interval: float = 0.0, timeout: float | None = None) -> Any:
        """Run a psycopg generator, switching to other greenlets while its socket is not ready."""
        if timeout is not None:
            return super().wait(gen, interval, timeout)
        try:
            needed = next(gen)
            while True:
                self._wait_ready(int(needed))
                # A side that is not ready costs the generator one call that finds nothing.
                needed = gen.send(int(needed))
        except StopIteration as ended:
            return ended.value

    def _wait_ready(self, events: int) -> None:
        from gevent import get_hub

        hub = get_hub()
        try:
            descriptor = self.pgconn.socket
        except psycopg.OperationalError:
            # libpq has closed it, and its number may soon be another socket's. The generator meets
            # the error by itself.
            return
        watchers = self.__dict__.setdefault("_watchers", {})
        watcher = watchers.get(events)
        if watcher is None:
            watcher = watchers[events] = hub.loop.io(descriptor, events)
        hub.wait(watcher)

    def close(self) -> None:
        for watcher in self.__dict__.pop("_watchers", {}).values():
            watcher.close()
        super().close()


def _open_postgresql(parameters: JsonObject) -> Any:
    foreign = ("cursor_factory", "prepare_threshold")
    own = select_url_parameters(parameters)
    options = _KEEPALIVE | {k: v for k, v in own.items() if k not in foreign}
    if settings.DATABASE_POOLER:
        options["prepare_threshold"] = None
    if under_gevent():
        return CooperativeConnection.connect(**options, autocommit=True)
    return psycopg.connect(**options, autocommit=True)


class Watchdog:
    """While open, looks beside the writer's thread at what the writer is waiting for.

    `busy_since` is when the writer last began to wait for the database (monotonic), 0 while it does
    not. The patience is half of what a settlement waits, so that a second try fits in.
    """

    def __init__(self, session: Callable[[], LedgerSession | None]) -> None:
        self.busy_since = 0.0
        self._session = session
        self._ended: Any = None

    def __enter__(self) -> Self:
        self._ended = new_event()
        thread = threading.Thread(
            target=self._look, args=(self._ended,), name="ledger-watchdog", daemon=True
        )
        thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()

    def _look(self, ended: Any) -> None:
        while not ended.wait(_LOOK_S):
            since, session = self.busy_since, self._session()
            if since and session and time.monotonic() - since > settings.LEDGER_TIMEOUT / 2:
                session.cut()
