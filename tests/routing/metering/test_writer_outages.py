"""What the ledger writer promises when its database is there but will not write, or it dies."""

import sqlite3
import threading
from contextlib import suppress
from typing import Any

import psycopg
import pytest
from pytest_django import Settings

from gateway.http.errors import Unavailable
from routing.metering.backlog import Backlog
from routing.metering.orders import HoldOrder, Order
from routing.metering.tickets import Ticket
from routing.metering.troubles import NotOpened, Trouble, trouble
from tests.routing.metering.books import (
    CENT,
    USD,
    WAIT_S,
    assert_books_agree,
    carry_out,
    entries,
    generation,
    hold_order,
    new_payer,
    open_holds,
    release_order,
    running_writer,
    settle_order,
    totals,
)
from tests.routing.metering.sessions import (
    Commits,
    Moods,
    break_connection,
    held_up,
)

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both]


@pytest.mark.parametrize("unwilling", ["read_only", "no_table"])
def test_while_the_database_will_not_write_holds_fail_at_once_and_settlements_wait(
    unwilling: str, caplog: pytest.LogCaptureFixture
) -> None:
    payer = new_payer(USD)
    hold = hold_order(payer, 10 * CENT)
    moods = Moods()

    with running_writer(moods.open) as writer:
        carry_out(writer, hold)
        moods.unwilling = unwilling
        settled = writer.submit(settle_order(hold, 7 * CENT))
        moods.wait_attempts(2)
        with pytest.raises(Unavailable) as refused:
            writer.wait(writer.submit(hold_order(payer, CENT)), WAIT_S)
        assert refused.value.__cause__ is not None  # By the database's word, not by the clock.
        assert not settled.done.is_set()
        moods.unwilling = ""
        assert writer.wait(settled, WAIT_S) is True
        assert carry_out(writer, hold_order(payer, CENT)) is True

    assert "refuses to write" in caplog.text
    assert totals(payer) == (USD, 7 * CENT, CENT)
    assert entries(payer) == [7 * CENT]
    assert_books_agree()


def test_what_cannot_be_booked_at_the_stop_is_told_to_the_operator(
    caplog: pytest.LogCaptureFixture,
) -> None:
    payer = new_payer(USD)
    waiting, passing = hold_order(payer, 10 * CENT), hold_order(payer, 10 * CENT)
    moods = Moods()

    with running_writer(moods.open) as writer:
        carry_out(writer, waiting)
        carry_out(writer, passing)
        moods.unwilling = "read_only"
        ticket = writer.submit(settle_order(waiting, 7 * CENT))
        moods.wait_attempts(1)
        writer.stop(0.2)
        assert f"{waiting.generation_id} of account {payer.account_id}, 70000000" in caplog.text
        with pytest.raises(Unavailable):
            writer.wait(ticket, WAIT_S)
        # Let go is let go; the next order begins anew.
        moods.unwilling = ""
        assert carry_out(writer, settle_order(passing, CENT)) is True

    assert passing.generation_id not in caplog.text
    assert entries(payer) == [CENT]
    assert_books_agree()


def test_a_stop_while_the_database_is_away_ends_in_time_and_tells(
    caplog: pytest.LogCaptureFixture,
) -> None:
    payer = new_payer(USD)
    hold = hold_order(payer, 10 * CENT)
    commits, away = Commits(), threading.Event()

    def open_session() -> Any:
        if away.is_set():
            break_connection()
        return commits.open()

    with running_writer(open_session) as writer:
        carry_out(writer, hold)
        commits.before.append(break_connection)
        away.set()
        ticket = writer.submit(settle_order(hold, 7 * CENT))
        commits.wait_reached()
        writer.stop(0.3)
        with pytest.raises(Unavailable):
            writer.wait(ticket, WAIT_S)
        assert f"Not booked: generation {hold.generation_id}" in caplog.text


def test_the_stop_waits_for_a_database_that_comes_back_in_time() -> None:
    payer = new_payer(USD)
    hold = hold_order(payer, 10 * CENT)
    moods = Moods()

    with running_writer(moods.open) as writer:
        carry_out(writer, hold)
        moods.unwilling = "read_only"
        writer.submit(settle_order(hold, 7 * CENT))
        stopping = threading.Thread(target=writer.stop, args=(WAIT_S,))
        stopping.start()
        moods.wait_attempts(2)
        moods.unwilling = ""
        stopping.join(WAIT_S)

    assert entries(payer) == [7 * CENT]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("committed", [True, False])
