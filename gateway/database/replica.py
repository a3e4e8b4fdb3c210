"""Where large sums are read: from a replica of the database, where one is set and answers."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, OperationalError, connection, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from gevent import Timeout
from psycopg.errors import QueryCanceled
from psycopg_pool import PoolTimeout

from gateway.database.db import BEYOND_S, DATABASE_GONE, Lane, releasers, under_gevent
from gateway.database.outages import Store

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
    after it failed. What a replica says may be as old as its lag. Raises `OperationalError` where
    all its connections are busy: others' requests need the database.
    """
    if (alias := _alias.get()) is not None:
        yield connections[alias]
        return
    alias = _choose_alias()
    token = _alias.set(alias)
    try:
        yield connections[alias]
    except (*DATABASE_GONE, Timeout) as error:
        # A query that asked for too much says nothing of the replica.
        if alias == REPLICA and not isinstance(error.__cause__, QueryCanceled):
            _note_failure(error)
        raise
    finally:
        _alias.reset(token)
        # Pages give it back with their other connection, which costs one look at it for all blocks.
        if alias == REPLICA and not under_gevent():
            _release()


def _choose_alias() -> str:
    is_resting = time.monotonic() < _rests_until
    if REPLICA not in settings.DATABASES or is_resting or connection.in_atomic_block:
        return DEFAULT_DB_ALIAS
    try:
        _connect()
    except DATABASE_GONE as error:
        if isinstance(error.__cause__, PoolTimeout):
            stats = connections[REPLICA].pool.get_stats()  # type: ignore[attr-defined]  # PostgreSQL's.
            if stats["pool_size"] >= stats["pool_max"]:
                # Every connection that there may be is there, and busy.
                raise
        _note_failure(error)
        return DEFAULT_DB_ALIAS
    store.recover()
    return REPLICA


def _connect() -> None:
    """Raises `OperationalError` also for a server that takes the question and says nothing."""
    if not under_gevent():
        connections[REPLICA].ensure_connection()
        return
    with Timeout(settings.DATABASE_TIMEOUT + BEYOND_S[Lane.READ]) as limit:
        try:
            connections[REPLICA].ensure_connection()
        except Timeout as passed:
            if passed is not limit:
                raise
            raise OperationalError("The replica did not answer in time") from None


def _note_failure(error: BaseException) -> None:
    global _rests_until
    _rests_until = time.monotonic() + REST_S
    store.lose(error)


def _release() -> None:
    for each in connections.all(initialized_only=True):
        if each.alias == REPLICA and not each.in_atomic_block:
            each.close()


if REPLICA in settings.DATABASES:
    releasers.append(_release)
