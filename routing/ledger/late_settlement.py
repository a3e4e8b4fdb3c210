"""Generations that are recorded after their hour may have been rolled up (`routing.history`).

A record bears the moment its call began. Most come within minutes of it; an hour is rolled up well
after that, and whoever writes a later one says so in the same transaction.
"""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Final

from routing.ledger.orders import SettleOrder
from routing.ledger.session import LedgerSession

# After the end of an hour: from the first on its records are marked, at the second it is rolled up.
# Between them every transaction that was under way has ended.
MARKED_AFTER: Final = timedelta(minutes=5)
ROLLED_AFTER: Final = timedelta(minutes=10)
_HOUR: Final = timedelta(hours=1)


def is_late(order: SettleOrder, now: datetime | None = None) -> bool:
    """Whether its hour may have been rolled up before it is written."""
    began: datetime = order.record["created_at"]
    return _hour_of(began) + _HOUR + MARKED_AFTER <= (now or datetime.now(UTC))


def mark_late(session: LedgerSession, orders: Iterable[SettleOrder]) -> None:
    """Have the hours of late records rolled up anew; nearly always there are none."""
    now = datetime.now(UTC)
    hours = {_hour_of(order.record["created_at"]) for order in orders if is_late(order, now)}
    if hours:
        rows = [(session.time(hour),) for hour in sorted(hours)]
        session.insert("routing_latehour", ("hour",), rows)


def _hour_of(moment: datetime) -> datetime:
    return moment.replace(minute=0, second=0, microsecond=0)
