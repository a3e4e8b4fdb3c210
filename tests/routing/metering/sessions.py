"""The writer's connection with something taken away or put in, for tests of the writer."""

import threading
from collections.abc import Callable, Sequence
from typing import Any

import psycopg

from routing.metering.session import Session
from routing.metering.tickets import Ticket
from routing.metering.writer import LedgerWriter
from tests.routing.metering.books import CENT, WAIT_S, carry_out, hold_order, new_payer

_GUARDS = (" AND total_credits_nano - total_usage_nano", " AND NOT EXISTS")


class UnguardedSession(Session):
    """The twin: the same statements without the conditions that keep money from going twice."""

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> Any:
        for guard in _GUARDS:
            if sql.startswith("UPDATE") and guard in sql:
                sql = sql.split(guard)[0]
                parameters = list(parameters)[: sql.count("%s")]
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

    def open(self) -> Session:
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
    carry_out(writer, hold_order(payer, CENT))  # The sweep of the beginning is over by then.
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
    outcomes = [writer.wait(ticket, WAIT_S) for ticket in (first, *tickets)]
    return outcomes[1:]


class _WatchedSession(Session):
    def __init__(self, commits: Commits) -> None:
        super().__init__()
        self._commits = commits

    def commit(self) -> None:
        commits = self._commits
        commits.reached.set()
        assert commits.go_on.wait(WAIT_S)
        while commits.before:
            commits.before.pop(0)()
        super().commit()
        commits.count += 1
        while commits.after:
            commits.after.pop(0)()


def break_connection() -> None:
    """What the driver raises when the server is gone."""
    raise psycopg.OperationalError("server closed the connection unexpectedly")
