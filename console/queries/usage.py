"""What a view of an account used: sums of generations, as analytics has them."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple
from uuid import UUID

from accounts.models import ApiKey, User, Workspace
from console.scope import Scope
from routing.history.analytics import fetch_rows
from routing.history.dialect import Granularity, dialect
from routing.history.metrics import METRICS, Metric
from routing.history.spans import DAY, HOUR, day_of, hour_of
from routing.history.statement import UsageQuery

_SUMS: Final = {
    name: METRICS[name]
    for name in ("credits_usage", "request_count", "tokens_prompt", "tokens_completion")
}
_QUALITY: Final = {
    "error_rate": METRICS["error_rate"],
    "p50": METRICS["p50_latency"],
    "p95": METRICS["p50_latency"]._replace(label="Latency p95", percent=95),
}
TOP_ROWS: Final = 5


class UsageSum(NamedTuple):
    """What was used in some time; money in nano-USD."""

    spend_nano: int = 0
    requests: int = 0
    tokens_prompt: int = 0
    tokens_completion: int = 0

    @property
    def tokens(self) -> int:
        return self.tokens_prompt + self.tokens_completion


class UsagePoint(NamedTuple):
    """A period of a chart, by its first moment."""

    start: datetime
    used: UsageSum


class TopRow(NamedTuple):
    """Something that used much: its name, the value of its filter, and what it used."""

    name: str
    value: str
    used: UsageSum


class Quality(NamedTuple):
    """The share of requests that failed or were refused, and milliseconds to the first token; None
    where nothing was asked or answered."""

    error_rate: float | None
    p50_ms: float | None
    p95_ms: float | None


def sum_by_day(scope: Scope, now: datetime, *, days: int) -> list[UsagePoint]:
    """The last `days` UTC days with today, the oldest first, empty ones too."""
    start = day_of(now) - (days - 1) * DAY
    return _sum_by(scope, start, now, "day", DAY)


def sum_by_hour(scope: Scope, now: datetime, *, hours: int) -> list[UsagePoint]:
    """The last `hours` hours with this one, the oldest first, empty ones too."""
    start = hour_of(now) - (hours - 1) * HOUR
    return _sum_by(scope, start, now, "hour", HOUR)


def add_up(points: Sequence[UsagePoint]) -> UsageSum:
    """The sum of some periods."""
    columns = zip(*(point.used for point in points), strict=True)
    return UsageSum(*(sum(column) for column in columns)) if points else UsageSum()


def read_quality(scope: Scope, start: datetime, now: datetime) -> Quality:
    (row,) = fetch_rows(_build_query(scope, start, now, _QUALITY), now)
    return Quality(*(None if row[name] is None else float(row[name]) for name in _QUALITY))


def list_top_models(scope: Scope, start: datetime, now: datetime) -> list[TopRow]:
    """Those that cost most, the dearest first, as in all lists here."""
    return [
        TopRow(row["by_0"], row["by_0"], _read(row)) for row in _top(scope, start, now, "model")
    ]


def list_top_keys(scope: Scope, start: datetime, now: datetime) -> list[TopRow]:
    rows = _top(scope, start, now, "api_key_id")
    names = dict(ApiKey.objects.filter(pk__in=[r["by_0"] for r in rows]).values_list("pk", "name"))
    return [TopRow(names.get(r["by_0"], "deleted"), str(r["by_0"]), _read(r)) for r in rows]


def list_top_people(scope: Scope, start: datetime, now: datetime) -> list[TopRow]:
    """The creators of the keys that were used; keys of nobody are one row without a name."""
    rows = _top(scope, start, now, "user")
    users = User.objects.filter(pk__in=[row["by_0"] for row in rows])
    names = {user.pk: user.get_full_name() or user.username for user in users}
    return [TopRow(names.get(r["by_0"], "Keys of nobody"), str(r["by_0"]), _read(r)) for r in rows]


def list_top_workspaces(scope: Scope, start: datetime, now: datetime) -> list[TopRow]:
    rows = _top(scope, start, now, "workspace_id")
    ids = [UUID(str(row["by_0"])) for row in rows]
    names = dict(Workspace.everything.filter(pk__in=ids).values_list("pk", "name"))
    return [
        TopRow(names.get(pk, "deleted"), str(pk), _read(row))
        for pk, row in zip(ids, rows, strict=True)
    ]


class EndpointSum(NamedTuple):
    """What an endpoint's requests did, by its tag; money in nano-USD."""

    tag: str
    requests: int
    failed: float
    spend_nano: int


