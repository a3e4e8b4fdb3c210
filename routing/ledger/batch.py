"""Applying a batch of orders: all of them as one transaction, else one by one.

Nearly every batch fits as one. Sums per account and per set of counters replace the single orders,
and on PostgreSQL one pipeline carries the statements. Where a row count is not the expected one,
the transaction is rolled back, and `apply_one_by_one` decides each order on its own. A hold may not
fit beside the others, was swept, or counts against a new limit.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeVar
from uuid import UUID

from routing.ledger.counters import CounterCache, CounterSet, Ids, format_counter_ids
from routing.ledger.guards import (
    CHARGE_ACCOUNT,
    RESERVE_EACH_COUNTER,
    free_held_sql,
    reserve_account_sql,
)
from routing.ledger.holds import (
    HOLD_COLUMNS,
    build_hold_row,
    insert_holds,
    is_byok_alone,
    lock_accounts,
    place_holds,
    raise_hold,
    read_limits_version,
    reserve_account,
    reserve_counters,
)
from routing.ledger.orders import (
    CLOSING,
    HoldOrder,
    Order,
    Payer,
    ReleaseOrder,
    SettleOrder,
    TopUpOrder,
)
from routing.ledger.pipeline import insert_sql
from routing.ledger.records import (
    ENTRY_COLUMNS,
    GENERATION_COLUMNS,
    build_entry_row,
    build_record_row,
    is_late,
    write_entries,
    write_records,
)
from routing.ledger.session import CONSTRAINT_ERRORS, LedgerSession, NotAsExpected
from routing.ledger.settlements import (
    HoldAmounts,
    MoneyMoves,
    add_order,
    delete_exact_holds,
    move_account,
    move_counters,
    settle_orders,
)
from routing.ledger.tickets import Outcome, Ticket


def place_hold(session: LedgerSession, order: HoldOrder, ids: Ids, *, enforced: bool) -> None:
    """Place a hold on the account and these counters, in a pipeline that carries nothing else.

    If it does not fit, `NotAsExpected` is raised when the pipeline ends.
    """
    amount_nano, payer = order.amount_nano, order.payer
    needed = [amount_nano] if enforced else []
    has_counters = bool(amount_nano and ids)
    counted = [amount_nano, list(ids), amount_nano] if has_counters else []
    row = build_hold_row(session, order, ids)
    moved = [len(ids)] if has_counters else []
    session.execute(
        _hold_sql(enforced, bool(amount_nano), has_counters),
        [
            *(amount_nano, session.uuid(payer.account_id), payer.limits_version),
            *needed,
            *counted,
            *row,
            *moved,
        ],
    )


def settle_hold(session: LedgerSession, order: SettleOrder, counters: CounterSet) -> None:
    """Charge a request, free its hold and write its record; the rest is as in `place_hold`."""
    assert order.held_nano is not None
    payer, held_nano, charge_nano = order.payer, order.held_nano, order.charge_nano
    values: list[Any] = [charge_nano, held_nano, session.uuid(payer.account_id)]
    values += [order.generation_id, held_nano, format_counter_ids(counters.limited)]
    values.append(charge_nano)
    if counters.limited:
        values += [list(counters.limited), held_nano]
    values.append(list(counters.every))
    values += build_entry_row(session, order)
    values += build_record_row(session, order)
    session.execute(_settle_sql(bool(counters.limited)), [*values, len(counters.every)])


@cache
def _hold_sql(enforced: bool, has_amount: bool, has_counters: bool) -> str:
    account = reserve_account_sql(needs_balance=enforced, has_amount=has_amount)
    parts = {"account": account} | ({"counters": RESERVE_EACH_COUNTER} if has_counters else {})
    checks = ["(SELECT count(*) FROM account) = 1"]
    checks += ["(SELECT count(*) FROM counters) = %s"] if has_counters else []
    return _build_statement(parts, [insert_sql("accounts_hold", HOLD_COLUMNS)], checks)


@cache
def _settle_sql(has_limits: bool) -> str:
    freed = f", {free_held_sql('held_nano', 'id = ANY(%s)')}" if has_limits else ""
    parts = {
        "account": CHARGE_ACCOUNT,
        "taken": "DELETE FROM accounts_hold WHERE (SELECT count(*) FROM account) = 1"
        " AND generation_id = %s AND amount_nano = %s AND counter_ids = %s AND byok_nano = 0",
        "counters": f"UPDATE accounts_spendcounter SET spent_nano = spent_nano + %s{freed}"  # noqa: S608 - Constant fragments; values are bound.
        " WHERE (SELECT count(*) FROM taken) = 1 AND id = ANY(%s)",
    }
    written = [
        insert_sql("accounts_ledgerentry", ENTRY_COLUMNS),
        insert_sql("routing_generation", GENERATION_COLUMNS),
    ]
    return _build_statement(parts, written, ["(SELECT count(*) FROM counters) = %s"])


def _build_statement(parts: dict[str, str], written: list[str], checks: list[str]) -> str:
    """One statement of parts that are counted, rows that are written, and checks of the counts."""
    moves = [f"{name} AS ({sql} RETURNING 1)" for name, sql in parts.items()]
    moves += [f"written_{number} AS ({sql})" for number, sql in enumerate(written)]
    return f"WITH {', '.join(moves)} SELECT 1 / ({' AND '.join(checks)})::int"


# --- An order that comes alone --------------------------------------------------------------------


_Key = TypeVar("_Key")


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
    expected: dict[str, HoldAmounts] = field(default_factory=dict)
    closed_accounts: dict[UUID, MoneyMoves] = field(default_factory=dict)
    closed_counters: dict[tuple[Ids, Ids], MoneyMoves] = field(default_factory=dict)
    opened_accounts: dict[tuple[UUID, int], _Opened] = field(default_factory=dict)
    # With the sum of BYOK's list prices beside.
    opened_counters: dict[tuple[Ids, bool], tuple[int, int]] = field(default_factory=dict)


def apply_batch(
    session: LedgerSession,
    counters: CounterCache,
    orders: Sequence[Order],
    *,
    enforced: bool,
    before_commit: Callable[[], None],
) -> bool:
    """Carry all orders out in a transaction and commit it; False when it must be rolled back.

    On PostgreSQL the COMMIT travels with the rest, behind statements that fail where they do not
    move what they should. `before_commit` is called before it leaves.
    """
    alone = (
        None if len(orders) > 1 or session.is_sqlite else _find_single_counters(counters, orders[0])
    )
    batch = None if alone is not None else _sum_orders(counters, orders)
    is_begun = alone is None and batch is None
    if is_begun:
        session.begin()
        if _create_counters(session, counters, orders):
            batch = _sum_orders(counters, orders)
        if batch is None:
            counters.drop_new()
            return False
    try:
        with session.pipeline():
            if alone is not None:
                # A transaction of one statement.
                order = orders[0]
                session.begin(alone=True)
                if isinstance(order, HoldOrder):
                    place_hold(session, order, alone.limited, enforced=enforced)
                else:
                    assert isinstance(order, SettleOrder)
                    settle_hold(session, order, alone)
            elif batch is not None:
                if not is_begun:
                    session.begin()
                _apply_together(session, batch, orders, enforced)
            before_commit()
            session.commit()
    except (NotAsExpected, *CONSTRAINT_ERRORS):
        # Something does not fit, or a hold was swept meanwhile, or one order is at fault.
        counters.drop_new()
        return False
    return True


def _create_counters(
    session: LedgerSession, counters: CounterCache, orders: Sequence[Order]
) -> bool:
    """Make the counters that new holds of new tags and end users lack. Otherwise one tenant's new
    tags would send the whole batch one by one. False where more is lacking."""
    lacking = [order for order in orders if counters.find_seen(order.payer) is None]
    if not all(isinstance(order, HoldOrder) and not order.replayed for order in lacking):
        return False
    lock_accounts(session, [order.payer for order in orders], even_one=True)
    payers = list(dict.fromkeys(order.payer for order in lacking))
    knows_limits = all(
        read_limits_version(session, payer) == payer.limits_version
        for payer in {payer.account_id: payer for payer in payers}.values()
    )
    return knows_limits and counters.create_for_requests(session, payers)


def _find_single_counters(counters: CounterCache, order: Order) -> CounterSet | None:
    """The counters of an order that one statement can carry out; None where it takes more."""
    if type(order) is HoldOrder:
        fits = not (order.byok_nano or order.replayed)
    elif type(order) is SettleOrder and order.held_nano is not None:
        spends_otherwise = order.byok_nano or order.held_byok_nano or order.credential_spend
        fits = not (spends_otherwise or is_late(order))
    else:
        fits = False
    return counters.find_cached(order.payer) if fits else None


def _apply_together(
    session: LedgerSession, batch: _Batch, orders: Sequence[Order], enforced: bool
) -> None:
    lock_accounts(session, [order.payer for order in orders])
    # What frees money, before what takes it.
    for account_id, sums in sorted(batch.closed_accounts.items()):
        session.expect(1)
        move_account(session, account_id, sums)
    if batch.expected:
        delete_exact_holds(session, batch.expected)
    for (every, held), sums in sorted(batch.closed_counters.items()):
        move_counters(session, every, held, sums, exactly=True)
    for _, opened in sorted(batch.opened_accounts.items()):
        session.expect(1)
        asks = enforced and opened.asks
        reserve_account(session, opened.payer, opened.amount_nano, asks)
    for (ids, _), (amount_nano, byok_nano) in sorted(batch.opened_counters.items()):
        session.expect(len(ids))
        reserve_counters(session, ids, amount_nano, byok_nano)
    settled = [order for order in batch.closing if isinstance(order, SettleOrder)]
    if settled:
        write_entries(session, settled)
        write_records(session, settled)
    insert_holds(session, batch.opening)


def _sum_orders(counters: CounterCache, orders: Sequence[Order]) -> _Batch | None:
    """The batch, or None when the effect of some order cannot be known in advance."""
    batch = _Batch()
    for order in orders:
        payer, counter_set = order.payer, counters.find_seen(order.payer)
        if counter_set is None:
            return None
        limited = counter_set.limited
        if isinstance(order, HoldOrder):
            if order.replayed:
                return None
            amount_nano, byok_nano = order.amount_nano, order.byok_nano
            batch.opening.append((order, limited))
            place = payer.account_id, payer.limits_version
            opened = batch.opened_accounts.get(place)
            if opened is None:
                opened = batch.opened_accounts[place] = _Opened(payer)
            opened.amount_nano += amount_nano
            opened.asks = opened.asks or not is_byok_alone(amount_nano, byok_nano)
            if limited and (amount_nano or byok_nano):
                # Apart from what BYOK asks: a counter may have no say in that.
                counted = limited, bool(byok_nano)
                nano, byok = batch.opened_counters.get(counted, (0, 0))
                batch.opened_counters[counted] = nano + amount_nano, byok + byok_nano
            continue
        if not isinstance(order, CLOSING) or order.held_nano is None:
            return None
        if isinstance(order, SettleOrder):
            every, held_byok_nano = counter_set.every, order.held_byok_nano
        else:
            every, held_byok_nano = limited, order.byok_nano
        held = HoldAmounts(order.held_nano, held_byok_nano, limited)
        batch.closing.append(order)
        batch.expected[order.generation_id] = held
        add_order(_find_sums(batch.closed_accounts, payer.account_id), order, held)
        add_order(_find_sums(batch.closed_counters, (every, limited)), order, held)
    # Told twice about one generation, the batch is not as simple as it looks.
    return batch if len(batch.expected) == len(batch.closing) else None


def _find_sums(sums: dict[_Key, MoneyMoves], key: _Key) -> MoneyMoves:
    moves = sums.get(key)
    if moves is None:
        moves = sums[key] = MoneyMoves()
    return moves


def apply_one_by_one(
    session: LedgerSession, counters: CounterCache, tickets: Sequence[Ticket], *, enforced: bool
) -> list[Outcome]:
    """Carry out the orders one at a time inside the open transaction, for a batch that did not fit
    as one. Outcomes are in the order of the tickets.

    What frees money goes first, so that it is there for the holds of the same batch.
    """
    orders = [ticket.order for ticket in tickets]
    closing = [order for order in orders if isinstance(order, SettleOrder | ReleaseOrder)]
    opening = [order for order in orders if isinstance(order, HoldOrder)]
    raising = [order for order in orders if isinstance(order, TopUpOrder)]
    payers = [order.payer for order in raising]
    payers += [order.payer for order in opening]
    if closing:
        settle_orders(session, counters, closing, other_payers=payers)
    else:
        lock_accounts(session, payers)
    raised = {
        order.generation_id: raise_hold(session, counters, order, enforced=enforced)
        for order in raising
    }
    placed = place_holds(session, counters, opening, enforced=enforced) if opening else {}
    outcomes: list[Outcome] = []
    for order in orders:
        if isinstance(order, HoldOrder):
            outcomes.append(placed[order.generation_id] or True)
        elif isinstance(order, TopUpOrder):
            outcomes.append(raised[order.generation_id])
        else:
            outcomes.append(True)
    return outcomes
