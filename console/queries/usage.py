"""What a view of an account used: sums of generations, as analytics has them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any, Final, NamedTuple, TypeVar
from uuid import UUID

from accounts.models import ApiKey, Workspace
from console.queries.sums import SumQuery, Sums, fetch_sums, fetch_sums_together
from console.scope import Scope
from gateway.ttl_cache import TtlCache
from routing.history.analytics import fetch_rows
from routing.history.metrics import METRICS, Metric
from routing.history.spans import DAY, HOUR, day_of, hour_of
from routing.history.statement import QueryCondition, UsageQuery

_SUM_NAMES: Final = ("credits_usage", "request_count", "tokens_prompt", "tokens_completion")
_SUMS: Final = tuple(METRICS[name] for name in _SUM_NAMES)
_FAILED: Final = Metric("Failed", "number", "count", ("failed",), "failed")
_SUMS_OF_TIME: Final = (*_SUMS, _FAILED, METRICS["refused_count"])
_LATENCY: Final = {
    "p50": METRICS["p50_latency"],
    "p95": METRICS["p50_latency"]._replace(label="Latency p95", percent=95),
}
# Percentiles look at every request of today and differ little after some minutes.
_LATENCY_AGE_MAX_S: Final = 300
_TAGS_AGE_MAX_S: Final = 30
TOP_ROWS: Final = 5
Id = TypeVar("Id", int, str, UUID)


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
    """Something that used much: its name, the value of its filter (empty: there is none), and what
    it used."""

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


class _TopTags(NamedTuple):
    """Which requests' tags. Callers choose those, so that only the database counts them all."""

    account_id: UUID
    conditions: tuple[QueryCondition, ...]
    start: datetime

    def read(self) -> tuple[TopRow, ...]:
        now = datetime.now(UTC)
        query = UsageQuery(
            self.account_id,
            self.start,
            now + timedelta(seconds=1),
            dict(zip(_SUM_NAMES, _SUMS, strict=True)),
            groups=("tag",),
            conditions=(*self.conditions, QueryCondition("tags", "{column} IS NOT NULL")),
            order=(("credits_usage", True), ("request_count", True), ("tag", False)),
            limit=TOP_ROWS,
            singles=True,
        )
        rows = fetch_rows(query, now)
        sums = [UsageSum(*(int(row[name]) for name in _SUM_NAMES)) for row in rows]
        names = [str(row["by_0"]) for row in rows]
        return tuple(TopRow(name, name, used) for name, used in zip(names, sums, strict=True))


top_tags: Final = TtlCache(_TopTags.read, age_max_s=_TAGS_AGE_MAX_S, size_max=1_000)
latencies: Final = TtlCache(_Latencies.read, age_max_s=_LATENCY_AGE_MAX_S, size_max=1_000)


def sum_by_day(scope: Scope, now: datetime, *, days: int) -> list[UsagePoint]:
    """The last `days` UTC days with today, the oldest first, empty ones too."""
    query = _build_query_of_days(scope, now, days)
    return _list_points(fetch_sums(query, now), query.start, now, DAY)


def sum_by_day_and_hour(
    scope: Scope, now: datetime, *, days: int, hours: int
) -> tuple[list[UsagePoint], list[UsagePoint]]:
    """The same, and likewise the last `hours` hours with this one."""
    of_days = _build_query_of_days(scope, now, days)
    start = hour_of(now) - (hours - 1) * HOUR
    by_day, by_hour = fetch_sums_together(
        [of_days, of_days._replace(start=start, time="hour")], now
    )
    return _list_points(by_day, of_days.start, now, DAY), _list_points(by_hour, start, now, HOUR)


def add_up(parts: Sequence[UsageSum]) -> UsageSum:
    return UsageSum(*map(sum, zip(*parts, strict=True))) if parts else UsageSum()


def read_latency(scope: Scope, start: datetime) -> Latency:
    """Of the view's requests since `start`, as it was within the last five minutes."""
    found = latencies.find(_Latencies(scope.account.pk, scope.conditions(), start))
    assert found is not None
    return found


@dataclass(frozen=True)
class UsageOfKeys:
    """What each key used in each workspace, as pairs of their ids; the account's workspaces by
    their names, as far as somebody may see them."""

    sums: Mapping[tuple[int, UUID], UsageSum]
    workspaces: Mapping[UUID, str]

    @cached_property
    def _keys(self) -> Mapping[int, ApiKey]:
        """With names and creators."""
        rows = ApiKey.objects.filter(pk__in={key for key, _ in self.sums})
        names = ("username", "first_name", "last_name", "public_id")
        rows = rows.select_related("creator")
        return rows.only("name", *(f"creator__{name}" for name in names)).in_bulk()

    def list_top_keys(self) -> list[TopRow]:
        found = self._sum_up(lambda key, _: key)
        names = {pk: key.name for pk, key in self._keys.items()}
        return [TopRow(names.get(pk, "deleted"), str(pk), used) for pk, used in found.items()]

    def list_top_people(self) -> list[TopRow]:
        """The creators of the keys; keys of nobody are one row without a name."""
        creators = {pk: key.creator for pk, key in self._keys.items() if key.creator}
        users = {user.pk: user for user in creators.values()}
        found = self._sum_up(lambda key, _: user.pk if (user := creators.get(key)) else 0)
        return [
            TopRow(user.get_full_name() or user.username, user.public_id, used)
            if (user := users.get(pk))
            else TopRow("Keys of nobody", "", used)
            for pk, used in found.items()
        ]

    def list_top_workspaces(self) -> list[TopRow]:
        found = self._sum_up(lambda _, workspace: workspace)
        names = dict(self.workspaces)
        if gone := found.keys() - names.keys():
            names |= Workspace.everything.filter(pk__in=gone).values_list("pk", "name")
        return [
            TopRow(names.get(pk, "deleted"), str(pk) if pk in self.workspaces else "", used)
            for pk, used in found.items()
        ]

    def _sum_up(self, find_group: Callable[[int, UUID], Id]) -> dict[Id, UsageSum]:
        groups: dict[Id, list[UsageSum]] = {}
        for (key, workspace), used in self.sums.items():
            groups.setdefault(find_group(key, workspace), []).append(used)
        return _find_top({group: add_up(parts) for group, parts in groups.items()})


