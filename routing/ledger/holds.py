"""Placing and raising holds: each is a guarded update, and the row count is the verdict.

Every function runs inside the writer's transaction. An account's row is locked before anything of
it is read or moved, several of them in primary-key order; then its holds, then its counters. So two
processes cannot wait for each other, and whoever changes a limit has the account to itself.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from routing.ledger.counters import CounterIds, Ids, ids_of, text_of
from routing.ledger.orders import OUTDATED, HoldOrder, Outdated, Payer, Refusal, TopUpOrder
from routing.ledger.refusals import limits_version, refusal_of
from routing.ledger.session import Session

HOLD_COLUMNS = (
    "generation_id",
    "account_id",
    "api_key_id",
    "workspace_id",
    "amount_nano",
    "byok_nano",
    "counter_ids",
    "model",
    "created_at",
    "lease_expires_at",
)
# What counts on a counter beside what it spends and holds of the account's money.
BYOK_COUNTED = "(CASE WHEN counts_byok THEN byok_spent_nano + byok_held_nano ELSE 0 END)"


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
) -> dict[str, Refusal | Outdated | None]:
    """Place holds one by one, in order of arrival within each account; the answer names each
    generation's refusal, None where it was placed.

    `enforced` is whether the account's balance bounds them (key limits and budgets always do).
    """
    placed = _already_placed(session, orders)
    verdicts: dict[str, Refusal | Outdated | None] = {order.generation_id: None for order in orders}
    accepted: list[tuple[HoldOrder, Ids]] = []
    fresh = [order for order in orders if order.generation_id not in placed]
    for order in sorted(fresh, key=lambda order: order.payer.account_id):
        verdict = _reserve(session, counters, order, enforced)
        if isinstance(verdict, tuple):
            accepted.append((order, verdict))
        else:
            verdicts[order.generation_id] = verdict
    insert_holds(session, accepted)
    return verdicts


def insert_holds(session: Session, holds: Sequence[tuple[HoldOrder, Ids]]) -> None:
    """Write down what was reserved."""
    if holds:
        rows = [hold_row(session, order, ids) for order, ids in holds]
        session.insert("accounts_hold", HOLD_COLUMNS, rows)


def raise_hold(
    session: Session, counters: CounterIds, order: TopUpOrder, *, enforced: bool
) -> Refusal | Outdated | bool:
    """Raise an open hold: True, the refusal, or False when the hold is gone (its lease ended).

    It knows the counters itself: those of limits that were put on since it was placed too, once a
    payer who knows them has met them.
    """
    payer, amount_nano, byok_nano = order.payer, order.amount_nano, order.byok_nano
    asks = _asks(enforced, amount_nano, byok_nano)
    taken = bool(reserve_account(session, payer, amount_nano, asks, known_limits=True).rowcount)
    if taken:
        counters.of(session, payer)
    elif limits_version(session, payer) != payer.limits_version:
        return OUTDATED
    row = session.execute(
        "SELECT amount_nano, byok_nano, counter_ids FROM accounts_hold WHERE generation_id = %s",
        (order.generation_id,),
    ).fetchone()
    if row is None:
        _give_account_back(session, payer, amount_nano if taken else 0)
        return False
    ids = ids_of(row[2])
    if not (taken and _fits_counters(session, ids, amount_nano, byok_nano)):
        _give_account_back(session, payer, amount_nano if taken else 0)
        refusal = refusal_of(session, payer, amount_nano, byok_nano)
        return _of_the_whole(refusal, row[0], row[1])
    session.execute(
        "UPDATE accounts_hold SET amount_nano = amount_nano + %s, byok_nano = byok_nano + %s"
        " WHERE generation_id = %s",
        (amount_nano, byok_nano, order.generation_id),
    )
    return True


def _of_the_whole(refusal: Refusal, held_nano: int, held_byok_nano: int) -> Refusal:
    """The refusal of the raised hold as one: what it holds already is no other request's."""
    key_asked_nano, key_own_nano = refusal.key_asked_nano, held_nano
    if key_asked_nano is not None:
        key_own_nano += held_byok_nano
        key_asked_nano += key_own_nano
    return replace(
        refusal,
        asked_nano=refusal.asked_nano + held_nano,
        held_nano=refusal.held_nano - held_nano,
        key_held_nano=refusal.key_held_nano - key_own_nano,
        key_asked_nano=key_asked_nano,
        byok_nano=refusal.byok_nano + held_byok_nano,
        budgets=tuple(
            state._replace(asked_nano=state.asked_nano + own, held_nano=state.held_nano - own)
            for state in refusal.budgets
            for own in [held_nano + (held_byok_nano if state.scope.counts_byok else 0)]
        ),
    )


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
    session: Session, counters: CounterIds, order: HoldOrder, enforced: bool
) -> Ids | Refusal | Outdated:
    """The counters that it is held on, or why it is not."""
    payer, amount_nano, byok_nano = order.payer, order.amount_nano, order.byok_nano
    asks = _asks(enforced, amount_nano, byok_nano)
    if not reserve_account(session, payer, amount_nano, asks, known_limits=True).rowcount:
        if limits_version(session, payer) != payer.limits_version:
            return OUTDATED
        return refusal_of(session, payer, amount_nano, byok_nano)
    ids = counters.of(session, payer).limited
    if not _fits_counters(session, ids, amount_nano, byok_nano):
        _give_account_back(session, payer, amount_nano)
        return refusal_of(session, payer, amount_nano, byok_nano)
    return ids


