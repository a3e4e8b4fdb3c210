"""Where queries run, so that none of them holds the event loop or a connection for long.

In a gevent web process SQLite would block every stream: it waits inside C, where no greenlet switch
happens. So its work goes to native threads, a lane each for hot-path reads, operators' pages and
the ledger writer. PostgreSQL waits cooperatively. There the connection goes back to the pool as
soon as the work is done, and a database that fell silent is given up. Elsewhere work runs in place.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from enum import Enum
from functools import cache, partial
from typing import Any, Final, TypeVar, cast

from django.db import InterfaceError, InternalError, OperationalError, connection, transaction
from gevent import Timeout, monkey

from gateway.database.outages import database
from gateway.eventloop import run_in_thread, yield_control
from gateway.live_settings import settings

T = TypeVar("T")
# The database is gone, frozen, full or read-only. Its other errors are bugs of ours.
DATABASE_GONE: Final = (OperationalError, InterfaceError, InternalError)


class Lane(Enum):
    """Which work waits for which: work of one lane queues up behind its own kind only."""

    READ = "read"
    OPERATOR = "operator"
    LEDGER = "ledger"


# How long work may take beyond DATABASE_TIMEOUT, which bounds the wait for a connection. It must be
# more than that wait: the pool would give a connection to a waiter that was torn away, for good.
BEYOND_S: Final = {Lane.READ: 0.2, Lane.OPERATOR: 15.0, Lane.LEDGER: 15.0}


@cache
def under_gevent() -> bool:
    """Whether this process runs on gevent's event loop: patched before all else, or not at all."""
    return bool(monkey.is_module_patched("socket"))


@cache
def _is_sqlite() -> bool:
    """Asked for every piece of work, and Django takes ten microseconds to say."""
    return connection.vendor == "sqlite"


@cache
def _threads(lane: Lane) -> Any:
    from gevent.threadpool import ThreadPool

    return ThreadPool(2 if lane is Lane.OPERATOR else 1)


def _run_in_lane(lane: Lane, work: Callable[[], T]) -> T:
    """gevent prints what a pool's thread raises, arguments and all: errors come back as values."""
    # There, too, the request under way is known.
    result, error = _threads(lane).apply(_capture, (partial(copy_context().run, work),))
    if error is not None:
        raise error
    return cast(T, result)


# Under gevent it belongs to a greenlet, and a lane's thread has no other than that of its work.
_inside = threading.local()


def _is_in_lane() -> bool:
    """Whether this is a lane's own thread, which has no loop to hold up and would wait for itself
    if it queued up again."""
    return getattr(_inside, "lane", False)


def let_others_run() -> None:
    """For pages, between two pieces of long computing: on PostgreSQL they share the event loop."""
    if under_gevent() and not _is_in_lane():
        yield_control()


def _capture(work: Callable[[], T]) -> tuple[T | None, BaseException | None]:
    _inside.lane = True
    try:
        return work(), None
    except BaseException as error:  # noqa: BLE001 - It is raised again in the greenlet that waits.
        return None, error
    finally:
        _inside.lane = False


def run_queries(lane: Lane, work: Callable[[], T]) -> T:
    """Run `work` (queries, no upstream waits) in its lane and return what it returns.

    Raises `OperationalError` also where a PostgreSQL server says nothing for too long: it may be
    frozen, or gone behind a network that does not tell.
    """
    if not under_gevent():
        return work()
    if _is_sqlite():
        return work() if _is_in_lane() else _run_in_lane(lane, work)
    try:
        # A connection that was in use when the time ran out is closed once it is given back.
        with Timeout(settings.DATABASE_TIMEOUT + BEYOND_S[lane]) as limit:
            try:
                result = work()
            except Timeout as passed:
                if passed is not limit:
                    raise
                raise OperationalError("The database did not answer in time") from None
        if database.is_gone:
            database.recover()
        return result
    finally:
        release_connection()


# Of connections that a piece of work may have beside the database's own.
releasers: Final[list[Callable[[], None]]] = []


def release_connection() -> None:
    """Let others have the connection of this piece of work, which goes on to wait for the network.

    Its next query takes another. Inside a transaction nothing is released.
    """
    if not _is_sqlite() and not connection.in_atomic_block:
        connection.close()
        for release in releasers:
            release()


def run_aside(work: Callable[[], T], *, threads: Callable[[], Any]) -> T:
    """Run `work`, computing that takes long, in a native thread of the pool that `threads` gives.

    Meanwhile the event loop turns, and others have this work's connection. A lane's own thread,
    which holds nobody up, does it in place.
    """
    if not under_gevent() or _is_in_lane():
        return work()
    release_connection()
    return run_in_thread(work, threads=threads)


def run_native(lane: Lane, work: Callable[[], T]) -> T:
    """Run `work` on a connection of its own: in its lane's thread where it would hold the loop."""
    if under_gevent() and _is_sqlite() and not _is_in_lane():
        return _run_in_lane(lane, work)
    return work()


@contextmanager
def read_snapshot() -> Iterator[None]:
    """All reads within see the database as it was at the first of them; no writer waits for it.

    Inside a transaction it is that transaction's own view.
    """
    if connection.in_atomic_block:
        yield
    elif connection.vendor == "postgresql":
        with transaction.atomic():
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            yield
    else:
        # Django's own transactions on SQLite begin as writers, and there is only one of those.
        with connection.cursor() as cursor:
            cursor.execute("BEGIN DEFERRED")
            try:
                yield
            finally:
                cursor.execute("ROLLBACK")
