"""A whole batch as one: the statements leave together, and row counts tell whether all of it fits.

This is how nearly every batch ends. Sums per account and per set of counters replace the single
orders, and on PostgreSQL the statements travel in one flight. Where a count is not the expected one
(a hold does not fit beside the others, or was swept), nothing may stand: the transaction is rolled
back and `batch.apply_batch` looks at the orders one by one.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from routing.metering.alone import hold_alone, settle_alone
from routing.metering.counters import CounterIds, Ids
from routing.metering.holds import (
    insert_holds,
    lock_accounts,
    reserve_account,
    reserve_counters,
)
from routing.metering.orders import HoldOrder, Order, ReleaseOrder, SettleOrder
from routing.metering.session import CONSTRAINT_ERRORS, NotAsExpected, Session
from routing.metering.settlements import (
    Sums,
    move_account,
    move_counters,
    take_exactly,
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
    session: Session,
    counters: CounterIds,
    orders: Sequence[Order],
    *,
    enforced: bool,
    before_commit: Callable[[], None],
) -> bool:
    """Carry all orders out in a transaction and commit it; False when it must be rolled back.

    On PostgreSQL the COMMIT travels with the rest, behind statements that fail where they do not
    move what they should. `before_commit` is called before it leaves.
    """
    batch = _sorted(counters, orders)
    if batch is None:
        session.begin()
        return False
    try:
        with session.flight():
            if session.is_sqlite or not _alone(session, batch, enforced):
                _together(session, batch, orders, enforced)
            before_commit()
            session.commit()
    except (NotAsExpected, *CONSTRAINT_ERRORS):
        # Something does not fit, or a hold was swept meanwhile, or one order is at fault.
        return False
    return True


def _alone(session: Session, batch: _Batch, enforced: bool) -> bool:
    """Carry a single order out as a transaction of one statement; False where this is none."""
    match (*batch.opening, *batch.closing):
        case [(order, ids)]:
            session.begin(alone=True)
            hold_alone(session, order, ids, enforced=enforced)
        case [SettleOrder() as order]:
            session.begin(alone=True)
            settle_alone(session, order, batch.expected[order.generation_id][1])
        case _:
            return False
    return True


def _together(session: Session, batch: _Batch, orders: Sequence[Order], enforced: bool) -> None:
    session.begin()
    if batch.expected:
        take_exactly(session, batch.expected)
    lock_accounts(session, [order.payer for order in orders])
    _move(session, batch, enforced)
    _write(session, batch)


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


def _move(session: Session, batch: _Batch, enforced: bool) -> None:
    """What frees money before what takes it."""
    for account_id, sums in sorted(batch.closed_accounts.items()):
        session.expect(1)
        move_account(session, account_id, sums)
    for ids, sums in sorted(batch.closed_counters.items()):
        session.expect(len(ids))
        move_counters(session, ids, sums)
    for account_id, amount_nano in sorted(batch.opened_accounts.items()):
        session.expect(1)
        reserve_account(session, account_id, amount_nano, enforced)
    for ids, amount_nano in sorted(batch.opened_counters.items()):
        if amount_nano:
            session.expect(len(ids))
            reserve_counters(session, ids, amount_nano)


def _write(session: Session, batch: _Batch) -> None:
    settled = [order for order in batch.closing if isinstance(order, SettleOrder)]
    if settled:
        write_entries(session, settled)
        write_records(session, settled)
    insert_holds(session, batch.opening)
