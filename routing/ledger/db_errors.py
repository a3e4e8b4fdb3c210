"""What an error of the ledger's database means for the orders it met."""

import sqlite3
from enum import Enum

import psycopg
from django.db import DatabaseError, InterfaceError


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
    """Which of the three an error is; one that says nothing of itself is passing."""
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