class ErrorSum(NamedTuple):
    """How many requests ended with an error, in a few words."""

    what: str
    requests: int


_BY_ENDPOINT: Final = {
    name: METRICS[name] for name in ("request_count", "error_rate", "credits_usage")
}


def sum_by_endpoint(scope: Scope, start: datetime, now: datetime) -> list[EndpointSum]:
    """Of those that were asked. The same tag may be at several models."""
    query = _build_query(scope, start, now, _BY_ENDPOINT, groups=("endpoint_tag",))
    found = []
    for row in fetch_rows(query, now):
        if row["by_0"]:
            requests = int(row["request_count"])
            failed = requests * float(row["error_rate"] or 0)
            found.append(EndpointSum(row["by_0"], requests, failed, int(row["credits_usage"])))
    return found


def list_errors_of_provider(scope: Scope, slug: str, now: datetime) -> list[ErrorSum]:
    """Of the last 24 hours by type, the most frequent first: types stand in no sums, so that every
    request is looked at."""
    metrics = {"request_count": METRICS["request_count"]}
    groups = ("endpoint_tag", "error_type")
    query = _build_query(scope, now - DAY, now, metrics, groups=groups, singles=True)
    sums: dict[str, int] = {}
    for row in fetch_rows(query, now):
        is_of_provider = str(row["by_0"] or "").partition("/")[0] == slug
        if is_of_provider and row["by_1"]:
            what = str(row["by_1"]).replace("_", " ")
            sums[what] = sums.get(what, 0) + int(row["request_count"])
    return [ErrorSum(what, n) for what, n in sorted(sums.items(), key=lambda each: -each[1])]


def sum_spend_by(scope: Scope, start: datetime, now: datetime, column: str) -> dict[str, int]:
    """What each value of a column spent, in nano-USD; the values as text."""
    metrics = {"credits_usage": METRICS["credits_usage"]}
    rows = fetch_rows(_build_query(scope, start, now, metrics, groups=(column,)), now)
    ids = column == "workspace_id"
    return {str(UUID(str(r["by_0"])) if ids else r["by_0"]): int(r["credits_usage"]) for r in rows}


def _top(scope: Scope, start: datetime, now: datetime, column: str) -> list[dict[str, Any]]:
    query = _build_query(
        scope,
        start,
        now,
        _SUMS,
        groups=(column,),
        order=(("credits_usage", True), ("request_count", True)),
        limit=TOP_ROWS,
    )
    return fetch_rows(query, now)


def _sum_by(
    scope: Scope, start: datetime, now: datetime, time: Granularity, step: timedelta
) -> list[UsagePoint]:
    rows = fetch_rows(_build_query(scope, start, now, _SUMS, time=time), now)
    found = {dialect().parse_moment(row["period"]): _read(row) for row in rows}
    count = int((now - start) / step) + 1
    starts = [start + number * step for number in range(count)]
    return [UsagePoint(moment, found.get(moment, UsageSum())) for moment in starts]


def _build_query(
    scope: Scope, start: datetime, now: datetime, metrics: Mapping[str, Metric], **more: Any
) -> UsageQuery:
    return UsageQuery(
        account_id=scope.account.pk,
        start=start,
        # What ends at this very moment counts as well.
        end=now + timedelta(seconds=1),
        metrics=metrics,
        conditions=scope.conditions(),
        **more,
    )


def _read(row: Mapping[str, Any]) -> UsageSum:
    return UsageSum(*(int(row[name]) for name in _SUMS))
