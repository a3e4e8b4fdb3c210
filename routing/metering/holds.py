"""Placing and raising holds: each is a guarded update, and the row count is the verdict.

Every function runs inside the writer's transaction. Rows are locked accounts first, in primary-key
order, then that account's counters: a counter is only ever touched by whoever holds its account's
row, so two processes cannot wait for each other.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from accounts.windows import LIMITED_WINDOW
from routing.metering.counters import CounterIds, Ids, text_of
from routing.metering.orders import HoldOrder, Payer, Refusal, TopUpOrder
from routing.metering.session import Session

HOLD_COLUMNS = (
    "generation_id",
    "account_id",
    "api_key_id",
    "workspace_id",
    "amount_nano",
    "counter_ids",
    "model",
    "created_at",
    "lease_expires_at",
)


def lock_accounts(session: Session, payers: Iterable[Payer], *, even_one: bool = False) -> None:
    """Lock several accounts in primary-key order. One alone is locked by its first update, unless
    something must be read before that."""
    ids = sorted({payer.account_id for payer in payers})
    if (even_one or len(ids) > 1) and not session.is_sqlite:
        condition, parameters = session.among("id", ids)
        session.execute(
            f"SELECT id FROM accounts_account WHERE {condition} ORDER BY id FOR NO KEY UPDATE",  # noqa: S608 - A condition of placeholders.
            parameters,
        )


def place(
    session: Session, counters: CounterIds, orders: Sequence[HoldOrder], *, enforced: bool
) -> dict[str, Refusal | None]:
    """Place holds one by one, in order of arrival within each account; the answer names each
    generation's refusal, None where it was placed.

    `enforced` is whether the account's balance bounds them (key limits always do).
    """
    placed = _already_placed(session, orders)
    verdicts: dict[str, Refusal | None] = {order.generation_id: None for order in orders}
    accepted: list[tuple[HoldOrder, Ids]] = []
    fresh = [order for order in orders if order.generation_id not in placed]
    for order in sorted(fresh, key=lambda order: order.payer.account_id):
        refusal = _reserve(session, counters, order.payer, order.amount_nano, enforced)
        verdicts[order.generation_id] = refusal
        if refusal is None:
            accepted.append((order, counters.of(session, order.payer)))
    insert_holds(session, accepted)
    return verdicts


def insert_holds(session: Session, holds: Sequence[tuple[HoldOrder, Ids]]) -> None:
    """Write down what was reserved."""
    if holds:
        rows = [hold_row(session, order, ids) for order, ids in holds]
        session.insert("accounts_hold", HOLD_COLUMNS, rows)


def raise_hold(
    session: Session, counters: CounterIds, order: TopUpOrder, *, enforced: bool
) -> Refusal | bool:
    """Raise an open hold: True, the refusal, or False when the hold is gone (its lease ended)."""
    refusal = _reserve(session, counters, order.payer, order.amount_nano, enforced)
    if refusal is not None:
        return _of_the_whole(session, refusal, order)
    moved = session.execute(
        "UPDATE accounts_hold SET amount_nano = amount_nano + %s WHERE generation_id = %s",
        (order.amount_nano, order.generation_id),
    ).rowcount
    if not moved:
        give_back(session, order.payer, counters.of(session, order.payer), order.amount_nano)
    return bool(moved)


def _of_the_whole(session: Session, refusal: Refusal, order: TopUpOrder) -> Refusal | bool:
    """The refusal of the raised hold as one: what it holds already is no other request's."""
    row = session.execute(
        "SELECT amount_nano FROM accounts_hold WHERE generation_id = %s", (order.generation_id,)
    ).fetchone()
    if row is None:
        return False
    return replace(
        refusal,
        asked_nano=refusal.asked_nano + row[0],
        held_nano=refusal.held_nano - row[0],
        key_held_nano=refusal.key_held_nano - row[0],
    )


def give_back(session: Session, payer: Payer, ids: Ids, amount_nano: int) -> None:
    """Undo a reservation on the account and its counters."""
    session.execute(
        "UPDATE accounts_account SET held_nano = held_nano - %s WHERE id = %s",
        (amount_nano, session.uuid(payer.account_id)),
    )
    _add_held(session, ids, -amount_nano)


