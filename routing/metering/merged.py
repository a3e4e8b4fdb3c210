"""A whole batch as one: the statements leave together, and row counts tell whether all of it fits.

This is how nearly every batch ends. Sums per account and per set of counters replace the single
orders, and on PostgreSQL the statements travel in one flight. Where a count is not the expected one
(a hold does not fit beside the others, or was swept), nothing may stand: the transaction is rolled
back and `batch.apply_batch` looks at the orders one by one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from routing.metering.counters import CounterIds, Ids
from routing.metering.holds import (
    insert_holds,
    lock_accounts,
    reserve_account,
    reserve_counters,
)
from routing.metering.orders import HoldOrder, Order, ReleaseOrder, SettleOrder
from routing.metering.session import CONSTRAINT_ERRORS, Session
from routing.metering.settlements import (
    Sums,
    ids_of,
    move_account,
    move_counters,
    take_holds,
    write_entries,
    write_records,
)


@dataclass(slots=True)
class _Batch:
    """The orders, and what they come to for each account and each set of counters."""

    closing: list[SettleOrder | ReleaseOrder] = field(default_factory=list)
    opening: list[tuple[HoldOrder, Ids]] = field(default_factory=list)
    expected: dict[str, tuple[int, Ids]] = field(default_factory=dict)
    closed_accounts: dict[UUID, Sums] = field(default_factory=dict)
    closed_counters: dict[Ids, Sums] = field(default_factory=dict)
    opened_accounts: dict[UUID, int] = field(default_factory=dict)
    opened_counters: dict[Ids, int] = field(default_factory=dict)


def apply_merged(
    session: Session, counters: CounterIds, orders: Sequence[Order], *, enforced: bool
) -> bool:
    """Begin a transaction and carry all orders out in it; False when it must be rolled back."""
    batch = _sorted(counters, orders)
    if batch is None:
        session.begin()
        return False
    try:
        with session.flight():
            session.begin()
            taken = take_holds(session, list(batch.expected)) if batch.closing else None
            lock_accounts(session, [order.payer for order in orders])
            counted = _moves(session, batch, enforced)
            _write(session, batch)
    except CONSTRAINT_ERRORS:
        # A hold that was swept meanwhile would be freed twice; or one order is at fault.
        return False
    fits = all(cursor.rowcount == rows for cursor, rows in counted)
    return fits and _as_expected(batch, taken)


def _sorted(counters: CounterIds, orders: Sequence[Order]) -> _Batch | None:
    """The batch, or None when some order cannot be told in advance."""
    batch = _Batch()
    for order in orders:
        ids = counters.known(order.payer)
        if ids is None or (isinstance(order, HoldOrder) and order.replayed):
            return None
        if isinstance(order, HoldOrder):
            _open(batch, order, ids)
        elif not isinstance(order, SettleOrder | ReleaseOrder) or order.held_nano is None:
            return None
        else:
            _close(batch, order, ids, order.held_nano)
    # Told twice about one generation, the batch is not as simple as it looks.
    return batch if len(batch.expected) == len(batch.closing) else None


def _open(batch: _Batch, order: HoldOrder, ids: Ids) -> None:
    account, amount_nano = order.payer.account_id, order.amount_nano
    batch.opening.append((order, ids))
    batch.opened_accounts[account] = batch.opened_accounts.get(account, 0) + amount_nano
    batch.opened_counters[ids] = batch.opened_counters.get(ids, 0) + amount_nano


def _close(batch: _Batch, order: SettleOrder | ReleaseOrder, ids: Ids, held_nano: int) -> None:
    batch.closing.append(order)
    batch.expected[order.generation_id] = held_nano, ids
    charge_nano = order.charge_nano if isinstance(order, SettleOrder) else 0
    for sums in (
        batch.closed_accounts.setdefault(order.payer.account_id, Sums()),
        batch.closed_counters.setdefault(ids, Sums()),
    ):
        sums.spent_nano += charge_nano
        sums.released_nano += held_nano


def _moves(session: Session, batch: _Batch, enforced: bool) -> list[tuple[Any, int]]:
    """Every update with the rows it must move: what frees money before what takes it."""
    moves: list[tuple[Any, int]] = []
    for account_id, sums in sorted(batch.closed_accounts.items()):
        moves.append((move_account(session, account_id, sums), 1))
    for ids, sums in sorted(batch.closed_counters.items()):
        moves.append((move_counters(session, ids, sums), len(ids)))
    for account_id, amount_nano in sorted(batch.opened_accounts.items()):
        moves.append((reserve_account(session, account_id, amount_nano, enforced), 1))
    for ids, amount_nano in sorted(batch.opened_counters.items()):
        if amount_nano:
            moves.append((reserve_counters(session, ids, amount_nano), len(ids)))
    return moves


def _write(session: Session, batch: _Batch) -> None:
    settled = [order for order in batch.closing if isinstance(order, SettleOrder)]
    if settled:
        write_entries(session, settled)
        write_records(session, settled)
    insert_holds(session, batch.opening)


def _as_expected(batch: _Batch, taken: Any) -> bool:
    """Whether every hold to close was open, for the amount and the counters that were assumed."""
    if taken is None:
        return True
    found = {row[0]: (int(row[1]), ids_of(row[2])) for row in taken.fetchall()}
    return found == batch.expected
