"""The body of POST /analytics/query and its checks."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import PydanticCustomError

from gateway.http.errors import SchemaInvalid
from gateway.http.validation import UNDEFINED, Issue, describe_options, list_issues, name_json_type
from routing.history.dialect import Granularity
from routing.history.metrics import ARRAY, DIMENSIONS, LONG_DAYS, METRICS, SCALAR

LIMIT_MAX: Final = 10_000
LIMIT_DEFAULT: Final = 1_000
RANGE_DEFAULT: Final = timedelta(days=7)
_VALUES_MAX: Final = 1_000
# Moments that the databases and their arithmetic can hold.
_YEARS: Final = range(1970, 9000)


def _instant(value: Any) -> datetime:
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


def _one_of(options: Iterable[str]) -> Any:
    """A type of one of these strings; another value is refused with the list of options."""
    known = tuple(options)

    def check(value: Any) -> str:
        if isinstance(value, str) and value in known:
            return value
        raise PydanticCustomError("option", "{text}", {"text": describe_options(known)})

    return BeforeValidator(check)


_Moment = Annotated[datetime, BeforeValidator(_instant)]
_Metric = Annotated[str, _one_of(METRICS)]
_Dimension = Annotated[str, _one_of(DIMENSIONS)]
_Operator = Annotated[str, _one_of([*SCALAR, *ARRAY])]
_Rows = Annotated[int, Field(ge=1, le=LIMIT_MAX)]


class TimeRange(BaseModel):
    model_config = ConfigDict(strict=True, validate_default=True)

    start: _Moment = UNDEFINED  # type: ignore[assignment]  # A missing value gets the message of a wrong one.
    end: _Moment = UNDEFINED  # type: ignore[assignment]  # A missing value gets the message of a wrong one.


class Filter(BaseModel):
    model_config = ConfigDict(strict=True, validate_default=True)

    field: _Dimension = UNDEFINED  # type: ignore[assignment]  # A missing value gets the message of a wrong one.
    operator: _Operator = UNDEFINED  # type: ignore[assignment]  # A missing value gets the message of a wrong one.
    value: Any = UNDEFINED
    include_unset: bool = False


class OrderBy(BaseModel):
    model_config = ConfigDict(strict=True, validate_default=True)

    field: str = UNDEFINED  # type: ignore[assignment]  # A missing value gets the message of a wrong one.
    direction: Literal["asc", "desc"] = "desc"


class AnalyticsBody(BaseModel):
    """The query of a caller; unknown fields are ignored."""

    model_config = ConfigDict(strict=True, validate_default=True)

    metrics: Annotated[list[_Metric], Field(min_length=1)] = UNDEFINED  # type: ignore[assignment]  # A missing value gets the message of a wrong one.
    dimensions: Annotated[list[_Dimension], Field(max_length=2)] = []
    granularity: Granularity | None = None
    time_range: TimeRange | None = None
    filters: Annotated[list[Filter], Field(max_length=20)] = []
    order_by: OrderBy | None = None
    limit: _Rows = LIMIT_DEFAULT
    group_limit: _Rows | None = None
    classifier_dimensions: Any = None
    classifier_filters: Any = None

    @property
    def time_field(self) -> str | None:
        """The row's key for the period, where it has one."""
        return f"date__{self.granularity}" if self.granularity else None

    def span(self, now: datetime) -> tuple[datetime, datetime]:
        if self.time_range is None:
            return now - RANGE_DEFAULT, now
        return self.time_range.start, self.time_range.end


def read_analytics_body(body: Mapping[str, Any], now: datetime) -> AnalyticsBody:
    """Check the body; repeated names count once. Raises `SchemaInvalid`."""
    try:
        checked = AnalyticsBody.model_validate(body)
    except ValidationError as error:
        raise SchemaInvalid(list_issues(error)) from None
    checked.metrics = list(dict.fromkeys(checked.metrics))
    checked.dimensions = list(dict.fromkeys(checked.dimensions))
    issues = [*_range_issues(checked, now), *_filter_issues(checked), *_order_issues(checked)]
    issues += _classifier_issues(checked)
    if issues:
        raise SchemaInvalid(issues)
    return checked


def _range_issues(body: AnalyticsBody, now: datetime) -> list[Issue]:
    start, end = body.span(now)
    if start >= end:
        return [Issue("time_range", "Invalid input: expected start before end")]
    for name, days_max in _bounds(body):
        if end - start > timedelta(days=days_max):
            what = f" for {name}" if name else ""
            text = f"Too big: expected range to have <={days_max} days{what}"
            return [Issue("time_range", text)]
    return []


def _bounds(body: AnalyticsBody) -> Iterable[tuple[str, int]]:
    """The longest time in days for each name of the query, the most generous first."""
    yield "", LONG_DAYS
    for name in body.metrics:
        yield name, METRICS[name].days_max
    for name in (*body.dimensions, *(each.field for each in body.filters)):
        yield name, DIMENSIONS[name].days_max


def _filter_issues(body: AnalyticsBody) -> list[Issue]:
    return [
        Issue(f"filters.{index}.value", text)
        for index, each in enumerate(body.filters)
        if (text := _value_problem(each))
    ]


def _value_problem(query_filter: Filter) -> str:
    """What is wrong with the type of a filter's value; `build_conditions` checks what it names."""
    value = query_filter.value
    if query_filter.operator in SCALAR:
        return "" if _is_scalar(value) else _expected("string", value)
    if not isinstance(value, list):
        return _expected("array", value)
    if not 1 <= len(value) <= _VALUES_MAX:
        side, sign, bound = ("small", ">=", 1) if not value else ("big", "<=", _VALUES_MAX)
        return f"Too {side}: expected array to have {sign}{bound} items"
    return next((_expected("string", each) for each in value if not _is_scalar(each)), "")


def _is_scalar(value: Any) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool)


def _expected(kind: str, value: Any) -> str:
    return f"Invalid input: expected {kind}, received {name_json_type(value)}"


def _order_issues(body: AnalyticsBody) -> list[Issue]:
    if body.order_by is None:
        return []
    known = [*body.metrics, *body.dimensions]
    if body.time_field:
        known.append(body.time_field)
    if body.order_by.field in known:
        return []
    return [Issue("order_by.field", describe_options(known))]


def _classifier_issues(body: AnalyticsBody) -> list[Issue]:
    names = ("classifier_dimensions", "classifier_filters")
    given_names = [name for name in names if getattr(body, name) is not None]
    return [Issue(name, "Invalid input: classifiers are not offered") for name in given_names]
