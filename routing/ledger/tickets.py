"""A request's place in the ledger writer's queue."""

import threading
import time
from collections import deque
from collections.abc import Iterable
from functools import cache
from typing import Any

from gevent import get_hub
from gevent.hub import Waiter

from gateway.database.db import under_gevent
from gateway.live_settings import settings
from routing.ledger.orders import HoldRefusal, Order, Outdated, SettleOrder

# True for what was done, False where the hold was gone, the refusal, or that the payer knew older
# limits.
Verdict = bool | HoldRefusal | Outdated
# It, or the error that ended the order.
Outcome = Verdict | Exception
_LOOK_S = 0.1
_BACKLOG_FIRST_S = 0.2
# Added to a request's wait for its settlement, this notices a database that is back within 10 s.
_BACKLOG_LONGEST_S = 5.0


def new_event() -> Any:
    """An event to wait on; gevent's own costs a tenth of the patched standard one."""
    return _event_class()()


@cache
def _event_class() -> Any:
    if under_gevent():
        from gevent.event import Event

        return Event
    return threading.Event


class _OneWaiterEvent:
    """An event that one greenlet waits for once, at a fraction of what gevent's own costs."""

    __slots__ = ("_is_set", "_waiter")

    def __init__(self) -> None:
        self._is_set = False
        self._waiter: Any = None

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True
        if self._waiter is not None:
            # By way of the hub: the ringing greenlet goes on, and one that has left meanwhile is
            # not woken.
            get_hub().loop.run_callback(self._waiter.switch, None)

    def wait(self) -> None:
        if not self._is_set:
            self._waiter = Waiter()
            try:
                self._waiter.get()
            finally:
                self._waiter = None


class Ticket:
    """One order and its outcome. A ticket whose waiter gave up is `abandoned`; `finished` is when
    its outcome came, in monotonic seconds."""

    __slots__ = ("abandoned", "done", "finished", "order", "outcome")

    def __init__(self, order: Order) -> None:
        self.order = order
        self.done: Any = _OneWaiterEvent() if under_gevent() else threading.Event()
        self.outcome: Outcome | None = None
        self.abandoned = False
        self.finished: float | None = None

    def finish(self, outcome: Outcome) -> None:
        self.outcome, self.finished = outcome, time.monotonic()
        self.done.set()


class TicketTimeouts:
    """Waits for tickets without a timer for each, which would cost as much as the waiting.

    One greenlet looks every 0.1 s whether somebody has waited too long, and lives while anybody
    waits. Waits of one length end in their order, so only the first of each line is looked at.
    """

    def __init__(self) -> None:
        self._lines: dict[float, deque[tuple[float, Ticket]]] = {}
        self._looking = False

    def wait(self, ticket: Ticket, timeout_s: float) -> bool:
        """Whether the outcome came within `timeout_s`, or 0.1 s later."""
        if not under_gevent():
            return bool(ticket.done.wait(timeout_s))
        if ticket.outcome is None:
            line = self._lines.setdefault(timeout_s, deque())
            line.append((time.monotonic() + timeout_s, ticket))
            if not self._looking:
                from gevent import spawn

                self._looking = True
                spawn(self._look)
            ticket.done.wait()
        return ticket.outcome is not None

    def _look(self) -> None:
        from gevent import sleep

        try:
            while any(self._lines.values()):
                sleep(_LOOK_S)
                now = time.monotonic()
                for line in self._lines.values():
                    while line and (line[0][1].outcome is not None or line[0][0] <= now):
                        ticket = line.popleft()[1]
                        if ticket.outcome is None:
                            ticket.done.set()
        finally:
            self._looking = False


class Backlog:
    """Orders that close a hold and that the database does not take for now, first in, first out.

    They are retried, ever less often, for as long as the process lives: what an upstream was paid
    for must reach the books. `due_at` is on the monotonic clock.
    """

    def __init__(self) -> None:
        self.tickets: deque[Ticket] = deque()
        self.due_at = 0.0
        self._delay_s = _BACKLOG_FIRST_S

    def __bool__(self) -> bool:
        return bool(self.tickets)

    def put(self, tickets: Iterable[Ticket]) -> None:
        """Keep tickets for later. Settlements always fit: there are no more than holds were open. A
        release may be dropped, because the lease of its hold ends anyway."""
        for ticket in tickets:
            is_settlement = isinstance(ticket.order, SettleOrder)
            if is_settlement or len(self.tickets) < settings.LEDGER_QUEUE_MAX:
                self.tickets.append(ticket)
        self.due_at = time.monotonic() + self._delay_s
        self._delay_s = min(2 * self._delay_s, _BACKLOG_LONGEST_S)

    def take(self, maximum: int) -> list[Ticket]:
        """Take up to `maximum` due tickets, the longest waiting first."""
        if time.monotonic() < self.due_at:
            return []
        return [self.tickets.popleft() for _ in range(min(maximum, len(self.tickets)))]

    def hurry(self) -> None:
        """Make everything due: the database writes again, or the process ends."""
        self.due_at = 0.0
        self._delay_s = _BACKLOG_FIRST_S
