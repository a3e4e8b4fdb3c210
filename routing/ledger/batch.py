"""Orders looked at one by one, where `merged.apply_merged` found that they do not all fit."""

from collections.abc import Sequence

from routing.ledger.counters import CounterIds
from routing.ledger.holds import lock_accounts, place, raise_hold
from routing.ledger.orders import HoldOrder, ReleaseOrder, SettleOrder, TopUpOrder
from routing.ledger.session import Session
from routing.ledger.settlements import settle
from routing.ledger.tickets import Outcome, Ticket


def apply_batch(
    session: Session, counters: CounterIds, tickets: Sequence[Ticket], *, enforced: bool
) -> list[Outcome]:
    """Carry out all orders inside the open transaction; outcomes in the order of the tickets.

    What frees money goes first, so that it is there for the holds of the same batch.
    """
    orders = [ticket.order for ticket in tickets]
    closing = [order for order in orders if isinstance(order, SettleOrder | ReleaseOrder)]
    opening = [order for order in orders if isinstance(order, HoldOrder)]
    raising = [order for order in orders if isinstance(order, TopUpOrder)]
    payers = [order.payer for order in raising]
    payers += [order.payer for order in opening]
    if closing:
        settle(session, counters, closing, beside=payers)
    else:
        lock_accounts(session, payers)
    raised = {
        order.generation_id: raise_hold(session, counters, order, enforced=enforced)
        for order in raising
    }
    placed = place(session, counters, opening, enforced=enforced) if opening else {}
    outcomes: list[Outcome] = []
    for order in orders:
        if isinstance(order, HoldOrder):
            outcomes.append(placed[order.generation_id] or True)
        elif isinstance(order, TopUpOrder):
            outcomes.append(raised[order.generation_id])
        else:
            outcomes.append(True)
    return outcomes
