"""What an error of the database means, what is kept while it will not write, and waiting without a
timer each."""

import sqlite3
import subprocess
import sys
import uuid

import psycopg
import pytest
from psycopg import errors

from routing.ledger.db_errors import ConnectionNotOpened, FailureKind, classify_error
from routing.ledger.orders import Payer
from routing.ledger.tickets import Backlog, Ticket
from tests.routing.ledger.books import hold_order, release_order, settle_order
from tests.support.manage import PROJECT


def of_sqlite(kind: type[sqlite3.Error], code: int) -> sqlite3.Error:
    error = kind("told by SQLite")
    error.sqlite_errorcode = code
    return error


TROUBLES: dict[FailureKind, list[Exception]] = {
    FailureKind.PASSING: [
        psycopg.OperationalError("server closed the connection"),
        errors.AdminShutdown(),
        errors.CannotConnectNow(),
        errors.TooManyConnections(),
        errors.DeadlockDetected(),
        errors.SerializationFailure(),
        errors.LockNotAvailable(),
        errors.IdleInTransactionSessionTimeout(),
        of_sqlite(sqlite3.OperationalError, sqlite3.SQLITE_BUSY_SNAPSHOT),
        of_sqlite(sqlite3.OperationalError, sqlite3.SQLITE_LOCKED),
        ConnectionNotOpened("bad conninfo"),
        OSError("too many open files"),
    ],
    FailureKind.LASTING: [
        errors.ReadOnlySqlTransaction(),
        errors.DiskFull(),
        errors.IoError(),
        errors.InsufficientPrivilege(),
        errors.UndefinedTable(),
        errors.UndefinedColumn(),
        of_sqlite(sqlite3.OperationalError, sqlite3.SQLITE_FULL),
        of_sqlite(sqlite3.OperationalError, sqlite3.SQLITE_READONLY_DBMOVED),
        of_sqlite(sqlite3.OperationalError, sqlite3.SQLITE_IOERR_FSYNC),
        of_sqlite(sqlite3.OperationalError, sqlite3.SQLITE_ERROR),
        of_sqlite(sqlite3.DatabaseError, sqlite3.SQLITE_CORRUPT),
    ],
    FailureKind.STRANGE: [
        errors.FeatureNotSupported(),
        errors.InvalidSqlStatementName(),
        errors.InternalError_(),
        errors.RaiseException(),
    ],
    FailureKind.ITEM: [
        errors.CheckViolation(),
        errors.NumericValueOutOfRange(),
        errors.ProgramLimitExceeded(),
        psycopg.ProgrammingError("cannot adapt type"),
        of_sqlite(sqlite3.IntegrityError, sqlite3.SQLITE_CONSTRAINT_CHECK),
        sqlite3.ProgrammingError("Error binding parameter"),
        OverflowError("too large"),
        KeyError("status"),
    ],
}


@pytest.mark.parametrize("expected", FailureKind)
def test_an_error_is_the_items_fault_or_passes_or_lasts(expected: FailureKind) -> None:
    found = {repr(error): classify_error(error) for error in TROUBLES[expected]}
    assert found == dict.fromkeys(found, expected)


def test_the_backlog_keeps_every_charge_and_only_so_many_releases(settings) -> None:
    settings.LEDGER_QUEUE_MAX = 3
    hold = hold_order(Payer(uuid.uuid4(), uuid.uuid4(), 1, ()), 0)
    backlog = Backlog()

    backlog.put(Ticket(release_order(hold)) for _ in range(10))
    backlog.put(Ticket(settle_order(hold, 0)) for _ in range(10))

    assert len(backlog.tickets) == 13
    assert backlog.take(200) == []  # Not due yet.
    backlog.hurry()
    assert [len(backlog.take(8)), len(backlog.take(8))] == [8, 5]


# --- Waiting under gevent, so in a process of its own ---------------------------------------------


PROGRAM = """
from gevent import monkey
monkey.patch_all()
import os, time, django, gevent
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gateway.settings")
django.setup()
from routing.ledger.tickets import Ticket, TicketTimeouts

timeouts = TicketTimeouts()

def timed(one, limit_s):
    began = time.monotonic()
    return timeouts.wait(one, limit_s), time.monotonic() - began

# An outcome that comes wakes its waiter, whatever others wait for.
early, late, left = (Ticket(None) for _ in range(3))
waits = [gevent.spawn(timed, early, 30), gevent.spawn(timed, late, 0.2)]
gevent.sleep(0)
early.finish(True)
gevent.joinall(waits, timeout=10, raise_error=True)
assert waits[0].value[0] is True and waits[0].value[1] < 5
assert waits[1].value[0] is False and 0.2 <= waits[1].value[1] < 5

# One that is there already is not waited for; one that comes too late wakes nobody twice.
assert timed(early, 30)[0] is True
late.finish(True)

# A waiter that is killed leaves, and its ticket may still come to its end.
leaver = gevent.spawn(timed, left, 30)
gevent.sleep(0)
leaver.kill(timeout=10)
assert leaver.ready()
left.finish(True)

# After a pause in which nobody waited, somebody is looked after again.
assert timed(Ticket(None), 0.2)[0] is False
gevent.sleep(0.3)
assert timed(Ticket(None), 0.2)[0] is False
print("done")
"""


def test_every_waiter_wakes_in_its_time() -> None:
    program = [sys.executable, "-c", PROGRAM]
    ended = subprocess.run(program, cwd=PROJECT, capture_output=True, text=True, timeout=60)
    assert (ended.stdout, ended.returncode) == ("done\n", 0), ended.stderr
