"""What the ledger writer tells whoever runs the gateway."""

import logging
import time
from collections.abc import Iterable

from routing.ledger.db_errors import FailureKind
from routing.ledger.orders import SettleOrder
from routing.ledger.tickets import Ticket

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
