"""Analytics and activity: the fields of queries and answers, and their checks."""

import re
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, ConfigDict, Field, ValidationInfo, WithJsonSchema
from pydantic.json_schema import SkipJsonSchema
from pydantic_core import PydanticCustomError

from accounts.views.schemas.fields import Id, UsdAmount
from gateway.http.errors import SchemaInvalid
from gateway.http.resources import ABSENT, Body, OpenObject, Query, ResourceObject, one_of
from gateway.http.validation import Issue, describe_options, describe_wrong_type
from routing.history.dialect import Granularity
from routing.history.metrics import ARRAY, DIMENSIONS, LONG_DAYS, METRICS, SCALAR, Display
from routing.history.spans import day_of

LIMIT_MAX: Final = 10_000
RANGE_DEFAULT: Final = timedelta(days=7)
ACTIVITY_DAYS: Final = 30
_VALUES_MAX: Final = 1_000
# Moments that the databases and their arithmetic can hold.
_YEARS: Final = range(1970, 9000)
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}")


def _parse_moment(value: object) -> datetime:
    """ISO 8601 with a zone."""
    wrong = PydanticCustomError("iso_datetime", "Invalid ISO datetime")
    if not isinstance(value, str):
        raise PydanticCustomError("wrong_kind", "Wrong kind", {"expected": "string"})
    try:
        moment = datetime.fromisoformat(value)
        if moment.tzinfo is None:
            raise wrong
        moment = moment.astimezone(UTC)
    except (ValueError, OverflowError):
        raise wrong from None
    if moment.year not in _YEARS:
        raise wrong
    return moment


Moment = Annotated[datetime, BeforeValidator(_parse_moment)]
_Metric = Annotated[str, one_of(METRICS)]
_Dimension = Annotated[str, one_of(DIMENSIONS)]
_Rows = Annotated[int, Field(ge=1, le=LIMIT_MAX)]
_SCALAR_VALUE: Final = {"type": ["string", "number"]}
# Which of the two depends on the operator.
_Value = Annotated[
    Any,
    WithJsonSchema(
        {"anyOf": [_SCALAR_VALUE, {"type": "array", "items": _SCALAR_VALUE, "minItems": 1}]}
    ),
]


class AnalyticsTimeRange(Body):
    start: Moment
    end: Moment


class AnalyticsFilter(Body):
    field: _Dimension
    operator: Annotated[str, one_of([*SCALAR, *ARRAY])]
    value: _Value
    include_unset: bool = False


class AnalyticsOrder(Body):
    field: str
    direction: Literal["asc", "desc"] = "desc"


class AnalyticsBody(Body):
    """The query of a caller; unknown fields are ignored."""

    model_config = ConfigDict(title="AnalyticsQuery")

    metrics: Annotated[list[_Metric], Field(min_length=1)]
    dimensions: Annotated[list[_Dimension], Field(max_length=2)] = []
    granularity: Granularity | None = None
    time_range: AnalyticsTimeRange | None = None
    filters: Annotated[list[AnalyticsFilter], Field(max_length=20)] = []
    order_by: AnalyticsOrder | None = None
    limit: _Rows = 1_000
    group_limit: _Rows | None = None
    classifier_dimensions: SkipJsonSchema[Any] = None
    classifier_filters: SkipJsonSchema[Any] = None

    @property
    def time_field(self) -> str | None:
        """The row's key for the period, where it has one."""
        return f"date__{self.granularity}" if self.granularity else None

    def span(self, now: datetime) -> tuple[datetime, datetime]:
        if self.time_range is None:
            return now - RANGE_DEFAULT, now
        return self.time_range.start, self.time_range.end


class AnalyticsMetadata(ResourceObject):
    query_time_ms: int
    row_count: int
    truncated: bool = Field(description="Whether `limit` cut rows off.")


class AnalyticsResult(ResourceObject):
    data: list[OpenObject]
    metadata: AnalyticsMetadata


class AnalyticsMetric(ResourceObject):
    name: str
    display_label: str
    is_rate: bool
    display_format: Display


class AnalyticsDimension(ResourceObject):
    name: str
    display_label: str


class AnalyticsOperator(ResourceObject):
    name: str
    value_type: Literal["scalar", "array"]


class AnalyticsGranularity(ResourceObject):
    name: str
    display_label: str


class AnalyticsMeta(ResourceObject):
    metrics: list[AnalyticsMetric]
    dimensions: list[AnalyticsDimension]
    operators: list[AnalyticsOperator]
    granularities: list[AnalyticsGranularity]


