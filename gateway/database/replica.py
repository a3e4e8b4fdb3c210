"""Where large sums are read: from a replica of the database, where one is set and answers."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, connection, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from psycopg.errors import QueryCanceled

from gateway.database.db import DATABASE_GONE
from gateway.outages import Store

REPLICA: Final = "replica"
# How long the database itself is asked after the replica failed: a wait for it costs a caller more.
REST_S: Final = 30.0

store: Final = Store("read replica")
# The alias of the connection that the block under way reads from.
_alias: ContextVar[str | None] = ContextVar("read_alias", default=None)
_rests_until = 0.0


@contextmanager
def reading_connection() -> Iterator[BaseDatabaseWrapper]:
    """The connection for the large reads of a block, which must not write. Blocks within each other
    have the same one.

    It is the database's own within its transactions, where no replica is set, and for `REST_S`
    after it failed. What a replica says may be as old as its lag.
    """
    if (alias := _alias.get()) is not None:
        yield connections[alias]
        return
    alias = _choose_alias()
    token = _alias.set(alias)
    try:
        yield connections[alias]
    except DATABASE_GONE as error:
        # Who asked for too much says nothing of the replica.
        if alias == REPLICA and not isinstance(error.__cause__, QueryCanceled):
            _note_failure(error)
        raise
    finally:
        _alias.reset(token)
        if alias == REPLICA:
            connections[REPLICA].close()


def _choose_alias() -> str:
    is_resting = time.monotonic() < _rests_until
    if REPLICA not in settings.DATABASES or is_resting or connection.in_atomic_block:
        return DEFAULT_DB_ALIAS
    try:
        connections[REPLICA].ensure_connection()
    except DATABASE_GONE as error:
        _note_failure(error)
        return DEFAULT_DB_ALIAS
    store.recover()
    return REPLICA


def _note_failure(error: BaseException) -> None:
    global _rests_until
    _rests_until = time.monotonic() + REST_S
    store.lose(error)
