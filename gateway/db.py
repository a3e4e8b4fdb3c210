"""Where queries run, so that none of them holds the event loop or a connection for long.

In a gevent web process SQLite would block every stream of its worker (it waits inside C, where no
greenlet switch happens), so its work goes to native threads: one lane each for hot-path reads and
for operators' pages, and the ledger writer has its own. PostgreSQL waits cooperatively; there the
connection goes back to the pool as soon as the work is done. Elsewhere work runs in place.
"""

from collections.abc import Callable
from enum import Enum
from functools import cache
from typing import Any, TypeVar, cast

from django.db import connection
from gevent import monkey

T = TypeVar("T")


class Lane(Enum):
    """Who waits for whom: work of one lane queues up behind its own kind only."""

    READ = "read"
    OPERATOR = "operator"
    LEDGER = "ledger"


def under_gevent() -> bool:
    """Whether this process runs on gevent's event loop."""
    return bool(monkey.is_module_patched("socket"))


@cache
def _threads(lane: Lane) -> Any:
    from gevent.threadpool import ThreadPool

    return ThreadPool(2 if lane is Lane.OPERATOR else 1)


def _in_lane(lane: Lane, work: Callable[[], T]) -> T:
    """gevent prints what a pool's thread raises, arguments and all: errors come back as values."""
    result, error = _threads(lane).apply(_captured, (work,))
    if error is not None:
        raise error
    return cast(T, result)


def _captured(work: Callable[[], T]) -> tuple[T | None, BaseException | None]:
    try:
        return work(), None
    except BaseException as error:  # noqa: BLE001 - It is raised again in the greenlet that waits.
        return None, error


def run(lane: Lane, work: Callable[[], T]) -> T:
    """Run `work` (queries, no upstream waits) in its lane and return what it returns."""
    if not under_gevent():
        return work()
    if connection.vendor == "sqlite":
        return _in_lane(lane, work)
    try:
        return work()
    finally:
        if not connection.in_atomic_block:
            connection.close()


def native(lane: Lane, work: Callable[[], T]) -> T:
    """Run `work` on a connection of its own: in its lane's thread where it would hold the loop."""
    if under_gevent() and connection.vendor == "sqlite":
        return _in_lane(lane, work)
    return work()
