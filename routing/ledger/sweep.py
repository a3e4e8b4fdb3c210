"""Freeing holds that nobody will end any more, inside the writer's transaction.

Order of locks: accounts in primary-key order, then their holds, then their counters.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from gateway.http.jsonio import JsonObject
from routing.entities.ids import DECISIONS_PREFIX, EMBEDDINGS_PREFIX
from routing.ledger.counters import parse_counter_ids
from routing.ledger.records import GENERATION_COLUMNS, RECORD_COLUMNS
from routing.ledger.session import LedgerSession
from routing.ledger.settlements import MoneyMoves, move_counters

SWEEP_BATCH = 500


def sweep_expired(session: LedgerSession, now: datetime) -> int:
    """Free holds whose lease has ended and mark their generations lost. Returns how many.

    At most `SWEEP_BATCH` at a time. One that is being settled at this moment is waited for.
    """
    expired = session.execute(
        "SELECT generation_id, account_id FROM accounts_hold WHERE lease_expires_at < %s"  # noqa: S608 - A constant.
        f" ORDER BY lease_expires_at LIMIT {SWEEP_BATCH}",
        (session.time(now),),
    ).fetchall()
    if not expired:
        return 0
    if not session.is_sqlite:
        session.execute(
            "SELECT id FROM accounts_account WHERE id = ANY(%s) ORDER BY id FOR NO KEY UPDATE",
            [sorted({row[1] for row in expired})],
        )
    condition, parameters = session.build_membership("generation_id", [row[0] for row in expired])
    rows = session.execute(
        f"DELETE FROM accounts_hold WHERE {condition}"  # noqa: S608 - A condition of placeholders.
        " RETURNING generation_id, account_id, workspace_id, api_key_id, amount_nano, byok_nano,"
        " counter_ids, model, created_at",
        parameters,
    ).fetchall()
    for row in sorted(rows, key=lambda row: str(row[1])):
        session.execute(
            "UPDATE accounts_account SET held_nano = held_nano - %s WHERE id = %s", (row[4], row[1])
        )
        ids, sums = (
            parse_counter_ids(row[6]),
            MoneyMoves(released_nano=row[4], released_byok_nano=row[5]),
        )
        move_counters(session, ids, ids, sums)
    session.insert("routing_generation", GENERATION_COLUMNS, (_build_lost_row(row) for row in rows))
    return len(rows)


def sweep_all_expired(session: LedgerSession, now: datetime) -> int:
    """Sweep in batches, a transaction each, until none is left. Returns how many were freed."""
    total = 0
    while True:
        session.begin()
        freed = sweep_expired(session, now)
        session.commit()
        total += freed
        if freed < SWEEP_BATCH:
            return total


def _build_lost_row(row: Sequence[Any]) -> tuple[Any, ...]:
    values: JsonObject = dict.fromkeys(RECORD_COLUMNS)
    values |= dict.fromkeys(_ZEROS, 0) | dict.fromkeys(_NOES, False)
    values |= {
        "created_at": row[8],
        "api_type": next(
            (type for prefix, type in _TYPES if row[0].startswith(prefix)), "completions"
        ),
        "model": row[7],
    }
    values |= {"requested_model": row[7], "status": 500, "lost": True, "hold_nano": row[4]}
    values |= {"attempts": "[]", "detail": "{}", "trace": "{}"}
    return (row[0], row[1], row[2], row[3], *[values[column] for column in RECORD_COLUMNS])


_TYPES = ((DECISIONS_PREFIX, "decisions"), (EMBEDDINGS_PREFIX, "embeddings"))
_ZEROS = (
    "tokens_prompt",
    "tokens_completion",
    "tokens_reasoning",
    "tokens_cached",
    "charge_nano",
    "upstream_cost_nano",
)
_NOES = ("streamed", "cancelled", "overrun", "is_byok")
