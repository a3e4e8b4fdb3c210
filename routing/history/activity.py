"""GET /activity: usage of each endpoint on the last 30 full days (UTC)."""

import re
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Final, NamedTuple
from uuid import UUID

from django.conf import settings

from accounts.models import ApiKey, Membership, Workspace
from gateway.http.errors import NotFound, SchemaInvalid
from gateway.http.jsonio import JsonObject, usd
from gateway.http.validation import Issue, describe_options
from routing.history.analytics import fetch_rows
from routing.history.deadline import deadline
from routing.history.dialect import dialect
from routing.history.metrics import METRICS
from routing.history.spans import DAY, day_of
from routing.history.statement import QueryCondition, UsageQuery

DAYS: Final = 30
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
_HASH: Final = re.compile(r"[0-9a-f]{64}")
# Fields of a row and the metrics they are.
_METRICS: Final = {
    "requests": "request_count",
    "prompt_tokens": "tokens_prompt",
    "completion_tokens": "tokens_completion",
    "reasoning_tokens": "reasoning_tokens",
    "usage": "credits_usage",
    "byok_usage_inference": "byok_usage",
}
_MONEY: Final = frozenset({"usage", "byok_usage_inference"})
_GROUPS: Final = ("model", "permaslug", "endpoint_tag", "provider_name")


class ActivityQuery(NamedTuple):
    """Filters of the query, None where absent. `day` lies within the 30 days."""

    day: date | None = None
    api_key_hash: str | None = None
    user_id: str | None = None
    workspace_id: UUID | None = None
    by_workspace: bool = False


def read_activity_query(query: Mapping[str, str], now: datetime) -> ActivityQuery:
    """Check the query string; empty values count as absent. Raises `SchemaInvalid`."""
    issues: list[Issue] = []
    given = {name: query.get(name, "") for name in ("date", "api_key_hash", "workspace_id")}
    day = _parse_day(given["date"], now, issues)
    if given["api_key_hash"] and not _HASH.fullmatch(given["api_key_hash"]):
        issues.append(Issue("api_key_hash", "Invalid string: must match pattern /^[0-9a-f]{64}$/"))
    workspace = _parse_workspace(given["workspace_id"], issues)
    group_by = query.get("group_by", "")
    if group_by not in {"", "workspace"}:
        issues.append(Issue("group_by", describe_options(("workspace",))))
    if issues:
        raise SchemaInvalid(issues)
    return ActivityQuery(
        day,
        given["api_key_hash"] or None,
        query.get("user_id") or None,
        workspace,
        bool(group_by),
    )


def read_activity(account_id: UUID, query: ActivityQuery, now: datetime) -> list[JsonObject]:
    """The rows, newest day first, then most expensive first.

    Raises `NotFound` for a user or workspace of another account, and `TimedOut`.
    """
    conditions = _build_conditions(account_id, query)
    today = day_of(now)
    start, end = today - DAYS * DAY, today
    if query.day is not None:
        start = datetime(query.day.year, query.day.month, query.day.day, tzinfo=UTC)
        end = start + DAY
    groups = (*_GROUPS, "workspace_id") if query.by_workspace else _GROUPS
    usage_query = UsageQuery(
        account_id=account_id,
        start=start,
        end=end,
        metrics={metric: METRICS[metric] for metric in _METRICS.values()},
        groups=groups,
        time="day",
        conditions=conditions,
        order=(("period", True), ("credits_usage", True)),
    )
    with deadline(settings.ANALYTICS_TIMEOUT):
        return [
            _serialize_row(row, by_workspace=query.by_workspace)
            for row in fetch_rows(usage_query, now)
        ]


def _parse_day(text: str, now: datetime, issues: list[Issue]) -> date | None:
    if not text:
        return None
    try:
        day = date.fromisoformat(text) if _DATE.fullmatch(text) else None
    except ValueError:
        day = None
    if day is None:
        issues.append(Issue("date", "Invalid ISO date"))
        return None
    today = day_of(now).date()
    if not today - timedelta(days=DAYS) <= day < today:
        text = f"Invalid input: expected one of the last {DAYS} completed UTC days"
        issues.append(Issue("date", text))
    return day


def _parse_workspace(text: str, issues: list[Issue]) -> UUID | None:
    try:
        return UUID(text) if text else None
    except ValueError:
        issues.append(Issue("workspace_id", "Invalid UUID"))
        return None


def _build_conditions(account_id: UUID, query: ActivityQuery) -> tuple[QueryCondition, ...]:
    sql_dialect, found = dialect(), []
    if query.workspace_id is not None:
        workspaces = Workspace.everything.filter(account_id=account_id, pk=query.workspace_id)
        if not workspaces.exists():
            raise NotFound
        value = sql_dialect.uuid(query.workspace_id)
        found.append(QueryCondition("workspace_id", "{column} = %s", (value,)))
    if query.user_id is not None:
        user = _find_user(account_id, query.user_id)
        found.append(QueryCondition("user", "{column} = %s", (user,)))
    if query.api_key_hash is not None:
        keys = "SELECT id FROM accounts_apikey WHERE hash = %s AND account_id = %s"
        values = (query.api_key_hash, sql_dialect.uuid(account_id))
        found.append(QueryCondition("api_key_id", f"{{column}} IN ({keys})", values))
    return tuple(found)


def _find_user(account_id: UUID, public_id: str) -> int:
    """The id of a member, or of a former one who created keys."""
    if "\x00" in public_id:
        raise NotFound
    member = Membership.objects.filter(account_id=account_id, user__public_id=public_id)
    key = ApiKey.objects.filter(account_id=account_id, creator__public_id=public_id)
    found = member.values_list("user_id").union(key.values_list("creator_id"))[:1]
    for row in found:
        return int(row[0])
    raise NotFound


def _serialize_row(row: JsonObject, *, by_workspace: bool) -> JsonObject:
    fields = {
        "date": dialect().parse_moment(row["period"]).date().isoformat(),
        "model": row["by_0"],
        "model_permaslug": row["by_1"],
        "endpoint_id": row["by_2"],
        "provider_name": row["by_3"],
    }
    if by_workspace:
        fields["workspace_id"] = str(UUID(str(row["by_4"])))
    for name, metric in _METRICS.items():
        value = int(row[metric])
        fields[name] = usd(value) if name in _MONEY else value
    return fields
