"""What a view of an account used: sums of generations, as analytics has them."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple, TypeVar
from uuid import UUID

from accounts.models import ApiKey, User, Workspace
from console.scope import Scope
from gateway.ttl_cache import TtlCache
from routing.history.analytics import fetch_rows
from routing.history.dialect import Granularity, dialect
from routing.history.metrics import METRICS, Metric
from routing.history.spans import DAY, HOUR, day_of, hour_of
from routing.history.statement import QueryCondition, UsageQuery

_SUMS: Final = {
    name: METRICS[name]
    for name in ("credits_usage", "request_count", "tokens_prompt", "tokens_completion")
}
_SUMS_OF_TIME: Final = _SUMS | {
    "failed": Metric("Failed", "number", "count", ("failed",), "failed"),
    "refused": METRICS["refused_count"],
}
_LATENCY: Final = {
    "p50": METRICS["p50_latency"],
    "p95": METRICS["p50_latency"]._replace(label="Latency p95", percent=95),
}
# Percentiles look at every request of today and differ little after half a minute.
_LATENCY_AGE_MAX_S: Final = 30
TOP_ROWS: Final = 5
Id = TypeVar("Id", int, UUID)


class UsageSum(NamedTuple):
    """What was used in some time; money in nano-USD. `refused` requests are in no other figure."""

    spend_nano: int = 0
    requests: int = 0
    tokens_prompt: int = 0
    tokens_completion: int = 0
    failed: int = 0
    refused: int = 0

    @property
    def error_percent(self) -> float | None:
        """Of all requests, how many failed or were refused; None where there are none."""
        asked = self.requests + self.refused
        return 100 * (self.failed + self.refused) / asked if asked else None

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


class Latency(NamedTuple):
    """Milliseconds to the first token; None where nothing was answered."""

    p50_ms: float | None
    p95_ms: float | None


class _Latencies(NamedTuple):
    """Which requests' latencies."""

    account_id: UUID
    conditions: tuple[QueryCondition, ...]
    start: datetime

    def read(self) -> Latency:
        now = datetime.now(UTC)
        end = now + timedelta(seconds=1)
        query = UsageQuery(self.account_id, self.start, end, _LATENCY, conditions=self.conditions)
        (row,) = fetch_rows(query, now)
        return Latency(*(None if row[name] is None else float(row[name]) for name in _LATENCY))


_latencies: Final = TtlCache(_Latencies.read, age_max_s=_LATENCY_AGE_MAX_S, size_max=1_000)


def sum_by_day(scope: Scope, now: datetime, *, days: int) -> list[UsagePoint]:
    """The last `days` UTC days with today, the oldest first, empty ones too."""
    start = day_of(now) - (days - 1) * DAY
    return _sum_by(scope, start, now, "day", DAY)


def sum_by_hour(scope: Scope, now: datetime, *, hours: int) -> list[UsagePoint]:
    """The last `hours` hours with this one, the oldest first, empty ones too."""
    start = hour_of(now) - (hours - 1) * HOUR
    return _sum_by(scope, start, now, "hour", HOUR)


def add_up(parts: Sequence[UsageSum]) -> UsageSum:
    return UsageSum(*map(sum, zip(*parts, strict=True))) if parts else UsageSum()


def read_latency(scope: Scope, start: datetime) -> Latency:
    """Of the view's requests since `start`, as it was within the last half minute."""
    found = _latencies.find(_Latencies(scope.account.pk, scope.conditions(), start))
    assert found is not None
    return found


def list_top_models(scope: Scope, start: datetime, now: datetime) -> list[TopRow]:
    """Those that cost most, the dearest first, as in all lists here."""
    query = _build_query(
        scope,
        start,
        now,
        _SUMS,
        groups=("model",),
        order=(("credits_usage", True), ("request_count", True)),
        limit=TOP_ROWS,
    )
    return [TopRow(row["by_0"], row["by_0"], _read(row)) for row in fetch_rows(query, now)]