def _parse_day(text: str, info: ValidationInfo) -> date:
    """A day that lies within those of activity, counted from `now` of the context."""
    try:
        day = date.fromisoformat(text) if _DATE.fullmatch(text) else None
    except ValueError:
        day = None
    if day is None:
        raise PydanticCustomError("iso_date", "Invalid ISO date")
    now: datetime = (info.context or {})["now"]
    today = day_of(now).date()
    if not today - timedelta(days=ACTIVITY_DAYS) <= day < today:
        raise PydanticCustomError(
            "other_day",
            "Invalid input: expected one of the last {days} completed UTC days",
            {"days": ACTIVITY_DAYS},
        )
    return day


_Day = Annotated[date, BeforeValidator(_parse_day)]


class ActivityQuery(Query):
    """Which usage GET /activity is asked for."""

    date: _Day | None = None
    api_key_hash: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = None
    user_id: str | None = Field(None, description="Whoever made the keys.")
    workspace_id: Id | None = None
    tag: Annotated[str, Field(pattern=r"^[^=\x00]+=[^\x00]*$")] | None = Field(
        None, description="Only requests with this tag, as `name=value`."
    )
    group_by: Annotated[str, one_of(["workspace"])] | None = None


class Activity(ResourceObject):
    """Usage of an endpoint on a day."""

    date: _Day
    model: str
    model_permaslug: str
    endpoint_id: str
    provider_name: str
    requests: int
    prompt_tokens: int
    completion_tokens: int
    reasoning_tokens: int
    usage: UsdAmount = Field(description="USD of credits.")
    byok_usage_inference: UsdAmount = Field(description="USD that BYOK calls would have cost.")
    workspace_id: str = Field(ABSENT, json_schema_extra={"format": "uuid"})


def read_analytics_body(body: Mapping[str, Any], now: datetime) -> AnalyticsBody:
    """Check the body; repeated names count once. Raises `SchemaInvalid`."""
    checked = AnalyticsBody.read(body)
    checked.metrics = list(dict.fromkeys(checked.metrics))
    checked.dimensions = list(dict.fromkeys(checked.dimensions))
    issues = _list_range_issues(checked, now)
    issues += [
        Issue(f"filters.{index}.value", text)
        for index, each in enumerate(checked.filters)
        if (text := _describe_wrong_value(each))
    ]
    if checked.order_by is not None:
        fields = [*checked.metrics, *checked.dimensions]
        fields += [checked.time_field] if checked.time_field else []
        if checked.order_by.field not in fields:
            issues.append(Issue("order_by.field", describe_options(fields)))
    issues += [
        Issue(name, "Invalid input: classifiers are not offered")
        for name in ("classifier_dimensions", "classifier_filters")
        if getattr(checked, name) is not None
    ]
    if issues:
        raise SchemaInvalid(issues)
    return checked


def _list_range_issues(body: AnalyticsBody, now: datetime) -> list[Issue]:
    start, end = body.span(now)
    if start >= end:
        return [Issue("time_range", "Invalid input: expected start before end")]
    # The most generous bound first, then those of what the query names.
    dimensions = (*body.dimensions, *(each.field for each in body.filters))
    bounds = [
        ("", LONG_DAYS),
        *((name, METRICS[name].days_max) for name in body.metrics),
        *((name, DIMENSIONS[name].days_max) for name in dimensions),
    ]
    for name, days_max in bounds:
        if end - start > timedelta(days=days_max):
            what = f" for {name}" if name else ""
            text = f"Too big: expected range to have <={days_max} days{what}"
            return [Issue("time_range", text)]
    return []


def _describe_wrong_value(query_filter: AnalyticsFilter) -> str:
    """What is wrong with the type of a filter's value; `build_conditions` checks what it names."""
    value = query_filter.value
    if query_filter.operator in SCALAR:
        return "" if _is_scalar(value) else describe_wrong_type("string", value)
    if not isinstance(value, list):
        return describe_wrong_type("array", value)
    if not 1 <= len(value) <= _VALUES_MAX:
        side, sign, bound = ("small", ">=", 1) if not value else ("big", "<=", _VALUES_MAX)
        return f"Too {side}: expected array to have {sign}{bound} items"
    return next((describe_wrong_type("string", each) for each in value if not _is_scalar(each)), "")


def _is_scalar(value: object) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool)
