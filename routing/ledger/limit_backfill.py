"""Letting requests under way count against limits that are younger than they are.

Putting a limit on raises the account's `limits_version`, and leaves the counter as it is
while requests of the account are under way. The first payer who knows the limit finds the counter
without it. The ledger writer makes it anew, with what was spent and with every hold that belongs to
it. Nobody can hold or raise anything past the limit before that. The account's row is locked
meanwhile, so that nobody places, raises or ends a hold.
"""

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, date
from typing import Any, NamedTuple
from uuid import UUID

from accounts.spending import NO_COUNTER, OF_REQUESTS, list_windows, parse_holder
from routing.ledger.orders import Payer
from routing.ledger.session import LedgerSession


class LimitedCounter(NamedTuple):
    """A counter with a limit on it. `workspace` is the only one that counts (an id in hex), empty
    for all."""

    id: int
    scope: str
    scope_id: str
    window: str
    workspace: str


class _OpenHold(NamedTuple):
    """An open hold, and the day that its request began on."""

    generation_id: str
    key_id: int
    workspace: Any
    amount_nano: int
    byok_nano: int
    counters: str
    day: date


def backfill_limits(
    session: LedgerSession, payer: Payer, limited: Iterable[LimitedCounter]
) -> None:
    """Let these counters of the payer's hold what is held already and belongs to them."""
    counters = sorted(limited)
    holds = _read_open_holds(session, payer) if counters else []
    starts = dict(payer.windows)
    for counter in counters if holds else ():
        belongs, name = _membership_rule(session, payer, counter), str(counter.id)
        fresh = [
            hold
            for hold in holds
            if dict(list_windows(hold.day))[counter.window] == starts[counter.window]
            and name not in hold.counters.split(",")
            and belongs(hold)
        ]
        if fresh:
            _add_holds(session, counter, fresh)


def _read_open_holds(session: LedgerSession, payer: Payer) -> list[_OpenHold]:
    rows = session.execute(
        "SELECT generation_id, api_key_id, workspace_id, amount_nano, byok_nano, counter_ids,"
        " created_at FROM accounts_hold WHERE account_id = %s",
        (session.uuid(payer.account_id),),
    ).fetchall()
    holds = []
    for *columns, created_at in rows:
        # SQLite keeps moments as text, in UTC.
        if isinstance(created_at, str):
            day = date.fromisoformat(created_at[:10])
        else:
            day = created_at.astimezone(UTC).date()
        holds.append(_OpenHold._make((*columns, day)))
    return holds


def _membership_rule(
    session: LedgerSession, payer: Payer, counter: LimitedCounter
) -> Callable[[_OpenHold], bool]:
    """Which holds spend what the counter limits."""
    workspace = session.uuid(UUID(counter.workspace)) if counter.workspace else None
    if counter.scope in OF_REQUESTS:
        # No hold says whose it is; those that were placed on the counter name it.
        return lambda hold: False
    if counter.scope == "workspace":
        return lambda hold: hold.workspace == workspace
    keys = {payer.key_id}
    if counter.scope != "key" and parse_holder(counter.scope_id)[0] != "k":
        rows = session.execute(
            "SELECT id FROM accounts_apikey WHERE creator_id = %s AND account_id = %s",
            (parse_holder(counter.scope_id)[1], session.uuid(payer.account_id)),
        ).fetchall()
        keys = {row[0] for row in rows}
    return lambda hold: hold.key_id in keys and workspace in (None, hold.workspace)


def _add_holds(session: LedgerSession, counter: LimitedCounter, holds: Sequence[_OpenHold]) -> None:
    condition, generations = session.build_membership(
        "generation_id", [hold.generation_id for hold in holds]
    )
    name = str(counter.id)
    session.execute(
        f"UPDATE accounts_hold SET counter_ids = CASE WHEN counter_ids = '{NO_COUNTER}' THEN %s"  # noqa: S608 - Constants and a condition of placeholders.
        f" ELSE counter_ids || %s END WHERE {condition}",
        [name, f",{name}", *generations],
    )
    session.execute(
        "UPDATE accounts_spendcounter SET held_nano = held_nano + %s,"
        " byok_held_nano = byok_held_nano + %s WHERE id = %s",
        [
            sum(hold.amount_nano for hold in holds),
            sum(hold.byok_nano for hold in holds),
            counter.id,
        ],
    )
