"""A whole batch as one: the statements leave together, and row counts tell whether all of it fits.

This is how nearly every batch ends. Sums per account and per set of counters replace the single
orders, and on PostgreSQL the statements travel in one flight. Where a count is not the expected one
(a hold does not fit beside the others, was swept, or counts against a limit that is new), nothing
may stand: the transaction is rolled back and `batch.apply_batch` looks at the orders one by one.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from routing.metering.alone import hold_alone, settle_alone
from routing.metering.counters import CounterIds, CounterSet, Ids
from routing.metering.holds import (
    insert_holds,
    is_byok_alone,
    lock_accounts,
    reserve_account,
    reserve_counters,
)
from routing.metering.late import is_late
from routing.metering.orders import HoldOrder, Order, Payer, ReleaseOrder, SettleOrder
from routing.metering.session import CONSTRAINT_ERRORS, NotAsExpected, Session
from routing.metering.settlements import (
    Held,
    Sums,
    add,
    move_account,
    move_counters,
    take_exactly,
    write_entries,
    write_records,
)


@dataclass(slots=True)
class _Opened:
    """What new holds ask of one account, as payers see it who know the same limits. `asks` where
    its balance has a say."""

    payer: Payer
    amount_nano: int = 0
    asks: bool = False


@dataclass(slots=True)
class _Batch:
    """The orders, and what they come to for each account and each set of counters (of closed ones:
    those charged, and those held on)."""

    closing: list[SettleOrder | ReleaseOrder] = field(default_factory=list)
    opening: list[tuple[HoldOrder, Ids]] = field(default_factory=list)
    expected: dict[str, Held] = field(default_factory=dict)
    known: dict[str, CounterSet] = field(default_factory=dict)
    closed_accounts: dict[UUID, Sums] = field(default_factory=dict)
    closed_counters: dict[tuple[Ids, Ids], Sums] = field(default_factory=dict)
    opened_accounts: dict[tuple[UUID, int], _Opened] = field(default_factory=dict)
    # With the sum of BYOK's list prices beside.
    opened_counters: dict[tuple[Ids, bool], tuple[int, int]] = field(default_factory=dict)


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
        case [(HoldOrder(byok_nano=0) as order, ids)]:
            session.begin(alone=True)
            hold_alone(session, order, ids, enforced=enforced)
        case [SettleOrder(byok_nano=0, held_byok_nano=0) as order] if not is_late(order):
            session.begin(alone=True)
            settle_alone(session, order, batch.known[order.generation_id])
        case _:
            return False
    return True


def _together(session: Session, batch: _Batch, orders: Sequence[Order], enforced: bool) -> None:
    session.begin()
    lock_accounts(session, [order.payer for order in orders])
    _close(session, batch)
    _open(session, batch, enforced)


def _sorted(counters: CounterIds, orders: Sequence[Order]) -> _Batch | None:
    """The batch, or None when some order cannot be told in advance."""
    batch = _Batch()
    for order in orders:
        known = counters.known(order.payer)
        if known is None or (isinstance(order, HoldOrder) and order.replayed):
            return None
        if isinstance(order, HoldOrder):
            _count_opened(batch, order, known)
        elif not isinstance(order, SettleOrder | ReleaseOrder) or order.held_nano is None:
            return None
        else:
            _count_closed(batch, order, known, order.held_nano)
    # Told twice about one generation, the batch is not as simple as it looks.
    return batch if len(batch.expected) == len(batch.closing) else None


def _count_opened(batch: _Batch, order: HoldOrder, known: CounterSet) -> None:
    payer, amount_nano, byok_nano = order.payer, order.amount_nano, order.byok_nano
    batch.opening.append((order, known.limited))
    place = payer.account_id, payer.limits_version
    opened = batch.opened_accounts.setdefault(place, _Opened(payer))
    opened.amount_nano += amount_nano
    opened.asks = opened.asks or not is_byok_alone(amount_nano, byok_nano)
    if known.limited and (amount_nano or byok_nano):
        # Apart from what BYOK asks: a counter may have no say in that.
        counted = known.limited, bool(byok_nano)
        nano, byok = batch.opened_counters.get(counted, (0, 0))
        batch.opened_counters[counted] = nano + amount_nano, byok + byok_nano


def _count_closed(
    batch: _Batch, order: SettleOrder | ReleaseOrder, known: CounterSet, held_nano: int
) -> None:
    is_settled = isinstance(order, SettleOrder)
    held = Held(held_nano, _held_byok_nano(order), known.limited)
    batch.closing.append(order)
    batch.expected[order.generation_id] = held
    batch.known[order.generation_id] = known
    every = known.every if is_settled else known.limited
    for sums in (
        batch.closed_accounts.setdefault(order.payer.account_id, Sums()),
        batch.closed_counters.setdefault((every, known.limited), Sums()),
    ):
        add(sums, order, held)


def _held_byok_nano(order: SettleOrder | ReleaseOrder) -> int:
    return order.held_byok_nano if isinstance(order, SettleOrder) else order.byok_nano


def _close(session: Session, batch: _Batch) -> None:
    """What frees money, before what takes it."""
    for account_id, sums in sorted(batch.closed_accounts.items()):
        session.expect(1)
        move_account(session, account_id, sums)
    if batch.expected:
        take_exactly(session, batch.expected)
    for (every, held), sums in sorted(batch.closed_counters.items()):
        move_counters(session, every, held, sums, exactly=True)


def _open(session: Session, batch: _Batch, enforced: bool) -> None:
    for _, opened in sorted(batch.opened_accounts.items()):
        session.expect(1)
        asks = enforced and opened.asks
        reserve_account(session, opened.payer, opened.amount_nano, asks, known_limits=True)
    for (ids, _), (amount_nano, byok_nano) in sorted(batch.opened_counters.items()):
        session.expect(len(ids))
        reserve_counters(session, ids, amount_nano, byok_nano)
    settled = [order for order in batch.closing if isinstance(order, SettleOrder)]
    if settled:
        write_entries(session, settled)
        write_records(session, settled)
    insert_holds(session, batch.opening)
