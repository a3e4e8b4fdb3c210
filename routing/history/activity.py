"""Usage of the last 30 days: by endpoint for GET /activity, in sum for the admin's pages."""

from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

from django.conf import settings

from accounts.models import ApiKey, Membership, Workspace
from accounts.ports import RecentUsage, UsageScope
from gateway.http.errors import NotFound
from gateway.http.jsonio import JsonObject, usd
from routing.history.analytics import deadline, fetch_rows
from routing.history.conditions import match_tags
from routing.history.dialect import dialect
from routing.history.metrics import METRICS
from routing.history.schemas import ACTIVITY_DAYS, Activity, ActivityQuery
from routing.history.spans import DAY, day_of
from routing.history.statement import QueryCondition, UsageQuery

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
# What the admin's pages say of recent use, and the columns that these belong to.
_RECENT_METRICS: Final = ("request_count", "tokens_total", "credits_usage")
_SCOPE_COLUMNS: Final = {"workspace": "workspace_id", "key": "api_key_id"}


def read_activity(account_id: UUID, query: ActivityQuery, now: datetime) -> list[JsonObject]:
    """The rows, newest day first, then most expensive first.

    Raises `NotFound` for a user or workspace of another account, and `TimedOut`.
    """
    conditions = _build_conditions(account_id, query)
    today = day_of(now)
    start, end = today - ACTIVITY_DAYS * DAY, today
    if query.date is not None:
        start = datetime(query.date.year, query.date.month, query.date.day, tzinfo=UTC)
        end = start + DAY
    groups = (*_GROUPS, "workspace_id") if query.group_by else _GROUPS
    usage_query = UsageQuery(
        account_id=account_id,
        start=start,
        end=end,
        metrics={metric: METRICS[metric] for metric in _METRICS.values()},
        groups=groups,
        time="day",
        conditions=conditions,
        order=(("period", True), ("credits_usage", True)),
        singles=query.tag is not None,
    )
    with deadline(settings.ANALYTICS_TIMEOUT):
        return [_serialize_row(row) for row in fetch_rows(usage_query, now)]


def _build_conditions(account_id: UUID, query: ActivityQuery) -> tuple[QueryCondition, ...]:
    sql_dialect, conditions = dialect(), []
    if query.workspace_id is not None:
        workspaces = Workspace.everything.filter(account_id=account_id, pk=query.workspace_id)
        if not workspaces.exists():
            raise NotFound
        value = sql_dialect.uuid(query.workspace_id)
        conditions.append(QueryCondition("workspace_id", "{column} = %s", (value,)))
    if query.tag is not None:
        conditions.append(match_tags([query.tag], sql_dialect))
    if query.user_id is not None:
        if "\x00" in query.user_id:
            raise NotFound
        # A member, or a former one who created keys.
        members = Membership.objects.filter(account_id=account_id, user__public_id=query.user_id)
        made_keys = ApiKey.objects.filter(account_id=account_id, creator__public_id=query.user_id)
        found = members.values_list("user_id").union(made_keys.values_list("creator_id"))
        ids = list(found[:1])
        if not ids:
            raise NotFound
        conditions.append(QueryCondition("user", "{column} = %s", (int(ids[0][0]),)))
    if query.api_key_hash is not None:
        keys = "SELECT id FROM accounts_apikey WHERE hash = %s AND account_id = %s"
        values = (query.api_key_hash, sql_dialect.uuid(account_id))
        conditions.append(QueryCondition("api_key_id", f"{{column}} IN ({keys})", values))
    return tuple(conditions)


def _serialize_row(row: JsonObject) -> JsonObject:
    computed: JsonObject = {name: int(row[metric]) for name, metric in _METRICS.items()}
    computed |= {name: usd(computed[name]) for name in _MONEY}
    if "by_4" in row:
        computed["workspace_id"] = str(UUID(str(row["by_4"])))
    return Activity.from_row(
        row,
        date=dialect().parse_moment(row["period"]).date().isoformat(),
        model=row["by_0"],
        model_permaslug=row["by_1"],
        endpoint_id=row["by_2"],
        provider_name=row["by_3"],
        **computed,
    )


def read_recent_usage(account_id: UUID, scope: UsageScope, pk: object) -> dict[str, RecentUsage]:
    """What was used today (UTC), and in the 30 days that end with it."""
    now = datetime.now(UTC)
    today = day_of(now)
    starts = {"Today (UTC)": today, "30 days": today - 29 * DAY}
    end = now + timedelta(seconds=1)
    conditions: tuple[QueryCondition, ...] = ()
    if scope != "account":
        value = dialect().uuid(pk) if isinstance(pk, UUID) else pk
        conditions = (QueryCondition(_SCOPE_COLUMNS[scope], "{column} = %s", (value,)),)
    usage: dict[str, RecentUsage] = {}
    for title, start in starts.items():
        query = UsageQuery(
            account_id=account_id,
            start=start,
            end=end,
            metrics={name: METRICS[name] for name in _RECENT_METRICS},
            conditions=conditions,
        )
        (row,) = fetch_rows(query, end)
        requests, tokens, charge_nano = (int(row[name]) for name in _RECENT_METRICS)
        usage[title] = RecentUsage(requests, tokens, charge_nano)
    return usage
