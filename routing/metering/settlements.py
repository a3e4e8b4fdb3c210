"""Settling, releasing and sweeping holds, inside the writer's transaction.

Order of locks: hold rows, then accounts in primary-key order, then counters.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from routing.metering.counters import CounterIds, Ids, text_of
from routing.metering.holds import lock_accounts
from routing.metering.orders import Payer, ReleaseOrder, SettleOrder
from routing.metering.session import NotAsExpected, Session

SWEEP_BATCH = 500
ENTRY_COLUMNS = (
    "account_id",
    "workspace_id",
    "api_key_id",
    "kind",
    "amount_nano",
    "generation_id",
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
    "attempts",
    "detail",
    "trace",
)
GENERATION_COLUMNS = ("id", "account_id", "workspace_id", "api_key_id", *RECORD_COLUMNS)


@dataclass(slots=True)
class Sums:
    """What one account or one set of counters moves by."""

    spent_nano: int = 0
    released_nano: int = 0


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
    taken = take_holds(session, [order.generation_id for order in orders])
    open_holds = {row[0]: (row[1], ids_of(row[2])) for row in taken.fetchall()}
    without = [order for order in orders if order.generation_id not in open_holds]
    payers = [*(order.payer for order in orders), *beside]
    # Whoever settles the same generation at this moment is waited for before looking.
    lock_accounts(session, payers, even_one=bool(without))
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


def sweep(session: Session, now: datetime) -> int:
    """Free holds whose lease has ended and mark their generations lost. Returns how many.

    At most `SWEEP_BATCH` at a time; a hold being settled this moment is left alone.
    """
    skip_locked = "" if session.is_sqlite else " FOR UPDATE SKIP LOCKED"
    rows = session.execute(
        "DELETE FROM accounts_hold WHERE generation_id IN (SELECT generation_id FROM accounts_hold"  # noqa: S608 - Constant fragments only.
        f" WHERE lease_expires_at < %s ORDER BY lease_expires_at LIMIT {SWEEP_BATCH}{skip_locked})"
        " RETURNING generation_id, account_id, workspace_id, api_key_id, amount_nano, counter_ids,"
        " model, created_at",
        (session.time(now),),
    ).fetchall()
    for row in sorted(rows, key=lambda row: str(row[1])):
        session.execute(
            "UPDATE accounts_account SET held_nano = held_nano - %s WHERE id = %s", (row[4], row[1])
        )
        move_counters(session, ids_of(row[5]), Sums(released_nano=row[4]))
    session.insert("routing_generation", GENERATION_COLUMNS, (_lost_row(row) for row in rows))
    return len(rows)


def sweep_all(session: Session, now: datetime) -> int:
    """Sweep in batches, a transaction each, until none is left. Returns how many were freed."""
    total = 0
    while True:
        session.begin()
        freed = sweep(session, now)
        session.commit()
        total += freed
        if freed < SWEEP_BATCH:
            return total


def take_holds(session: Session, generation_ids: list[str]) -> Any:
    """Remove open holds; the cursor gives generation, amount and counters of each that was open."""
    condition, parameters = session.among("generation_id", generation_ids)
    return session.execute(
        f"DELETE FROM accounts_hold WHERE {condition}"  # noqa: S608 - A condition of placeholders.
        " RETURNING generation_id, amount_nano, counter_ids",
        parameters,
    )


def take_exactly(session: Session, expected: Mapping[str, tuple[int, Ids]]) -> None:
    """Remove open holds, by generation, of exactly these amounts and counters.

    Raises `NotAsExpected` (inside a flight when it ends) where one is not there or is another.
    """
    if session.is_sqlite:
        rows = take_holds(session, list(expected)).fetchall()
        if {row[0]: (row[1], ids_of(row[2])) for row in rows} != expected:
            raise NotAsExpected
        return
    generations = list(expected)
    amounts = [amount_nano for amount_nano, _ in expected.values()]
    counters = [text_of(ids) for _, ids in expected.values()]
    # Joined only once they are taken: a plan that joins the table itself may read all of it, and
    # most of it are rows that were deleted a moment ago.
    session.execute(
        "WITH taken AS (DELETE FROM accounts_hold WHERE generation_id = ANY(%s)"
        " RETURNING generation_id, amount_nano, counter_ids)"
        " SELECT 1 / (count(*) = %s)::int FROM taken"
        " JOIN unnest(%s::text[], %s::bigint[], %s::text[])"
        " AS asked (generation_id, amount_nano, counter_ids)"
        " USING (generation_id, amount_nano, counter_ids)",
        [generations, len(expected), generations, amounts, counters],
    )


def ids_of(text: str) -> Ids:
    """Counter ids as a hold names them."""
    return tuple(map(int, text.split(",")))


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
    open_holds: dict[str, tuple[int, Ids]],
) -> None:
    by_account: dict[UUID, Sums] = {}
    by_counters: dict[Ids, Sums] = {}
    for order in orders:
        held = open_holds.get(order.generation_id)
        ids = held[1] if held else counters.of(session, order.payer)
        account = by_account.setdefault(order.payer.account_id, Sums())
        for sums in (account, by_counters.setdefault(ids, Sums())):
            sums.spent_nano += order.charge_nano if isinstance(order, SettleOrder) else 0
            sums.released_nano += held[0] if held else 0
    for account_id, sums in sorted(by_account.items()):
        move_account(session, account_id, sums)
    for ids, sums in sorted(by_counters.items()):
        move_counters(session, ids, sums)


def move_account(session: Session, account_id: UUID, sums: Sums) -> Any:
    """Charge an account and free what was held; the cursor counts one row."""
    return session.execute(
        "UPDATE accounts_account SET total_usage_nano = total_usage_nano + %s,"
        " held_nano = held_nano - %s WHERE id = %s",
        (sums.spent_nano, sums.released_nano, session.uuid(account_id)),
    )


def move_counters(session: Session, ids: Ids, sums: Sums) -> Any:
    """The same for a set of counters."""
    condition, parameters = session.among("id", ids)
    return session.execute(
        "UPDATE accounts_spendcounter SET spent_nano = spent_nano + %s,"  # noqa: S608 - A condition of placeholders.
        f" held_nano = held_nano - %s WHERE {condition}",
        [sums.spent_nano, sums.released_nano, *parameters],
    )


def _forget_lost(session: Session, generation_ids: list[str]) -> None:
    if generation_ids:
        condition, parameters = session.among("id", generation_ids)
        session.execute(
            f"DELETE FROM routing_generation WHERE lost AND {condition}",  # noqa: S608 - A condition of placeholders.
            parameters,
        )


def write_entries(session: Session, orders: Sequence[SettleOrder]) -> None:
    """The usage entries."""
    session.insert("accounts_ledgerentry", ENTRY_COLUMNS, (entry_row(session, o) for o in orders))


def entry_row(session: Session, order: SettleOrder) -> tuple[Any, ...]:
    """The values of `ENTRY_COLUMNS`."""
    payer = order.payer
    return (
        session.uuid(payer.account_id),
        session.uuid(payer.workspace_id),
        payer.key_id,
        "usage",
        order.charge_nano,
        order.generation_id,
        "generation",
        order.generation_id,
        "",
        session.time(order.settled_at),
    )


def write_records(session: Session, orders: Iterable[SettleOrder]) -> None:
    """The generation records."""
    rows = (record_row(session, order) for order in orders)
    session.insert("routing_generation", GENERATION_COLUMNS, rows)


def record_row(session: Session, order: SettleOrder) -> tuple[Any, ...]:
    """The values of `GENERATION_COLUMNS`."""
    payer, record = order.payer, order.record
    return (
        order.generation_id,
        session.uuid(payer.account_id),
        session.uuid(payer.workspace_id),
        payer.key_id,
        session.time(record["created_at"]),
        *[record[column] for column in RECORD_COLUMNS[1:]],
    )


def _lost_row(row: Sequence[Any]) -> tuple[Any, ...]:
    values: dict[str, Any] = dict.fromkeys(RECORD_COLUMNS)
    values |= dict.fromkeys(_ZEROS, 0) | dict.fromkeys(_NOES, False)
    values |= {"created_at": row[7], "api_type": "completions", "model": row[6]}
    values |= {"requested_model": row[6], "status": 500, "lost": True, "hold_nano": row[4]}
    values |= {"attempts": "[]", "detail": "{}", "trace": "{}"}
    return (row[0], row[1], row[2], row[3], *[values[column] for column in RECORD_COLUMNS])


_ZEROS = (
    "tokens_prompt",
    "tokens_completion",
    "tokens_reasoning",
    "tokens_cached",
    "charge_nano",
    "upstream_cost_nano",
)
_NOES = ("streamed", "cancelled", "overrun", "is_byok")