def _asks(enforced: bool, amount_nano: int, byok_nano: int) -> bool:
    """Whether the account's balance has a say: not where somebody else is paid, and no fee."""
    return enforced and not is_byok_alone(amount_nano, byok_nano)


def is_byok_alone(amount_nano: int, byok_nano: int) -> bool:
    return bool(byok_nano) and not amount_nano


def _fits_counters(session: Session, ids: Ids, amount_nano: int, byok_nano: int) -> bool:
    if not ids or not (amount_nano or byok_nano):
        return True
    moved: int = reserve_counters(session, ids, amount_nano, byok_nano).rowcount
    return moved == len(ids)


def reserve_account(
    session: Session, payer: Payer, amount_nano: int, asks: bool, *, known_limits: bool = False
) -> Any:
    """Hold an amount if the balance allows (where it is asked) and, where this is a new hold, the
    payer's `known_limits` are those of now; the cursor counts one row when it did."""
    sql = "UPDATE accounts_account SET held_nano = held_nano + %s WHERE id = %s"
    parameters = [amount_nano, session.uuid(payer.account_id)]
    if known_limits:
        sql += " AND limits_version = %s"
        parameters.append(payer.limits_version)
    if asks:
        # A free call needs no money, only that none is owed.
        held = "held_nano" if amount_nano else "0"
        sql += f" AND total_credits_nano - total_usage_nano - {held} >= %s"
        parameters.append(amount_nano)
    return session.execute(sql, parameters)


def _give_account_back(session: Session, payer: Payer, amount_nano: int) -> None:
    if amount_nano:
        session.execute(
            "UPDATE accounts_account SET held_nano = held_nano - %s WHERE id = %s",
            (amount_nano, session.uuid(payer.account_id)),
        )


def reserve_counters(session: Session, ids: Ids, amount_nano: int, byok_nano: int = 0) -> Any:
    """Hold an amount on all counters or none: the guard looks at all of them in the one statement
    that moves them. The cursor counts them when it did.

    A counter that has no say in an order (BYOK that it does not count) refuses none.
    """
    mine, parameters = session.among("id", ids)
    full = f"SELECT 1 FROM accounts_spendcounter AS full_one WHERE full_one.{mine}"  # noqa: S608 - A condition of placeholders.
    full += f" AND full_one.limit_nano IS NOT NULL AND spent_nano + held_nano + {BYOK_COUNTED}"
    if not byok_nano:
        sql = (
            f"UPDATE accounts_spendcounter SET held_nano = held_nano + %s WHERE {mine}"  # noqa: S608 - A condition of placeholders.
            f" AND NOT EXISTS ({full} + %s > limit_nano)"
        )
        return session.execute(sql, [amount_nano, *parameters, *parameters, amount_nano])
    asked = "(CASE WHEN counts_byok THEN CAST(%s AS bigint) ELSE CAST(%s AS bigint) END)"
    sql = (
        "UPDATE accounts_spendcounter SET held_nano = held_nano + %s,"  # noqa: S608 - A condition of placeholders.
        f" byok_held_nano = byok_held_nano + %s WHERE {mine}"
        f" AND NOT EXISTS ({full} + {asked} > limit_nano AND {asked} > 0)"
    )
    both = [amount_nano + byok_nano, amount_nano]
    moved = [amount_nano, byok_nano, *parameters]
    return session.execute(sql, [*moved, *parameters, *both, *both])


def hold_row(session: Session, order: HoldOrder, ids: Ids) -> tuple[object, ...]:
    """The values of `HOLD_COLUMNS`."""
    payer = order.payer
    return (
        order.generation_id,
        session.uuid(payer.account_id),
        payer.key_id,
        session.uuid(payer.workspace_id),
        order.amount_nano,
        order.byok_nano,
        text_of(ids),
        order.model,
        session.time(order.created_at),
        session.time(order.lease_expires_at),
    )
