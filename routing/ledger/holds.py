"""Placing and raising holds: each is a guarded update, and the row count is the verdict.

Every function runs inside the writer's transaction. Locks are taken in one order: accounts by
primary key, then their holds, then their counters. So two processes cannot deadlock, and a change
of a limit has the account to itself.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import date
from typing import Any, NamedTuple

from accounts.spending import LIMITED_WINDOW
from routing.ledger.counters import (
    ENFORCED_LIMIT,
    PLACE,
    CounterCache,
    Ids,
    format_counter_ids,
    parse_counter_ids,
)
from routing.ledger.guards import (
    reserve_account_sql,
    reserve_byok_counters_sql,
    reserve_counters_sql,
)
from routing.ledger.orders import (
    OUTDATED,
    BudgetState,
    HoldOrder,
    HoldRefusal,
    Outdated,
    Payer,
    TopUpOrder,
)
from routing.ledger.session import LedgerSession

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


def lock_accounts(
    session: LedgerSession, payers: Iterable[Payer], *, even_one: bool = False
) -> None:
    """Lock several accounts in primary-key order. One alone is locked by its first update, unless
    something must be read before that."""
    ids = sorted({payer.account_id for payer in payers})
    if (even_one or len(ids) > 1) and not session.is_sqlite:
        condition, parameters = session.build_membership("id", ids)
        session.execute(
            f"SELECT id FROM accounts_account WHERE {condition} ORDER BY id FOR NO KEY UPDATE",  # noqa: S608 - A condition of placeholders.
            parameters,
        )


def place_holds(
    session: LedgerSession, counters: CounterCache, orders: Sequence[HoldOrder], *, enforced: bool
) -> dict[str, HoldRefusal | Outdated | None]:
    """Place holds one by one, in order of arrival within each account. Returns the refusal of each
    generation, None where its hold was placed.

    With `enforced` the account's balance bounds them; key limits and budgets always do.
    """
    placed: set[str] = set()
    if replayed := [order.generation_id for order in orders if order.replayed]:
        # An earlier commit of unknown outcome may have placed them.
        condition, parameters = session.build_membership("generation_id", replayed)
        rows = session.execute(
            f"SELECT generation_id FROM accounts_hold WHERE {condition}",  # noqa: S608 - A condition of placeholders.
            parameters,
        )
        placed = {row[0] for row in rows.fetchall()}
    verdicts: dict[str, HoldRefusal | Outdated | None] = {
        order.generation_id: None for order in orders
    }
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


def insert_holds(session: LedgerSession, holds: Sequence[tuple[HoldOrder, Ids]]) -> None:
    """Insert the rows of holds whose amounts are reserved."""
    if holds:
        rows = [build_hold_row(session, order, ids) for order, ids in holds]
        session.insert("accounts_hold", HOLD_COLUMNS, rows)


def raise_hold(
    session: LedgerSession, counters: CounterCache, order: TopUpOrder, *, enforced: bool
) -> HoldRefusal | Outdated | bool:
    """Raise an open hold: True, the refusal, or False when the hold is gone (its lease ended).

    The hold names its counters itself. Those of newer limits are among them once a payer who knows
    these limits was served.
    """
    payer, amount_nano, byok_nano = order.payer, order.amount_nano, order.byok_nano
    needs_balance = _needs_balance(enforced, amount_nano, byok_nano)
    reserved = bool(reserve_account(session, payer, amount_nano, needs_balance).rowcount)
    if reserved:
        counters.find_or_create(session, payer)
    elif read_limits_version(session, payer) != payer.limits_version:
        return OUTDATED
    row = session.execute(
        "SELECT amount_nano, byok_nano, counter_ids FROM accounts_hold WHERE generation_id = %s",
        (order.generation_id,),
    ).fetchone()
    if row is None:
        _release_account(session, payer, amount_nano if reserved else 0)
        return False
    ids = parse_counter_ids(row[2])
    if not (reserved and _fits_counters(session, ids, amount_nano, byok_nano)):
        _release_account(session, payer, amount_nano if reserved else 0)
        refusal = build_refusal(session, payer, amount_nano, byok_nano)
        return _refuse_raised_hold(refusal, row[0], row[1])
    session.execute(
        "UPDATE accounts_hold SET amount_nano = amount_nano + %s, byok_nano = byok_nano + %s"
        " WHERE generation_id = %s",
        (amount_nano, byok_nano, order.generation_id),
    )
    return True


def _refuse_raised_hold(refusal: HoldRefusal, held_nano: int, held_byok_nano: int) -> HoldRefusal:
    """The refusal of the hold as a whole: its own earlier amount is not held by others."""
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


def _reserve(
    session: LedgerSession, counters: CounterCache, order: HoldOrder, enforced: bool
) -> Ids | HoldRefusal | Outdated:
    """Reserve the amount; returns the counters it is held on, or why it does not fit."""
    payer, amount_nano, byok_nano = order.payer, order.amount_nano, order.byok_nano
    needs_balance = _needs_balance(enforced, amount_nano, byok_nano)
    if not reserve_account(session, payer, amount_nano, needs_balance).rowcount:
        if read_limits_version(session, payer) != payer.limits_version:
            return OUTDATED
        return build_refusal(session, payer, amount_nano, byok_nano)
    ids = counters.find_or_create(session, payer).limited
    if not _fits_counters(session, ids, amount_nano, byok_nano):
        _release_account(session, payer, amount_nano)
        return build_refusal(session, payer, amount_nano, byok_nano)
    return ids


def _needs_balance(enforced: bool, amount_nano: int, byok_nano: int) -> bool:
    """Whether the account's balance must cover it: not where only the caller's own provider is
    paid and there is no fee."""
    return enforced and not is_byok_alone(amount_nano, byok_nano)


def is_byok_alone(amount_nano: int, byok_nano: int) -> bool:
    return bool(byok_nano) and not amount_nano


def _fits_counters(session: LedgerSession, ids: Ids, amount_nano: int, byok_nano: int) -> bool:
    if not ids or not (amount_nano or byok_nano):
        return True
    moved: int = reserve_counters(session, ids, amount_nano, byok_nano).rowcount
    return moved == len(ids)


def reserve_account(
    session: LedgerSession, payer: Payer, amount_nano: int, needs_balance: bool
) -> Any:
    """Hold an amount where the payer's limits are the present ones and, with `needs_balance`, the
    balance covers it. The cursor counts one row when it did."""
    sql = reserve_account_sql(needs_balance=needs_balance, has_amount=bool(amount_nano))
    parameters = [amount_nano, session.uuid(payer.account_id), payer.limits_version]
    if needs_balance:
        parameters.append(amount_nano)
    return session.execute(sql, parameters)


def _release_account(session: LedgerSession, payer: Payer, amount_nano: int) -> None:
    if amount_nano:
        session.execute(
            "UPDATE accounts_account SET held_nano = held_nano - %s WHERE id = %s",
            (amount_nano, session.uuid(payer.account_id)),
        )


def reserve_counters(session: LedgerSession, ids: Ids, amount_nano: int, byok_nano: int = 0) -> Any:
    """Hold an amount on all counters or on none; the cursor counts them when it did."""
    mine, parameters = session.build_membership("id", ids)
    if not byok_nano:
        values = [amount_nano, *parameters, *parameters, amount_nano]
        return session.execute(reserve_counters_sql(mine), values)
    asked = [amount_nano + byok_nano, amount_nano] * 2
    values = [amount_nano, byok_nano, *parameters, *parameters, *asked]
    return session.execute(reserve_byok_counters_sql(mine), values)


def build_hold_row(session: LedgerSession, order: HoldOrder, ids: Ids) -> tuple[object, ...]:
    """The values of `HOLD_COLUMNS`."""
    payer = order.payer
    return (
        order.generation_id,
        session.uuid(payer.account_id),
        payer.key_id,
        session.uuid(payer.workspace_id),
        order.amount_nano,
        order.byok_nano,
        format_counter_ids(ids),
        order.model,
        session.time(order.created_at),
        session.time(order.lease_expires_at),
    )


# --- Why a hold does not fit ----------------------------------------------------------------------


def read_limits_version(session: LedgerSession, payer: Payer) -> int:
    """Read the account's current `limits_version`."""
    row = session.execute(
        "SELECT limits_version FROM accounts_account WHERE id = %s",
        (session.uuid(payer.account_id),),
    ).fetchone()
    return int(row[0])


