"""What an error of the ledger's database means for the orders it met."""

import logging
import sqlite3
import time
from collections.abc import Iterable
from enum import Enum

import psycopg
from django.db import DatabaseError, InterfaceError

from routing.ledger.orders import SettleOrder
from routing.ledger.tickets import Ticket


class FailureKind(Enum):
    """`ITEM`: one of the orders is at fault; nothing was committed. `PASSING`: the database is not
    there, busy or restarting; the same orders may pass in a moment. `LASTING`: it is there and will
    not write until somebody mends it (read-only, full, a table or a right is missing). `STRANGE`:
    none of these for certain, such as a plan that a migration outdated; a new connection may do.
    """

    ITEM = "item"
    STRANGE = "strange"
    PASSING = "passing"
    LASTING = "lasting"


class ConnectionNotOpened(Exception):
    """The ledger's connection could not be opened, whatever the reason: no order is at fault."""


# What the writer can meet and outlive.
ERRORS = (
    ConnectionNotOpened,
    psycopg.Error,
    sqlite3.Error,
    DatabaseError,
    InterfaceError,
    OSError,
    OverflowError,
    KeyError,
    TypeError,
    ValueError,
)
_ITEM_ERRORS = (
    psycopg.IntegrityError,
    psycopg.DataError,
    psycopg.ProgrammingError,
    sqlite3.IntegrityError,
    sqlite3.DataError,
    sqlite3.ProgrammingError,
    sqlite3.InterfaceError,
    OverflowError,
    KeyError,
    TypeError,
    ValueError,
)
# Classes and codes of PostgreSQL's Appendix A. Read-only, system errors, disk full, configuration
# file, a missing right, table, column or schema.
_LASTING_STATES = ("25006", "53100", "58", "F0", "42501", "42P01", "42703", "3F000")
# Values, constraints, and limits of a statement.
_ITEM_STATES = ("22", "23", "54")
# Connections, a transaction that took too long, rolled back by a deadlock, resources, a lock or the
# object in use, operators.
_PASSING_STATES = ("08", "25P03", "25P04", "40", "53", "55", "57")
# Primary result codes of SQLite.
_PASSING_CODES = {
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_INTERRUPT,
    sqlite3.SQLITE_PROTOCOL,
    sqlite3.SQLITE_SCHEMA,
}
_ITEM_CODES = {
    sqlite3.SQLITE_CONSTRAINT,
    sqlite3.SQLITE_TOOBIG,
    sqlite3.SQLITE_MISMATCH,
    sqlite3.SQLITE_RANGE,
}


def classify_error(error: BaseException) -> FailureKind:
    """Which kind an error is; one that says nothing of itself is passing."""
    state = getattr(error, "sqlstate", None)
    if state is not None:
        if state.startswith(_LASTING_STATES):
            return FailureKind.LASTING
        if state.startswith(_PASSING_STATES):
            return FailureKind.PASSING
        return FailureKind.ITEM if state.startswith(_ITEM_STATES) else FailureKind.STRANGE
    code = getattr(error, "sqlite_errorcode", None)
    if code is not None:
        primary = code & 0xFF
        if primary in _PASSING_CODES:
            return FailureKind.PASSING
        return FailureKind.ITEM if primary in _ITEM_CODES else FailureKind.LASTING
    return FailureKind.ITEM if isinstance(error, _ITEM_ERRORS) else FailureKind.PASSING


def is_reported_by_server(error: BaseException) -> bool:
    """Whether the server itself said that a statement failed: then nothing was committed.

    One that is shutting down may say so behind a COMMIT that it carried out.
    """
    state = getattr(error, "sqlstate", None)
    return state is not None and not state.startswith(("08", "57"))


# --- What the log says of them --------------------------------------------------------------------


log = logging.getLogger("gateway.ledger")
_AGAIN_S = 10.0


class FailureLog:
    """The database's failures: each kind as it begins, then at most every ten seconds."""

    def __init__(self) -> None:
        self._last: tuple[FailureKind, float] | None = None

    def report(self, what: FailureKind, error: Exception) -> None:
        now = time.monotonic()
        if self._last and self._last[0] is what and now - self._last[1] < _AGAIN_S:
            return
        self._last = what, now
        if what is not FailureKind.PASSING:
            log.error("The ledger's database refuses to write: %s", error)
        else:
            log.warning("The ledger's database does not answer: %s", error)


def log_refused(generation_id: str, error: Exception) -> None:
    # The rest of the text quotes the row.
    reason = (str(error).splitlines() or [""])[0]
    log.error("The ledger refused an item, %s: %s", generation_id, reason)


def log_unbooked(tickets: Iterable[Ticket]) -> None:
    """Charges that may be missing from the books, one line each."""
    for ticket in tickets:
        order = ticket.order
        if isinstance(order, SettleOrder):
            log.error(
                "Not booked: generation %s of account %s, %d nano-USD",
                order.generation_id,
                order.payer.account_id,
                order.charge_nano,
            )