class UsageOfKeys(NamedTuple):
    """What each key used in each workspace, as pairs of their ids."""

    sums: Mapping[tuple[int, UUID], UsageSum]

    def list_top_keys(self) -> list[TopRow]:
        found = self._sum_up(lambda key, _: key)
        names = dict(ApiKey.objects.filter(pk__in=found).values_list("pk", "name"))
        return [TopRow(names.get(pk, "deleted"), str(pk), used) for pk, used in found.items()]

    def list_top_people(self) -> list[TopRow]:
        """The creators of the keys; keys of nobody are one row without a name."""
        keys = ApiKey.objects.filter(pk__in={key for key, _ in self.sums})
        creators = dict(keys.values_list("pk", "creator_id"))
        found = self._sum_up(lambda key, _: creators.get(key) or 0)
        users = User.objects.filter(pk__in=found)
        names = {user.pk: user.get_full_name() or user.username for user in users}
        return [
            TopRow(names.get(pk, "Keys of nobody"), str(pk), used) for pk, used in found.items()
        ]

    def list_top_workspaces(self) -> list[TopRow]:
        found = self._sum_up(lambda _, workspace: workspace)
        names = dict(Workspace.everything.filter(pk__in=found).values_list("pk", "name"))
        return [TopRow(names.get(pk, "deleted"), str(pk), used) for pk, used in found.items()]

    def _sum_up(self, find_group: Callable[[int, UUID], Id]) -> dict[Id, UsageSum]:
        """The groups that cost most, the dearest first."""
        groups: dict[Id, list[UsageSum]] = {}
        for (key, workspace), used in self.sums.items():
            groups.setdefault(find_group(key, workspace), []).append(used)
        sums = ((group, add_up(parts)) for group, parts in groups.items())
        return dict(
            sorted(sums, key=lambda each: (-each[1].spend_nano, -each[1].requests))[:TOP_ROWS]
        )


def sum_by_key(scope: Scope, start: datetime, now: datetime) -> UsageOfKeys:
    query = _build_query(scope, start, now, _SUMS, groups=("api_key_id", "workspace_id"))
    rows = fetch_rows(query, now)
    return UsageOfKeys({(int(r["by_0"]), UUID(str(r["by_1"]))): _read(r) for r in rows})


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
    failed = (*scope.conditions(), QueryCondition("error_type", "{column} <> ''"))
    query = UsageQuery(
        account_id=scope.account.pk,
        start=now - DAY,
        end=now + timedelta(seconds=1),
        metrics=metrics,
        groups=("endpoint_tag", "error_type"),
        conditions=failed,
        singles=True,
    )
    sums: dict[str, int] = {}
    for row in fetch_rows(query, now):
        is_of_provider = str(row["by_0"] or "").partition("/")[0] == slug
        if is_of_provider:
            what = str(row["by_1"]).replace("_", " ")
            sums[what] = sums.get(what, 0) + int(row["request_count"])
    return [ErrorSum(what, n) for what, n in sorted(sums.items(), key=lambda each: -each[1])]


def sum_spend_by(scope: Scope, start: datetime, now: datetime, column: str) -> dict[str, int]:
    """What each value of a column spent, in nano-USD; the values as text."""
    metrics = {"credits_usage": METRICS["credits_usage"]}
    rows = fetch_rows(_build_query(scope, start, now, metrics, groups=(column,)), now)
    ids = column == "workspace_id"
    return {str(UUID(str(r["by_0"])) if ids else r["by_0"]): int(r["credits_usage"]) for r in rows}


def _sum_by(
    scope: Scope, start: datetime, now: datetime, time: Granularity, step: timedelta
) -> list[UsagePoint]:
    rows = fetch_rows(_build_query(scope, start, now, _SUMS_OF_TIME, time=time), now)
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
    return UsageSum(*(int(row[name]) for name in _SUMS_OF_TIME if name in row))
