"""What was used today and in the last 30 days, for the admin's pages."""

from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

from accounts.ports import RecentUsage, UsageScope
from routing.history.analytics import fetch
from routing.history.asking import Condition, Question
from routing.history.dialect import dialect
from routing.history.metrics import METRICS
from routing.history.spans import DAY, day_of

_METRICS: Final = ("request_count", "tokens_total", "credits_usage")
_COLUMNS: Final = {"workspace": "workspace_id", "key": "api_key_id"}


def used_lately(account_id: UUID, scope: UsageScope, pk: object) -> dict[str, RecentUsage]:
    """Today (UTC), and the 30 days that end with it."""
    now = datetime.now(UTC)
    today = day_of(now)
    starts = {"Today (UTC)": today, "30 days": today - 29 * DAY}
    end = now + timedelta(seconds=1)
    return {title: _used(account_id, scope, pk, start, end) for title, start in starts.items()}


def _used(
    account_id: UUID, scope: UsageScope, pk: object, start: datetime, end: datetime
) -> RecentUsage:
    question = Question(
        account_id=account_id,
        start=start,
        end=end,
        metrics={name: METRICS[name] for name in _METRICS},
        conditions=_conditions(scope, pk),
    )
    (row,) = fetch(question, end)
    requests, tokens, charge_nano = (int(row[name]) for name in _METRICS)
    return RecentUsage(requests, tokens, charge_nano)


def _conditions(scope: UsageScope, pk: object) -> tuple[Condition, ...]:
    if scope == "account":
        return ()
    value = dialect().uuid(pk) if isinstance(pk, UUID) else pk
    return (Condition(_COLUMNS[scope], "{column} = %s", (value,)),)
