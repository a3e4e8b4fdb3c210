"""Stores that went and came back: one log line for each, in every process.

Code that meets the error of a store that is gone logs it as usual. `gateway.logs` hands errors in
log lines over to `note_error`, and leaves such a line out. The first of them is logged here.
"""

import logging
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from typing import Final

from django.db.utils import InterfaceError, OperationalError

log = logging.getLogger("gateway.stores")

# After a failure, so long nothing but successes: one late answer among many is no outage that ends.
QUIET_S: Final = 2.0
# Of PostgreSQL's Appendix A: connections, and servers that stop or start.
_GONE_STATES: Final = ("08", "57P")
# They say themselves when it goes and comes.
_OWN_LINES: Final = ("gateway.hints",)
_QUEUE_LOGGERS: Final = ("celery", "kombu", "gateway.interns")


class Store:
    """`lose` and `recover` are for each failure and success; the first of a kind is logged."""

    def __init__(self, name: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._name = name
        self._clock = clock
        self._failed_at = 0.0
        self.is_gone = False

    def lose(self, error: BaseException) -> None:
        self._failed_at = self._clock()
        if not self.is_gone:
            self.is_gone = True
            # More lines than one quote addresses, or the query.
            why = next(iter(str(error).splitlines()), type(error).__name__)
            fields = {"store": self._name, "is_gone": True}
            log.warning("The %s does not answer: %s", self._name, why, extra=fields)

    def recover(self) -> None:
        if self.is_gone and self._clock() - self._failed_at >= QUIET_S:
            self.is_gone = False
            fields = {"store": self._name, "is_gone": False}
            log.warning("The %s answers again", self._name, extra=fields)


database: Final = Store("database")
queue: Final = Store("queue")


def note_error(error: BaseException, *, logger: str) -> bool:
    """Whether it says that a store is gone, which is then noted. `logger` names who met it."""
    if logger in _OWN_LINES:
        return False
    # Beat raises an error of its own, beside what it met.
    met = error.__context__ or error if logger == "celery.beat" else error
    if logger.startswith(_QUEUE_LOGGERS):
        from kombu.exceptions import OperationalError
        from redis.exceptions import ConnectionError, TimeoutError

        if isinstance(met, OperationalError | ConnectionError | TimeoutError | OSError):
            queue.lose(error)
            return True
    if is_database_outage(met):
        database.lose(error)
        return True
    return False


def is_database_outage(error: BaseException) -> bool:
    """Whether PostgreSQL cannot be reached, stops, or says nothing. SQLite is a file."""
    psycopg = sys.modules.get("psycopg")
    kinds = (OperationalError, InterfaceError, *([psycopg.OperationalError] if psycopg else []))
    causes = tuple(_list_causes(error))
    if not any(isinstance(each, kinds) for each in causes):
        return False
    if any(isinstance(each, sqlite3.Error) for each in causes):
        return False
    # PostgreSQL's own code, none where the server did not say a word.
    states = filter(None, (getattr(each, "sqlstate", None) for each in causes))
    state = next(states, None)
    return state is None or state.startswith(_GONE_STATES)


def _list_causes(error: BaseException) -> Iterator[BaseException]:
    """The error and what it was raised from."""
    each: BaseException | None = error
    while each is not None:
        yield each
        each = each.__cause__
