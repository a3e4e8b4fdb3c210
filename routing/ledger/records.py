"""What a settlement writes down, in the transaction that moves the money. It writes ledger entries,
the generation's record, its hour where that is late, and what a credential of a pool has spent.

A record bears the moment its call began. Most come within minutes of it; an hour is rolled up
(`routing.history`) well after that, and whoever writes a later one marks the hour.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from typing import Any, Final

from routing.ledger.orders import SettleOrder
from routing.ledger.session import LedgerSession

# After the end of an hour: from the first on its records are marked, at the second it is rolled up.
# Between them every transaction that was under way has ended.
MARKED_AFTER: Final = timedelta(minutes=5)
ROLLED_AFTER: Final = timedelta(minutes=10)
_HOUR: Final = timedelta(hours=1)
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
_ADD_SPEND = (
    "INSERT INTO routing_credentialspend (provider, label, day, requests, cost_nano)"
    " VALUES (%s, %s, %s, %s, %s) ON CONFLICT (provider, label, day) DO UPDATE SET"
    " requests = routing_credentialspend.requests + excluded.requests,"
    " cost_nano = routing_credentialspend.cost_nano + excluded.cost_nano"
)


def write_entries(session: LedgerSession, orders: Sequence[SettleOrder]) -> None:
    """Insert the usage entries, and those of BYOK fees."""
    rows = [build_entry_row(session, order) for order in orders]
    for order in orders:
        if fee_nano := _fee_nano(order):
            row = list(build_entry_row(session, order))
            row[3:6] = ["byok_fee", fee_nano, 0]
            row[8] = "byok_fee"
            rows.append(tuple(row))
    session.insert("accounts_ledgerentry", ENTRY_COLUMNS, rows)


def build_entry_row(session: LedgerSession, order: SettleOrder) -> tuple[Any, ...]:
    """The values of `ENTRY_COLUMNS`."""
    payer = order.payer
    # The day whose windows the payer is charged in.
    day = dict(payer.windows).get("day")
    return (
        session.uuid(payer.account_id),
        session.uuid(payer.workspace_id),
        payer.key_id,
        "usage",
        order.charge_nano - _fee_nano(order),
        order.byok_nano,
        order.generation_id,
        None if day is None else day.isoformat(),
        "generation",
        order.generation_id,
        "",
        session.time(order.settled_at),
    )


def _fee_nano(order: SettleOrder) -> int:
    """The part of the charge that is the fee for a credential of the caller's own."""
    return order.charge_nano - order.shared_nano if order.byok_nano else 0


def write_records(session: LedgerSession, orders: Sequence[SettleOrder]) -> None:
    """Insert the generation records, and what goes with them."""
    rows = (build_record_row(session, order) for order in orders)
    session.insert("routing_generation", GENERATION_COLUMNS, rows)
    _mark_late(session, orders)
    _add_credential_spend(session, orders)


def build_record_row(session: LedgerSession, order: SettleOrder) -> tuple[Any, ...]:
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


# --- Late hours -----------------------------------------------------------------------------------


def is_late(order: SettleOrder, now: datetime | None = None) -> bool:
    """Whether its hour may have been rolled up before it is written."""
    began: datetime = order.record["created_at"]
    return _hour_of(began) + _HOUR + MARKED_AFTER <= (now or datetime.now(UTC))


def _mark_late(session: LedgerSession, orders: Iterable[SettleOrder]) -> None:
    """Have the hours of late records rolled up anew; nearly always there are none."""
    now = datetime.now(UTC)
    hours = {_hour_of(order.record["created_at"]) for order in orders if is_late(order, now)}
    if hours:
        rows = [(session.time(hour),) for hour in sorted(hours)]
        session.insert("routing_latehour", ("hour",), rows)


def _hour_of(moment: datetime) -> datetime:
    return moment.replace(minute=0, second=0, microsecond=0)


# --- Pools of credentials -------------------------------------------------------------------------


def _add_credential_spend(session: LedgerSession, orders: Iterable[SettleOrder]) -> None:
    """Add what these requests spent with credentials of the gateway's pools to their days.

    These rows are the last that a transaction locks, in the order of their names: so two processes
    never wait for each other.
    """
    sums: dict[tuple[str, str, str], tuple[int, int]] = {}
    for order in orders:
        for spent in order.credential_spend:
            row = spent.provider, spent.label, order.settled_at.date().isoformat()
            requests, cost_nano = sums.get(row, (0, 0))
            sums[row] = requests + 1, cost_nano + spent.cost_nano
    for row, figures in sorted(sums.items()):
        session.execute(_ADD_SPEND, [*row, *figures])
