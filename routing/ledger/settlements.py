"""Settling and releasing holds, inside the writer's transaction.

Order of locks: accounts in primary-key order, then their holds, then their counters.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, NamedTuple
from uuid import UUID

from routing.ledger.counters import CounterIds, Ids, budget_counters, ids_of, text_of
from routing.ledger.holds import lock_accounts
from routing.ledger.late import mark_late
from routing.ledger.orders import Payer, ReleaseOrder, SettleOrder
from routing.ledger.session import NotAsExpected, Session

ENTRY_COLUMNS = (
    "account_id",
    "workspace_id",
    "api_key_id",
    "kind",
    "amount_nano",
    "byok_nano",
    "generation_id",
    "day",
    "source",
    "source_ref",
    "note",
    "created_at",
)
RECORD_COLUMNS = (
    "created_at",
    "api_type",
    "model",
    "requested_model",
    "provider_name",
    "endpoint_tag",
    "status",
    "error_type",
    "streamed",
    "cancelled",
    "lost",
    "overrun",
    "finish_reason",
    "native_finish_reason",
    "tokens_prompt",
    "tokens_completion",
    "tokens_reasoning",
    "tokens_cached",
    "charge_nano",
    "hold_nano",
    "upstream_cost_nano",
    "is_byok",
    "latency_ms",
    "generation_time_ms",
    "upstream_id",
    "session_id",
    "external_user",
    "service_tier",
    "preset_id",
    "attempts",
    "detail",
    "trace",
)
GENERATION_COLUMNS = ("id", "account_id", "workspace_id", "api_key_id", *RECORD_COLUMNS)
_recorded = itemgetter(*RECORD_COLUMNS[1:])


@dataclass(slots=True)
class Sums:
    """What one account or one set of counters moves by: what was spent, and what was held for it,
    of the account's money and on credentials of its own."""

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


class Held(NamedTuple):
    """A hold: the two amounts, and the counters that it is held on."""

    amount_nano: int
    byok_nano: int
    ids: Ids


def settle(
    session: Session,
    counters: CounterIds,
    orders: Sequence[SettleOrder | ReleaseOrder],
    *,
    beside: Sequence[Payer] = (),
) -> None:
    """Charge and record finished requests, and free their holds.

    Told twice about one generation, it counts once. A hold that the sweep took meanwhile is not
    freed again; its charge is booked all the same and its record is no longer `lost`. `beside` are
    the payers of the batch's other orders: one transaction locks all its accounts in one go, or two
    processes could each hold what the other waits for.
    """
    orders = _once_each(orders)
    # Whoever settles the same generation at this moment, or changes a limit, is waited for before
    # looking.
    lock_accounts(session, [*(order.payer for order in orders), *beside], even_one=True)
    open_holds = take_holds(session, [order.generation_id for order in orders])
    without = [order for order in orders if order.generation_id not in open_holds]
    done = _already_settled(session, without)
    due = [order for order in orders if order.generation_id not in done]
    _move_money(session, counters, due, open_holds)
    settled = [order for order in due if isinstance(order, SettleOrder)]
    late = [order.generation_id for order in settled if order.generation_id not in open_holds]
    _forget_lost(session, late)
    write_entries(session, settled)
    write_records(session, settled)


def _once_each(
    orders: Sequence[SettleOrder | ReleaseOrder],
) -> list[SettleOrder | ReleaseOrder]:
    """One order for each generation, the first; a release beside a settlement says nothing new."""
    chosen: dict[str, SettleOrder | ReleaseOrder] = {}
    for order in orders:
        known = chosen.setdefault(order.generation_id, order)
        if isinstance(known, ReleaseOrder) and isinstance(order, SettleOrder):
            chosen[order.generation_id] = order
    return list(chosen.values())


