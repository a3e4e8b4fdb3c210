"""Settling and releasing holds, inside the writer's transaction.

Order of locks: accounts in primary-key order, then their holds, then their counters.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import UUID

from routing.ledger.counters import (
    CounterCache,
    Ids,
    find_payer_budget_counters,
    format_counter_ids,
    parse_counter_ids,
)
from routing.ledger.guards import CHARGE_ACCOUNT, free_held_sql
from routing.ledger.holds import lock_accounts
from routing.ledger.orders import Payer, ReleaseOrder, SettleOrder
from routing.ledger.records import write_entries, write_records
from routing.ledger.session import LedgerSession, NotAsExpected


@dataclass(slots=True)
class MoneyMoves:
    """What one account or one set of counters moves by. It has amounts spent and released, of the
    account's money and (`byok`) on credentials of the caller's own."""

    spent_nano: int = 0
    released_nano: int = 0
    byok_nano: int = 0
    released_byok_nano: int = 0

    @property
    def moves_byok(self) -> bool:
        return bool(self.byok_nano or self.released_byok_nano)

    @property
    def moves(self) -> bool:
        return bool(self.spent_nano or self.released_nano) or self.moves_byok


class HoldAmounts(NamedTuple):
    """A hold: the two amounts, and the counters that it is held on."""

    amount_nano: int
    byok_nano: int
    ids: Ids


def settle_orders(
    session: LedgerSession,
    counters: CounterCache,
    orders: Sequence[SettleOrder | ReleaseOrder],
    *,
    other_payers: Sequence[Payer] = (),
) -> None:
    """Charge and record finished requests, and free their holds. A generation counts once.

    A hold that the sweep took meanwhile is not freed again; its charge is booked all the same and
    its record is no longer `lost`. `other_payers` are those of the batch's other orders: one
    transaction locks all its accounts at once, or two processes could deadlock.
    """
    # Keep the first order of each generation; a settlement replaces a release of the same
    # one.
    chosen: dict[str, SettleOrder | ReleaseOrder] = {}
    for order in orders:
        first = chosen.setdefault(order.generation_id, order)
        if isinstance(first, ReleaseOrder):
            chosen[order.generation_id] = order
    orders = list(chosen.values())
    # Waits for anybody who settles the same generation, or changes a limit, before reading.
    lock_accounts(session, [*(order.payer for order in orders), *other_payers], even_one=True)
    open_holds = delete_holds(session, [order.generation_id for order in orders])
    without = [order for order in orders if order.generation_id not in open_holds]
    done = _find_settled(session, without)
    due = [order for order in orders if order.generation_id not in done]
    _move_money(session, counters, due, open_holds)
    settled = [order for order in due if isinstance(order, SettleOrder)]
    late = [order.generation_id for order in settled if order.generation_id not in open_holds]
    if late:
        condition, parameters = session.build_membership("id", late)
        session.execute(
            f"DELETE FROM routing_generation WHERE lost AND {condition}",  # noqa: S608 - A condition of placeholders.
            parameters,
        )
    write_entries(session, settled)
    write_records(session, settled)


def delete_holds(session: LedgerSession, generation_ids: list[str]) -> dict[str, HoldAmounts]:
    """Delete open holds; returns those that were open, by generation."""
    condition, parameters = session.build_membership("generation_id", generation_ids)
    rows = session.execute(
        f"DELETE FROM accounts_hold WHERE {condition}"  # noqa: S608 - A condition of placeholders.
        " RETURNING generation_id, amount_nano, byok_nano, counter_ids",
        parameters,
    ).fetchall()
    return {row[0]: HoldAmounts(row[1], row[2], parse_counter_ids(row[3])) for row in rows}


def delete_exact_holds(session: LedgerSession, expected: Mapping[str, HoldAmounts]) -> None:
    """Delete open holds, by generation, of exactly these amounts and counters.

    Raises `NotAsExpected` (in a pipeline when it ends) where one is missing or differs.
    """
    if session.is_sqlite:
        if delete_holds(session, list(expected)) != expected:
            raise NotAsExpected
        return
    generations = list(expected)
    amounts = [held.amount_nano for held in expected.values()]
    byok = [held.byok_nano for held in expected.values()]
    counters = [format_counter_ids(held.ids) for held in expected.values()]
    # Joined only after the deletion. A plan that joins the table itself may read all of it, which
    # is mostly rows that were deleted a moment ago.
    session.execute(
        "WITH taken AS (DELETE FROM accounts_hold WHERE generation_id = ANY(%s)"
        " RETURNING generation_id, amount_nano, byok_nano, counter_ids)"
        " SELECT 1 / (count(*) = %s)::int FROM taken"
        " JOIN unnest(%s::text[], %s::bigint[], %s::bigint[], %s::text[])"
        " AS asked (generation_id, amount_nano, byok_nano, counter_ids)"
        " USING (generation_id, amount_nano, byok_nano, counter_ids)",
        [generations, len(expected), generations, amounts, byok, counters],
    )


def _find_settled(session: LedgerSession, orders: Sequence[SettleOrder | ReleaseOrder]) -> set[str]:
    """Find orders without an open hold that are done: settled ones, and releases."""
    done = {order.generation_id for order in orders if isinstance(order, ReleaseOrder)}
    settle_ids = [order.generation_id for order in orders if isinstance(order, SettleOrder)]
    if not settle_ids:
        return done
    condition, parameters = session.build_membership("generation_id", settle_ids)
    rows = session.execute(
        f"SELECT generation_id FROM accounts_ledgerentry WHERE {condition} AND kind = 'usage'",  # noqa: S608 - A condition of placeholders.
        parameters,
    ).fetchall()
    return done | {row[0] for row in rows}


def _move_money(
    session: LedgerSession,
    counters: CounterCache,
    orders: Sequence[SettleOrder | ReleaseOrder],
    open_holds: Mapping[str, HoldAmounts],
) -> None:
    by_account: dict[UUID, MoneyMoves] = {}
    by_counters: dict[tuple[Ids, Ids], MoneyMoves] = {}
    for order in orders:
        held = open_holds.get(order.generation_id)
        every = held.ids if held else ()
        if isinstance(order, SettleOrder):
            # A hold also names counters of newer limits than its payer knew; without a hold they
            # are read from the books.
            others = held.ids if held else find_payer_budget_counters(session, order.payer)
            every = tuple(sorted({*counters.find_charged(session, order.payer), *others}))
        held = held or HoldAmounts(0, 0, ())
        account = by_account.setdefault(order.payer.account_id, MoneyMoves())
        for sums in (account, by_counters.setdefault((every, held.ids), MoneyMoves())):
            add_order(sums, order, held)
    for account_id, sums in sorted(by_account.items()):
        move_account(session, account_id, sums)
    for (every, ids), sums in sorted(by_counters.items()):
        move_counters(session, every, ids, sums)


def add_order(sums: MoneyMoves, order: SettleOrder | ReleaseOrder, held: HoldAmounts) -> None:
    """Add an order, and the hold that it ends."""
    if isinstance(order, SettleOrder):
        sums.spent_nano += order.charge_nano
        sums.byok_nano += order.byok_nano
    sums.released_nano += held.amount_nano
    sums.released_byok_nano += held.byok_nano


def move_account(session: LedgerSession, account_id: UUID, sums: MoneyMoves) -> Any:
    """Charge an account and free what was held; the cursor counts one row."""
    values = (sums.spent_nano, sums.released_nano, session.uuid(account_id))
    return session.execute(CHARGE_ACCOUNT, values)


def move_counters(
    session: LedgerSession, every: Ids, held: Ids, sums: MoneyMoves, *, exactly: bool = False
) -> None:
    """Charge counters and free what was held on those of `held`. With `exactly`, a missing one
    raises `NotAsExpected` (in a pipeline when it ends)."""
    if not every or not sums.moves:
        return
    changes, values = ["spent_nano = spent_nano + %s"], [sums.spent_nano]
    if sums.moves_byok:
        changes.append("byok_spent_nano = byok_spent_nano + %s")
        values.append(sums.byok_nano)
    freed = [("held_nano", sums.released_nano), ("byok_held_nano", sums.released_byok_nano)]
    for column, amount_nano in freed if held else ():
        if amount_nano:
            among, ids = session.build_membership("id", held)
            changes.append(free_held_sql(column, among))
            values += [*ids, amount_nano]
    condition, parameters = session.build_membership("id", every)
    if exactly:
        session.expect(len(every))
    session.execute(
        f"UPDATE accounts_spendcounter SET {', '.join(changes)} WHERE {condition}",  # noqa: S608 - Constant columns and conditions of placeholders.
        [*values, *parameters],
    )