def test_a_charge_outlives_the_writer_that_died_with_it(
    committed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    payer = new_payer(USD)
    hold, queued = hold_order(payer, 10 * CENT), hold_order(payer, 10 * CENT)
    commits = Commits()

    def die() -> None:
        raise RuntimeError("nobody foresaw this")

    with running_writer(commits.open) as writer:
        carry_out(writer, hold)
        carry_out(writer, queued)
        held_up(writer, commits)
        # The one that is held up goes through; the batch of these three is what kills.
        moment = commits.after if committed else commits.before
        moment.append(lambda: moment.append(die))
        orders: list[Order] = [
            settle_order(hold, 7 * CENT),
            settle_order(queued, CENT),
            hold_order(payer, CENT),
        ]
        tickets = [writer.submit(order) for order in orders]
        commits.go_on.set()
        for ticket in tickets:
            with pytest.raises(Unavailable):
                writer.wait(ticket, WAIT_S)

    # What was left to the next writer is carried out before that one ends.
    assert "The ledger writer died" in caplog.text
    assert sorted(entries(payer)) == [CENT, 7 * CENT]
    assert totals(payer) == (USD, 8 * CENT, 0)
    assert_books_agree()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_charge_that_kills_writers_is_told_and_let_go(caplog: pytest.LogCaptureFixture) -> None:
    payer = new_payer(USD)
    deadly, sound = hold_order(payer, 10 * CENT), hold_order(payer, 10 * CENT)
    poison = settle_order(deadly, 7 * CENT)._replace(record=Deadly())

    with running_writer() as writer:
        carry_out(writer, deadly)
        carry_out(writer, sound)
        with pytest.raises(Unavailable):
            carry_out(writer, poison)
        # The dying one may still tell this waiter no; the charge is for the next one.
        with suppress(Unavailable):
            carry_out(writer, settle_order(sound, CENT))

    assert f"Not booked: generation {deadly.generation_id}" in caplog.text
    assert generation(deadly) is None
    assert entries(payer) == [CENT]
    assert_books_agree()


class Deadly(dict[str, Any]):
    """A record that ends whoever reads it, in a way that nobody foresaw."""

    def __getitem__(self, name: str) -> Any:
        raise RuntimeError("nobody foresaw this")


def test_a_poison_hold_fails_alone_and_its_batch_mates_are_placed() -> None:
    payer = new_payer(USD)
    orders = [hold_order(payer, CENT) for _ in range(3)]
    orders[1] = _poisoned(orders[1])
    commits = Commits()

    with running_writer(commits.open) as writer:
        held_up(writer, commits)
        tickets = [writer.submit(order) for order in orders]
        commits.go_on.set()
        assert writer.wait(tickets[0], WAIT_S) is True
        with pytest.raises(Unavailable):
            writer.wait(tickets[1], WAIT_S)
        assert writer.wait(tickets[2], WAIT_S) is True

    assert totals(payer) == (USD, 0, 2 * CENT)
    assert open_holds(payer) == [CENT, CENT]
    assert_books_agree()


def _poisoned(hold: HoldOrder) -> HoldOrder:
    broken: Any = None  # The column is NOT NULL.
    return HoldOrder(
        hold.generation_id, hold.payer, CENT, broken, hold.created_at, hold.lease_expires_at
    )


def test_the_backlog_keeps_every_charge_and_only_so_many_releases(settings: Settings) -> None:
    settings.LEDGER_QUEUE_MAX = 3
    hold = hold_order(new_payer(0), 0)
    backlog = Backlog()

    backlog.put(Ticket(release_order(hold)) for _ in range(10))
    backlog.put(Ticket(settle_order(hold, 0)) for _ in range(10))

    assert len(backlog.tickets) == 13
    assert backlog.take(200) == []  # Not due yet.
    backlog.hurry()
    assert len(backlog.take(8)) == 8
    assert len(backlog.take(8)) == 5


def _of_sqlite(kind: type[sqlite3.Error], code: int) -> sqlite3.Error:
    error = kind("told by SQLite")
    error.sqlite_errorcode = code
    return error


def test_a_failure_nobody_can_read_costs_no_charge() -> None:
    """Such as a plan that a migration outdated: a fresh connection has none."""
    payer = new_payer(USD)
    hold, beside = hold_order(payer, 10 * CENT), hold_order(payer, CENT)
    commits = Commits()

    def fail() -> None:
        raise psycopg.errors.FeatureNotSupported("cached plan must not change result type")

    with running_writer(commits.open) as writer:
        carry_out(writer, hold)
        carry_out(writer, beside)
        first = held_up(writer, commits)
        settling = [settle_order(hold, 7 * CENT), settle_order(beside, CENT)]
        tickets = [first, *[writer.submit(order) for order in settling]]
        # Not the commit that is held up, but the one behind it.
        commits.before.append(lambda: commits.before.append(fail))
        commits.go_on.set()
        assert [writer.wait(ticket, WAIT_S) for ticket in tickets] == [True] * 3

    assert sorted(entries(payer)) == [CENT, 7 * CENT]
    assert_books_agree()


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (psycopg.OperationalError("server closed the connection"), Trouble.PASSING),
        (psycopg.errors.AdminShutdown(), Trouble.PASSING),
        (psycopg.errors.CannotConnectNow(), Trouble.PASSING),
        (psycopg.errors.TooManyConnections(), Trouble.PASSING),
        (psycopg.errors.DeadlockDetected(), Trouble.PASSING),
        (psycopg.errors.SerializationFailure(), Trouble.PASSING),
        (psycopg.errors.LockNotAvailable(), Trouble.PASSING),
        (psycopg.errors.IdleInTransactionSessionTimeout(), Trouble.PASSING),
        (psycopg.errors.ReadOnlySqlTransaction(), Trouble.LASTING),
        (psycopg.errors.DiskFull(), Trouble.LASTING),
        (psycopg.errors.IoError(), Trouble.LASTING),
        (psycopg.errors.InsufficientPrivilege(), Trouble.LASTING),
        (psycopg.errors.UndefinedTable(), Trouble.LASTING),
        (psycopg.errors.UndefinedColumn(), Trouble.LASTING),
        (psycopg.errors.FeatureNotSupported(), Trouble.STRANGE),
        (psycopg.errors.InvalidSqlStatementName(), Trouble.STRANGE),
        (psycopg.errors.InternalError_(), Trouble.STRANGE),
        (psycopg.errors.RaiseException(), Trouble.STRANGE),
        (psycopg.errors.CheckViolation(), Trouble.ITEM),
        (psycopg.errors.NumericValueOutOfRange(), Trouble.ITEM),
        (psycopg.errors.ProgramLimitExceeded(), Trouble.ITEM),
        (psycopg.ProgrammingError("cannot adapt type"), Trouble.ITEM),
        (_of_sqlite(sqlite3.OperationalError, sqlite3.SQLITE_BUSY_SNAPSHOT), Trouble.PASSING),
        (_of_sqlite(sqlite3.OperationalError, sqlite3.SQLITE_LOCKED), Trouble.PASSING),
        (_of_sqlite(sqlite3.OperationalError, sqlite3.SQLITE_FULL), Trouble.LASTING),
        (_of_sqlite(sqlite3.OperationalError, sqlite3.SQLITE_READONLY_DBMOVED), Trouble.LASTING),
        (_of_sqlite(sqlite3.OperationalError, sqlite3.SQLITE_IOERR_FSYNC), Trouble.LASTING),
        (_of_sqlite(sqlite3.OperationalError, sqlite3.SQLITE_ERROR), Trouble.LASTING),
        (_of_sqlite(sqlite3.DatabaseError, sqlite3.SQLITE_CORRUPT), Trouble.LASTING),
        (_of_sqlite(sqlite3.IntegrityError, sqlite3.SQLITE_CONSTRAINT_CHECK), Trouble.ITEM),
        (sqlite3.ProgrammingError("Error binding parameter"), Trouble.ITEM),
        (OverflowError("too large"), Trouble.ITEM),
        (KeyError("status"), Trouble.ITEM),
        (NotOpened("bad conninfo"), Trouble.PASSING),
        (OSError("too many open files"), Trouble.PASSING),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_error_is_the_items_fault_or_passes_or_lasts(
    error: Exception, expected: Trouble
) -> None:
    assert trouble(error) is expected