def take_holds(session: Session, generation_ids: list[str]) -> dict[str, Held]:
    """Remove open holds; each that was open by its generation."""
    condition, parameters = session.among("generation_id", generation_ids)
    rows = session.execute(
        f"DELETE FROM accounts_hold WHERE {condition}"  # noqa: S608 - A condition of placeholders.
        " RETURNING generation_id, amount_nano, byok_nano, counter_ids",
        parameters,
    ).fetchall()
    return {row[0]: Held(row[1], row[2], ids_of(row[3])) for row in rows}


def take_exactly(session: Session, expected: Mapping[str, Held]) -> None:
    """Remove open holds, by generation, of exactly these amounts and counters.

    Raises `NotAsExpected` (inside a flight when it ends) where one is not there or is another.
    """
    if session.is_sqlite:
        if take_holds(session, list(expected)) != expected:
            raise NotAsExpected
        return
    generations = list(expected)
    amounts = [held.amount_nano for held in expected.values()]
    byok = [held.byok_nano for held in expected.values()]
    counters = [text_of(held.ids) for held in expected.values()]
    # Joined only once they are taken: a plan that joins the table itself may read all of it, and
    # most of it are rows that were deleted a moment ago.
    session.execute(
        "WITH taken AS (DELETE FROM accounts_hold WHERE generation_id = ANY(%s)"
        " RETURNING generation_id, amount_nano, byok_nano, counter_ids)"
        " SELECT 1 / (count(*) = %s)::int FROM taken"
        " JOIN unnest(%s::text[], %s::bigint[], %s::bigint[], %s::text[])"
        " AS asked (generation_id, amount_nano, byok_nano, counter_ids)"
        " USING (generation_id, amount_nano, byok_nano, counter_ids)",
        [generations, len(expected), generations, amounts, byok, counters],
    )


def _already_settled(session: Session, orders: Sequence[SettleOrder | ReleaseOrder]) -> set[str]:
    """Of orders without an open hold: the settled ones, and releases, which have nothing to do."""
    done = {order.generation_id for order in orders if isinstance(order, ReleaseOrder)}
    asked = [order.generation_id for order in orders if isinstance(order, SettleOrder)]
    if not asked:
        return done
    condition, parameters = session.among("generation_id", asked)
    rows = session.execute(
        f"SELECT generation_id FROM accounts_ledgerentry WHERE {condition} AND kind = 'usage'",  # noqa: S608 - A condition of placeholders.
        parameters,
    ).fetchall()
    return done | {row[0] for row in rows}


def _move_money(
    session: Session,
    counters: CounterIds,
    orders: Sequence[SettleOrder | ReleaseOrder],
    open_holds: Mapping[str, Held],
) -> None:
    by_account: dict[UUID, Sums] = {}
    by_counters: dict[tuple[Ids, Ids], Sums] = {}
    for order in orders:
        held = open_holds.get(order.generation_id)
        every = _counted_on(session, counters, order, held)
        held = held or Held(0, 0, ())
        account = by_account.setdefault(order.payer.account_id, Sums())
        for sums in (account, by_counters.setdefault((every, held.ids), Sums())):
            add(sums, order, held)
    for account_id, sums in sorted(by_account.items()):
        move_account(session, account_id, sums)
    for (every, ids), sums in sorted(by_counters.items()):
        move_counters(session, every, ids, sums)


def _counted_on(
    session: Session, counters: CounterIds, order: SettleOrder | ReleaseOrder, held: Held | None
) -> Ids:
    """A hold names also the counters of limits that its payer never heard of; where there is none
    any more, the books are asked for them."""
    if not isinstance(order, SettleOrder):
        return held.ids if held else ()
    others = held.ids if held else budget_counters(session, order.payer)
    return tuple(sorted({*counters.charged(session, order.payer), *others}))


def add(sums: Sums, order: SettleOrder | ReleaseOrder, held: Held) -> None:
    """Count an order in, and the hold that it ends."""
    if isinstance(order, SettleOrder):
        sums.spent_nano += order.charge_nano
        sums.byok_nano += order.byok_nano
    sums.released_nano += held.amount_nano
    sums.released_byok_nano += held.byok_nano


