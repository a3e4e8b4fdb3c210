"""One order as one statement, for PostgreSQL: the usual case, where no other order is waiting.

A hold or a settlement alone is a transaction of a single statement. The database reads, plans and
answers once instead of six times: about 0.1 ms less of a request's 0.8 ms in the ledger. Each part
waits for the one before it, so rows are locked in the usual order: account, hold, counters.
Every update is relative and guards the row it moves, so it judges the row as it is once locked.

Where a part does not move what it should, the statement divides by zero and nothing stands.
"""

from functools import cache
from typing import Any

from routing.ledger.counters import CounterSet, Ids, format_counter_ids
from routing.ledger.guards import (
    CHARGE_ACCOUNT,
    RESERVE_EACH_COUNTER,
    free_held_sql,
    reserve_account_sql,
)
from routing.ledger.holds import HOLD_COLUMNS, build_hold_row
from routing.ledger.orders import HoldOrder, SettleOrder
from routing.ledger.pipeline import insert_sql
from routing.ledger.session import LedgerSession
from routing.ledger.settlements import (
    ENTRY_COLUMNS,
    GENERATION_COLUMNS,
    build_entry_row,
    build_record_row,
)


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
    return _statement(parts, [insert_sql("accounts_hold", HOLD_COLUMNS)], checks)


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
    return _statement(parts, written, ["(SELECT count(*) FROM counters) = %s"])


def _statement(parts: dict[str, str], written: list[str], checks: list[str]) -> str:
    """One statement of parts that are counted, rows that are written, and checks of the counts."""
    moves = [f"{name} AS ({sql} RETURNING 1)" for name, sql in parts.items()]
    moves += [f"written_{number} AS ({sql})" for number, sql in enumerate(written)]
    return f"WITH {', '.join(moves)} SELECT 1 / ({' AND '.join(checks)})::int"
