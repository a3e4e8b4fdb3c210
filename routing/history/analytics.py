"""Answering an analytics query."""

import time
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final, NamedTuple
from uuid import UUID

from django.conf import settings

from accounts.models import ApiKey, User, Workspace
from gateway.database.replica import reading_connection
from gateway.http.jsonio import JsonObject, format_time, usd
from routing.history.conditions import build_conditions
from routing.history.deadline import deadline
from routing.history.dialect import GRANULARITIES, Dialect, dialect
from routing.history.metrics import ARRAY, DIMENSIONS, METRICS, SCALAR, Kind
from routing.history.rollup import read_rollup_state
from routing.history.schemas import (
    AnalyticsBody,
    AnalyticsDimension,
    AnalyticsGranularity,
    AnalyticsMeta,
    AnalyticsMetric,
    AnalyticsOperator,
)
from routing.history.spans import RollupState
from routing.history.statement import Statement, UsageQuery

_Row = JsonObject


class AnalyticsAnswer(NamedTuple):
    """The rows of the response, and whether there are more."""

    rows: list[_Row]
    truncated: bool
    query_time_ms: int


def answer_query(account_id: UUID, body: AnalyticsBody, now: datetime) -> AnalyticsAnswer:
    """Query the account's rows. Raises `SchemaInvalid` for unusable filters, and `TimedOut`."""
    started = time.monotonic()
    query = build_query(account_id, body, now)
    with deadline(settings.ANALYTICS_TIMEOUT):
        db_rows = fetch_rows(query, now)
        labels = {
            name: _LABELS[name]({row[f"by_{number}"] for row in db_rows})
            for number, name in enumerate(body.dimensions)
            if name in _LABELS
        }
        sql_dialect = dialect()
        rows = [_serialize_row(row, body, labels, sql_dialect) for row in db_rows]
    total = db_rows[0]["rows_found"] if db_rows else 0
    query_time_ms = round((time.monotonic() - started) * 1000)
    return AnalyticsAnswer(rows, total > len(rows), query_time_ms)


def fetch_rows(query: UsageQuery, now: datetime, rolled: RollupState | None = None) -> list[_Row]:
    """Fetch the rows of a query, with the columns of `Statement.names`, in two statements; in one
    where the state of the roll-up was read before."""
    with reading_connection() as database:
        statement = Statement(query, rolled or read_rollup_state(now), dialect())
        sql, values = statement.text()
        names = [*statement.names, "rows_found"]
        with database.cursor() as cursor:
            cursor.execute(sql, values)
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def build_query(account_id: UUID, body: AnalyticsBody, now: datetime) -> UsageQuery:
    """Turn the body into a query of the database. Raises `SchemaInvalid`."""
    start, end = body.span(now)
    dimensions = [DIMENSIONS[name] for name in body.dimensions]
    named = [*dimensions, *(DIMENSIONS[each.field] for each in body.filters)]
    return UsageQuery(
        account_id=account_id,
        start=start,
        end=end,
        metrics={name: METRICS[name] for name in body.metrics},
        groups=tuple(dimension.column for dimension in dimensions),
        time=body.granularity,
        conditions=build_conditions(body.filters, account_id, dialect()),
        order=_find_order(body),
        limit=body.limit,
        group_limit=body.group_limit,
        fair=bool(body.granularity and dimensions),
        titles="app" in body.dimensions,
        singles=any(dimension.is_single for dimension in named),
    )


def _find_order(body: AnalyticsBody) -> tuple[tuple[str, bool], ...]:
    """By default the newest period first, else the largest value of the first metric."""
    if body.order_by is None:
        return ((("period" if body.granularity else body.metrics[0]), True),)
    field, down = body.order_by.field, body.order_by.direction == "desc"
    if field in METRICS:
        return ((field, down),)
    return (("period" if field == body.time_field else DIMENSIONS[field].column, down),)


# --- Rows of the response ---------------------------------------------------------------------


def _serialize_row(
    row: _Row, body: AnalyticsBody, labels: Mapping[str, Mapping[Any, _Row]], sql_dialect: Dialect
) -> _Row:
    fields: _Row = {}
    if body.time_field:
        fields[body.time_field] = format_time(sql_dialect.parse_moment(row["period"]))
    for number, name in enumerate(body.dimensions):
        value = row[f"by_{number}"]
        if name in labels:
            fields |= labels[name][value]
        elif name == "app":
            fields |= {"app": row["title"] or value or None, "app_id": value or None}
        else:
            fields[name] = value or None
    return fields | {name: serialize_value(METRICS[name].kind, row[name]) for name in body.metrics}


def serialize_value(kind: Kind, value: Any) -> Any:
    """A metric in the unit of the response; null where nothing was measured."""
    if value is None:
        return None
    match kind:
        case "count":
            return int(value)
        case "nano":
            return usd(int(value))
        case "dtps":
            return round(float(value) / 10, 3)
        case "ms":
            return round(float(value), 3)
        case "share":
            return float(value)


def _label_keys(ids: set[Any]) -> dict[Any, _Row]:
    rows = ApiKey.objects.filter(pk__in=ids).values_list("pk", "name", "hash")
    return {pk: {"api_key_id": name, "api_key_hash": key_hash} for pk, name, key_hash in rows}


def _label_workspaces(ids: set[Any]) -> dict[Any, _Row]:
    by_id = {value if isinstance(value, UUID) else UUID(value): value for value in ids}
    names = Workspace.everything.filter(pk__in=by_id).values_list("pk", "name")
    return {by_id[pk]: {"workspace": name, "workspace_id": str(pk)} for pk, name in names}


def _label_users(ids: set[Any]) -> dict[Any, _Row]:
    rows = User.objects.filter(pk__in=ids).values_list("pk", "public_id", "email")
    nobody: _Row = {"user": None, "user_email": None}
    known = {pk: {"user": public_id, "user_email": email or None} for pk, public_id, email in rows}
    return {0: nobody} | known


_LABELS: Final[Mapping[str, Callable[[set[Any]], dict[Any, _Row]]]] = {
    "api_key_id": _label_keys,
    "workspace": _label_workspaces,
    "user": _label_users,
}


# --- GET /analytics/meta ----------------------------------------------------------------------

META: Final = AnalyticsMeta.from_row(
    None,
    metrics=[
        AnalyticsMetric.from_row(
            metric, name=name, display_label=metric.label, display_format=metric.display
        )
        for name, metric in METRICS.items()
    ],
    dimensions=[
        AnalyticsDimension.from_row(dimension, name=name, display_label=dimension.label)
        for name, dimension in DIMENSIONS.items()
    ],
    operators=[
        AnalyticsOperator.from_row(None, name=name, value_type=value_type)
        for value_type, names in (("scalar", SCALAR), ("array", ARRAY))
        for name in names
    ],
    granularities=[
        AnalyticsGranularity.from_row(None, name=name, display_label=name.capitalize())
        for name in GRANULARITIES
    ],
)