def move_account(session: Session, account_id: UUID, sums: Sums) -> Any:
    """Charge an account and free what was held; the cursor counts one row."""
    return session.execute(
        "UPDATE accounts_account SET total_usage_nano = total_usage_nano + %s,"
        " held_nano = held_nano - %s WHERE id = %s",
        (sums.spent_nano, sums.released_nano, session.uuid(account_id)),
    )


def move_counters(
    session: Session, every: Ids, held: Ids, sums: Sums, *, exactly: bool = False
) -> None:
    """The same for a set of counters, of which some were `held` on. `exactly` raises
    `NotAsExpected` (inside a flight when it ends) where one of them is gone."""
    if not every or not sums.moves:
        return
    changes, values = ["spent_nano = spent_nano + %s"], [sums.spent_nano]
    if sums.moves_byok:
        changes.append("byok_spent_nano = byok_spent_nano + %s")
        values.append(sums.byok_nano)
    freed = [("held_nano", sums.released_nano), ("byok_held_nano", sums.released_byok_nano)]
    for column, amount_nano in freed if held else ():
        if amount_nano:
            among, ids = session.among("id", held)
            taken = f"CASE WHEN {among} THEN CAST(%s AS bigint) ELSE 0 END"
            changes.append(f"{column} = {column} - {taken}")
            values += [*ids, amount_nano]
    condition, parameters = session.among("id", every)
    if exactly:
        session.expect(len(every))
    session.execute(
        f"UPDATE accounts_spendcounter SET {', '.join(changes)} WHERE {condition}",  # noqa: S608 - Constant columns and conditions of placeholders.
        [*values, *parameters],
    )


def _forget_lost(session: Session, generation_ids: list[str]) -> None:
    if generation_ids:
        condition, parameters = session.among("id", generation_ids)
        session.execute(
            f"DELETE FROM routing_generation WHERE lost AND {condition}",  # noqa: S608 - A condition of placeholders.
            parameters,
        )


def write_entries(session: Session, orders: Sequence[SettleOrder]) -> None:
    """The usage entries, and those of fees."""
    rows = [entry_row(session, order) for order in orders]
    rows += [_fee_row(session, order) for order in orders if _fee_nano(order)]
    session.insert("accounts_ledgerentry", ENTRY_COLUMNS, rows)


def entry_row(session: Session, order: SettleOrder) -> tuple[Any, ...]:
    """The values of `ENTRY_COLUMNS`."""
    payer = order.payer
    return (
        session.uuid(payer.account_id),
        session.uuid(payer.workspace_id),
        payer.key_id,
        "usage",
        order.charge_nano - _fee_nano(order),
        order.byok_nano,
        order.generation_id,
        _day_of(payer),
        "generation",
        order.generation_id,
        "",
        session.time(order.settled_at),
    )


def _fee_nano(order: SettleOrder) -> int:
    """The part of the charge that is the fee for the use of the caller's own credential."""
    return order.charge_nano - order.shared_nano if order.byok_nano else 0


def _fee_row(session: Session, order: SettleOrder) -> tuple[Any, ...]:
    row = list(entry_row(session, order))
    row[3:6] = ["byok_fee", _fee_nano(order), 0]
    row[8] = "byok_fee"
    return tuple(row)


def _day_of(payer: Payer) -> str | None:
    """The day whose windows the payer was pinned to."""
    day = dict(payer.windows).get("day")
    return None if day is None else day.isoformat()


def write_records(session: Session, orders: Iterable[SettleOrder]) -> None:
    """The generation records."""
    orders = list(orders)
    rows = (record_row(session, order) for order in orders)
    session.insert("routing_generation", GENERATION_COLUMNS, rows)
    mark_late(session, orders)


def record_row(session: Session, order: SettleOrder) -> tuple[Any, ...]:
    """The values of `GENERATION_COLUMNS`."""
    payer, record = order.payer, order.record
    return (
        order.generation_id,
        session.uuid(payer.account_id),
        session.uuid(payer.workspace_id),
        payer.key_id,
        session.time(record["created_at"]),
        *_recorded(record),
    )
