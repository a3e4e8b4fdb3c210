"""Orders that close a hold and that the database will not take for now.

They are tried again and again, ever less often, for as long as the process lives: what an upstream
was paid for must reach the books.
"""

import time
from collections import deque
from collections.abc import Iterable

from gateway.live_settings import settings
from routing.ledger.orders import SettleOrder
from routing.ledger.tickets import Ticket

_FIRST_S = 0.2
# With what a request waits for its settlement, a database that is back is noticed within 10 s.
_LONGEST_S = 5.0


class Backlog:
    """First in, first out. `due_at` is on the monotonic clock."""

    def __init__(self) -> None:
        self.tickets: deque[Ticket] = deque()
        self.due_at = 0.0
        self._delay_s = _FIRST_S

    def __bool__(self) -> bool:
        return bool(self.tickets)

    def put(self, tickets: Iterable[Ticket]) -> None:
        """Keep them for later. Settlements always fit, and no more of them can come than holds were
        open; a release can be let go, because the lease of its hold ends all the same."""
        for ticket in tickets:
            is_settlement = isinstance(ticket.order, SettleOrder)
            if is_settlement or len(self.tickets) < settings.LEDGER_QUEUE_MAX:
                self.tickets.append(ticket)
        self.due_at = time.monotonic() + self._delay_s
        self._delay_s = min(2 * self._delay_s, _LONGEST_S)

    def take(self, maximum: int) -> list[Ticket]:
        """What is due now, the longest waiting first."""
        if time.monotonic() < self.due_at:
            return []
        return [self.tickets.popleft() for _ in range(min(maximum, len(self.tickets)))]

    def hurry(self) -> None:
        """The database writes again, or there is no later: all of it is due now."""
        self.due_at = 0.0
        self._delay_s = _FIRST_S
