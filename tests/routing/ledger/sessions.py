"""The writer's connection with something taken away or put in, for tests of the writer."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg

from routing.ledger.session import LedgerSession
from routing.ledger.tickets import Ticket
from routing.ledger.writer import LedgerWriter
from tests.routing.ledger.books import CENT, WAIT_S, hold_order, new_payer, place_standing, wait_all

_GUARDS = (" AND total_credits_nano - total_usage_nano", " AND NOT EXISTS")
# The same in a statement that is a whole transaction; what takes their place is always true.
_GUARDS_ALONE = (
    "total_credits_nano - total_usage_nano - held_nano >= %s",
    "spent_nano + held_nano + %s <= limit_nano",
)


class UnguardedSession(LedgerSession):
    """The twin: the same statements without the conditions that keep money from going twice."""

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> Any:
        for guard in _GUARDS:
            if sql.startswith("UPDATE") and guard in sql:
                sql = sql.split(guard)[0]
                parameters = list(parameters)[: sql.count("%s")]
        for guard in _GUARDS_ALONE:
            sql = sql.replace(guard, "%s::bigint IS NOT NULL")
        return super().execute(sql, parameters)


class Commits:
    """Opens sessions that count commits, and can hold one up or break it."""

    def __init__(self) -> None:
        self.count = 0
        self.reached = threading.Event()
        self.go_on = threading.Event()
        self.go_on.set()
        self.before: list[Callable[[], None]] = []
        self.after: list[Callable[[], None]] = []

    def open(self) -> LedgerSession:
        return _WatchedSession(self)

    def block(self) -> None:
        """The next commit waits for `go_on`; `reached` tells that it does."""
        self.go_on.clear()
        self.reached.clear()

    def wait_reached(self) -> None:
        assert self.reached.wait(WAIT_S)


def held_up(writer: LedgerWriter, commits: Commits) -> Ticket:
    """Bring the writer to a commit that waits for `go_on`; what is submitted now is one batch."""
    payer = new_payer()
    place_standing(writer, payer, CENT)  # The sweep of the beginning is over by then.
    commits.block()
    ticket = writer.submit(hold_order(payer, CENT))
    commits.wait_reached()
    commits.count = 0
    return ticket


def in_one_batch(writer: LedgerWriter, commits: Commits, orders: list[Any]) -> list[Any]:
    """The outcomes of orders that queued up behind one commit."""
    first = held_up(writer, commits)
    tickets = [writer.submit(order) for order in orders]
    commits.go_on.set()
    return wait_all(writer, [first, *tickets])[1:]


class _WatchedSession(LedgerSession):
    def __init__(self, commits: Commits) -> None:
        super().__init__()
        self._commits = commits
        self._is_leaving = False

    def commit(self) -> None:
        commits = self._commits
        commits.reached.set()
        assert commits.go_on.wait(WAIT_S)
        _call_all(commits.before)
        super().commit()
        if self._pipeline is None:
            self._note_commit()
        else:
            self._is_leaving = True

    @contextmanager
    def pipeline(self) -> Iterator[None]:
        with super().pipeline():
            yield
        if self._is_leaving and self._pipeline is None:
            self._is_leaving = False
            self._note_commit()

    def _note_commit(self) -> None:
        self._commits.count += 1
        _call_all(self._commits.after)


def _call_all(hooks: list[Callable[[], None]]) -> None:
    """Each once; what one of them adds is for the next commit."""
    due = hooks.copy()
    hooks.clear()
    for hook in due:
        hook()


def break_connection() -> None:
    """What the driver raises when the server is gone."""
    raise psycopg.OperationalError("server closed the connection unexpectedly")


class Moods:
    """Opens sessions of a database that will not write while `unwilling` says how.

    `read_only` and `no_table` make the real server refuse; `attempts` counts transactions begun.
    """

    def __init__(self) -> None:
        self.unwilling = ""
        self.attempts = 0
        self._moved = threading.Condition()

    def open(self) -> LedgerSession:
        return _MoodySession(self)

    def wait_attempts(self, count: int) -> None:
        """Until so many more transactions were begun."""
        with self._moved:
            target = self.attempts + count
            assert self._moved.wait_for(lambda: self.attempts >= target, WAIT_S)

    def began(self) -> None:
        with self._moved:
            self.attempts += 1
            self._moved.notify_all()


class _MoodySession(LedgerSession):
    def __init__(self, moods: Moods) -> None:
        super().__init__()
        self._moods = moods

    def begin(self, *, alone: bool = False) -> None:
        self._moods.began()
        if self._moods.unwilling == "read_only" and self.is_sqlite:
            super().execute("PRAGMA query_only = ON")
        # What is to be told of a transaction needs one to be told of.
        super().begin(alone=alone and not self._moods.unwilling)
        if self._moods.unwilling == "read_only" and not self.is_sqlite:
            super().execute("SET TRANSACTION READ ONLY")

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> Any:
        if self._moods.unwilling == "no_table":
            sql = sql.replace(" accounts_", " dropped_")
        return super().execute(sql, parameters)