def _find_top(sums: Mapping[Id, UsageSum]) -> dict[Id, UsageSum]:
    """The groups that cost most, the dearest first."""
    ordered = sorted(sums.items(), key=lambda each: (-each[1].spend_nano, -each[1].requests))
    return dict(ordered[:TOP_ROWS])


def list_top_models(scope: Scope, start: datetime, now: datetime) -> list[TopRow]:
    """The models that cost most, the dearest first, as in all lists here."""
    sums = fetch_sums(_build_query(scope, start, _SUMS, groups=("model",)), now)
    models = {str(model): UsageSum(*used) for (model,), used in sums.items()}
    return [TopRow(model, model, used) for model, used in _find_top(models).items()]


def sum_by_key(scope: Scope, start: datetime, now: datetime) -> UsageOfKeys:
    sums = fetch_sums(_build_query(scope, start, _SUMS, groups=("api_key_id", "workspace_id")), now)
    keys = {
        (int(key), UUID(str(workspace))): UsageSum(*used) for (key, workspace), used in sums.items()
    }
    return UsageOfKeys(keys, {each.pk: each.name for each in scope.workspaces})


class EndpointSum(NamedTuple):
    """What an endpoint's requests did, by its tag; money in nano-USD."""

    tag: str
    requests: int
    failed: int
    spend_nano: int


class ErrorSum(NamedTuple):
    """How many requests ended with an error, in a few words."""

    what: str
    requests: int


_REQUESTS: Final = METRICS["request_count"]
_BY_ENDPOINT: Final = (_REQUESTS, _FAILED, METRICS["credits_usage"])


def sum_by_endpoint(scope: Scope, start: datetime, now: datetime) -> list[EndpointSum]:
    """Of those that were asked. The same tag may be at several models."""
    found = fetch_sums(_build_query(scope, start, _BY_ENDPOINT, groups=("endpoint_tag",)), now)
    return [EndpointSum(tag, *sums) for (tag,), sums in found.items() if tag]


def list_errors_of_provider(scope: Scope, slug: str, now: datetime) -> list[ErrorSum]:
    """Of the last 24 full hours and this one by type, the most frequent first."""
    failed = QueryCondition("error_type", "{column} <> ''")
    # Its groups stand in no sums, so that every request of a day is looked at.
    query = SumQuery(
        scope.account.pk,
        hour_of(now) - DAY,
        (_REQUESTS,),
        ("endpoint_tag", "error_type"),
        conditions=(*scope.conditions(), failed),
        singles=True,
    )
    sums: dict[str, int] = {}
    for (tag, error_type), (count,) in fetch_sums(query, now).items():
        if str(tag or "").partition("/")[0] == slug:
            what = str(error_type).replace("_", " ")
            sums[what] = sums.get(what, 0) + count
    return [ErrorSum(what, n) for what, n in sorted(sums.items(), key=lambda each: -each[1])]


def list_top_tags(scope: Scope, now: datetime) -> list[TopRow]:
    """Of the last 24 full hours and this one, as `name=value`, as it was within half a minute. What
    has two tags counts in both."""
    name = _TopTags(scope.account.pk, scope.conditions(), hour_of(now) - DAY)
    return list(top_tags.find(name) or ())


def sum_spend_by(scope: Scope, start: datetime, now: datetime, column: str) -> dict[str, int]:
    """What each value of a column spent, in nano-USD; the values as text."""
    found = fetch_sums(
        _build_query(scope, start, (METRICS["credits_usage"],), groups=(column,)), now
    )
    ids = column == "workspace_id"
    return {str(UUID(str(value)) if ids else value): nano for (value,), (nano,) in found.items()}


def _build_query_of_days(scope: Scope, now: datetime, days: int) -> SumQuery:
    return _build_query(scope, day_of(now) - (days - 1) * DAY, _SUMS_OF_TIME, time="day")


def _list_points(sums: Sums, start: datetime, now: datetime, step: timedelta) -> list[UsagePoint]:
    found = {moment: UsageSum(*used) for (moment,), used in sums.items()}
    count = int((now - start) / step) + 1
    starts = [start + number * step for number in range(count)]
    return [UsagePoint(moment, found.get(moment, UsageSum())) for moment in starts]


def _build_query(
    scope: Scope, start: datetime, metrics: tuple[Metric, ...], **more: Any
) -> SumQuery:
    return SumQuery(scope.account.pk, start, metrics, conditions=scope.conditions(), **more)