class CounterReading(NamedTuple):
    """What a counter says. `counts_byok` tells whether the `byok` figures count."""

    spent_nano: int = 0
    held_nano: int = 0
    byok_spent_nano: int = 0
    byok_held_nano: int = 0
    counts_byok: bool = False

    @property
    def counted_nano(self) -> int:
        return self.spent_nano + (self.byok_spent_nano if self.counts_byok else 0)

    @property
    def counted_held_nano(self) -> int:
        return self.held_nano + (self.byok_held_nano if self.counts_byok else 0)


def read_counter(
    session: LedgerSession, scope: str, scope_id: str, window: str, start: date
) -> CounterReading:
    """What one counter says; nothing where there is none yet."""
    row = session.execute(
        "SELECT spent_nano, held_nano, byok_spent_nano, byok_held_nano, counts_byok"  # noqa: S608 - A constant.
        f" FROM accounts_spendcounter WHERE {PLACE}",
        (scope, scope_id, window, start.isoformat()),
    ).fetchone()
    if row is None:
        return CounterReading()
    spent_nano, held_nano, byok_spent_nano, byok_held_nano, counts_byok = row
    return CounterReading(spent_nano, held_nano, byok_spent_nano, byok_held_nano, bool(counts_byok))


def build_refusal(
    session: LedgerSession, payer: Payer, amount_nano: int, byok_nano: int
) -> HoldRefusal:
    """Describe why the amount does not fit. The account's row is locked by now."""
    balance_nano, held_nano = session.execute(
        "SELECT total_credits_nano - total_usage_nano, held_nano FROM accounts_account"
        " WHERE id = %s",
        (session.uuid(payer.account_id),),
    ).fetchone()
    limit_nano, reset, counts_byok = session.execute(
        f"SELECT {ENFORCED_LIMIT}, limit_reset, include_byok_in_limit FROM accounts_apikey"  # noqa: S608 - A constant.
        " WHERE id = %s",
        (payer.key_id,),
    ).fetchone()
    window, starts = LIMITED_WINDOW[reset], dict(payer.windows)
    key = read_counter(session, "key", str(payer.key_id), window, starts[window])
    budgets = []
    for scope in payer.budgets:
        if not scope.is_enforced:
            continue
        start = starts[scope.window]
        reading = read_counter(session, scope.scope, scope.scope_id, scope.window, start)
        state = BudgetState(
            scope=scope,
            left_nano=scope.limit_nano - reading.counted_nano,
            held_nano=reading.counted_held_nano,
            asked_nano=amount_nano + (byok_nano if scope.counts_byok else 0),
        )
        budgets.append(state)
    return HoldRefusal(
        asked_nano=amount_nano,
        balance_nano=balance_nano,
        held_nano=held_nano,
        key_left_nano=None if limit_nano is None else limit_nano - key.counted_nano,
        key_held_nano=key.counted_held_nano,
        key_reset=reset,
        key_asked_nano=amount_nano + byok_nano if counts_byok else None,
        byok_nano=byok_nano,
        budgets=tuple(budgets),
    )