def _already_placed(session: Session, orders: Sequence[HoldOrder]) -> set[str]:
    """Holds that an earlier commit of unknown outcome did place after all."""
    replayed = [order.generation_id for order in orders if order.replayed]
    if not replayed:
        return set()
    condition, parameters = session.among("generation_id", replayed)
    found = session.execute(
        f"SELECT generation_id FROM accounts_hold WHERE {condition}",  # noqa: S608 - A condition of placeholders.
        parameters,
    )
    return {row[0] for row in found.fetchall()}


def _reserve(
    session: Session, counters: CounterIds, payer: Payer, amount_nano: int, enforced: bool
) -> Refusal | None:
    if not reserve_account(session, payer.account_id, amount_nano, enforced).rowcount:
        return _refusal(session, counters, payer, amount_nano)
    ids = counters.of(session, payer)
    if amount_nano and reserve_counters(session, ids, amount_nano).rowcount != len(ids):
        _add_account_held(session, payer, -amount_nano)
        return _refusal(session, counters, payer, amount_nano)
    return None


def reserve_account(session: Session, account_id: UUID, amount_nano: int, enforced: bool) -> Any:
    """Hold an amount if the balance allows; the cursor counts one row when it did."""
    account = session.uuid(account_id)
    sql = "UPDATE accounts_account SET held_nano = held_nano + %s WHERE id = %s"
    if not enforced:
        return session.execute(sql, (amount_nano, account))
    # A free call needs no money, only that none is owed.
    held = "held_nano" if amount_nano else "0"
    guard = f" AND total_credits_nano - total_usage_nano - {held} >= %s"
    return session.execute(sql + guard, (amount_nano, account, amount_nano))


def _add_account_held(session: Session, payer: Payer, amount_nano: int) -> None:
    session.execute(
        "UPDATE accounts_account SET held_nano = held_nano + %s WHERE id = %s",
        (amount_nano, session.uuid(payer.account_id)),
    )


def reserve_counters(session: Session, ids: Ids, amount_nano: int) -> Any:
    """Hold an amount on all counters or none: the guard looks at all of them in the one statement
    that moves them. The cursor counts them when it did."""
    mine, parameters = session.among("id", ids)
    sql = (
        f"UPDATE accounts_spendcounter SET held_nano = held_nano + %s WHERE {mine}"  # noqa: S608 - A condition of placeholders.
        f" AND NOT EXISTS (SELECT 1 FROM accounts_spendcounter AS full_one WHERE full_one.{mine}"
        " AND full_one.limit_nano IS NOT NULL"
        " AND full_one.spent_nano + full_one.held_nano + %s > full_one.limit_nano)"
    )
    return session.execute(sql, [amount_nano, *parameters, *parameters, amount_nano])


def _add_held(session: Session, ids: Ids, amount_nano: int) -> None:
    mine, parameters = session.among("id", ids)
    session.execute(
        f"UPDATE accounts_spendcounter SET held_nano = held_nano + %s WHERE {mine}",  # noqa: S608 - A condition of placeholders.
        [amount_nano, *parameters],
    )


def _refusal(session: Session, counters: CounterIds, payer: Payer, amount_nano: int) -> Refusal:
    balance_nano, held_nano = session.execute(
        "SELECT total_credits_nano - total_usage_nano, held_nano FROM accounts_account"
        " WHERE id = %s",
        (session.uuid(payer.account_id),),
    ).fetchone()
    limit_nano, reset = session.execute(
        "SELECT limit_nano, limit_reset FROM accounts_apikey WHERE id = %s", (payer.key_id,)
    ).fetchone()
    spent_nano, key_held_nano = counters.read(session, payer, LIMITED_WINDOW[reset])
    return Refusal(
        asked_nano=amount_nano,
        balance_nano=balance_nano,
        held_nano=held_nano,
        key_left_nano=None if limit_nano is None else limit_nano - spent_nano,
        key_held_nano=key_held_nano,
        key_reset=reset,
    )


def hold_row(session: Session, order: HoldOrder, ids: Ids) -> tuple[object, ...]:
    """The values of `HOLD_COLUMNS`."""
    payer = order.payer
    return (
        order.generation_id,
        session.uuid(payer.account_id),
        payer.key_id,
        session.uuid(payer.workspace_id),
        order.amount_nano,
        text_of(ids),
        order.model,
        session.time(order.created_at),
        session.time(order.lease_expires_at),
    )
