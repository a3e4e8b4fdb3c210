"""What the gateway's own credentials have spent, in the transaction that charges the requests.

Its rows are the last that a transaction locks, in the order of their names: so two processes never
wait for each other.
"""

from collections.abc import Iterable

from routing.ledger.orders import SettleOrder
from routing.ledger.session import LedgerSession

_ADD = (
    "INSERT INTO routing_credentialspend (provider, label, day, requests, cost_nano)"
    " VALUES (%s, %s, %s, %s, %s) ON CONFLICT (provider, label, day) DO UPDATE SET"
    " requests = routing_credentialspend.requests + excluded.requests,"
    " cost_nano = routing_credentialspend.cost_nano + excluded.cost_nano"
)


def add_credential_spend(session: LedgerSession, orders: Iterable[SettleOrder]) -> None:
    """Add what these requests spent with credentials of pools to their days."""
    sums: dict[tuple[str, str, str], tuple[int, int]] = {}
    for order in orders:
        for spent in order.credential_spend:
            row = spent.provider, spent.label, order.settled_at.date().isoformat()
            requests, cost_nano = sums.get(row, (0, 0))
            sums[row] = requests + 1, cost_nano + spent.cost_nano
    for row, figures in sorted(sums.items()):
        session.execute(_ADD, [*row, *figures])
