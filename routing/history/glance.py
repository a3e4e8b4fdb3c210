"""What was used today and in the last 30 days, for the admin's pages."""

from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

from accounts.ports import RecentUsage, UsageScope
from routing.history.analytics import fetch_rows
from routing.history.dialect import dialect
from routing.history.metrics import METRICS
from routing.history.spans import DAY, day_of
from routing.history.statement import QueryCondition, UsageQuery

_METRICS: Final = ("request_count", "tokens_total", "credits_usage")
_COLUMNS: Final = {"workspace": "workspace_id", "key": "api_key_id"}


def read_recent_usage(account_id: UUID, scope: UsageScope, pk: object) -> dict[str, RecentUsage]:
    """Today (UTC), and the 30 days that end with it."""
    now = datetime.now(UTC)
    today = day_of(now)
    starts = {"Today (UTC)": today, "30 days": today - 29 * DAY}
    end = now + timedelta(seconds=1)
    conditions: tuple[QueryCondition, ...] = ()
    if scope != "account":
        value = dialect().uuid(pk) if isinstance(pk, UUID) else pk
        conditions = (QueryCondition(_COLUMNS[scope], "{column} = %s", (value,)),)
    usage: dict[str, RecentUsage] = {}
    for title, start in starts.items():
        query = UsageQuery(
            account_id=account_id,
            start=start,
            end=end,
            metrics={name: METRICS[name] for name in _METRICS},
            conditions=conditions,
        )
        (row,) = fetch_rows(query, end)
        requests, tokens, charge_nano = (int(row[name]) for name in _METRICS)
        usage[title] = RecentUsage(requests, tokens, charge_nano)
    return usage
