"""Answering an analytics query."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Final, NamedTuple
from uuid import UUID

from django.conf import settings
from django.db import OperationalError, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from psycopg.errors import QueryCanceled

from accounts.models import ApiKey, User, Workspace
from gateway.database.replica import reading_connection
from gateway.http.errors import GatewayError
from gateway.http.jsonio import JsonObject, format_time, usd
from routing.history.conditions import build_conditions
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
# Dimensions whose rows are given names beside their ids.
_LABELLED: Final = frozenset({"api_key_id", "workspace", "user"})


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
            name: _read_labels(name, {row[f"by_{number}"] for row in db_rows})
            for number, name in enumerate(body.dimensions)
            if name in _LABELLED
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
    # By default the newest period first, else the largest value of the first metric.
    order = ("period" if body.granularity else body.metrics[0], True)
    if body.order_by is not None:
        field = body.order_by.field
        if field == body.time_field:
            field = "period"
        elif field in DIMENSIONS:
            field = DIMENSIONS[field].column
        order = (field, body.order_by.direction == "desc")
    return UsageQuery(
        account_id=account_id,
        start=start,
        end=end,
        metrics={name: METRICS[name] for name in body.metrics},
        groups=tuple(dimension.column for dimension in dimensions),
        time=body.granularity,
        conditions=build_conditions(body.filters, account_id, dialect()),
        order=(order,),
        limit=body.limit,
        group_limit=body.group_limit,
        fair=bool(body.granularity and dimensions),
        titles="app" in body.dimensions,
        singles=any(dimension.is_single for dimension in named),
    )


# --- The deadline of a query, enforced by the database ------------------------------------------

# SQLite asks after this many of its steps, some tens of milliseconds.
_STEPS: Final = 100_000
# Sums and their indexes are mostly in memory, which PostgreSQL's defaults do not expect; grouping
# should be too. JIT compilation takes longer than any of these queries, and so do merge joins that
# sort many rows by text to meet a few.
_PLANS: Final = (
    "SET LOCAL random_page_cost = 1.1; SET LOCAL work_mem = '32MB'; SET LOCAL jit = off;"
    " SET LOCAL enable_mergejoin = off"
)


class TimedOut(GatewayError):
    """The query took longer than it may."""

    status, error_type = 408, "timeout"
    message = "Operation timed out. Please try again later."


@contextmanager
def deadline(limit_s: float) -> Iterator[None]:
    """End a query of the block with `TimedOut` after `limit_s`. The block must not write."""
    with reading_connection() as database:
        if database.vendor == "sqlite":
            with _sqlite_deadline(database, limit_s):
                yield
            return
        limits = f"SET LOCAL statement_timeout = {max(1, int(limit_s * 1000))}; {_PLANS}"
        try:
            with transaction.atomic(using=database.alias), database.cursor() as cursor:
                cursor.execute(limits)
                yield
        except OperationalError as error:
            if isinstance(error.__cause__, QueryCanceled):
                raise TimedOut from error
            raise


@contextmanager
def _sqlite_deadline(database: BaseDatabaseWrapper, limit_s: float) -> Iterator[None]:
    database.ensure_connection()
    raw: Any = database.connection
    ends_at = time.monotonic() + limit_s
    raw.set_progress_handler(lambda: time.monotonic() > ends_at, _STEPS)
    try:
        yield
    except OperationalError as error:
        if time.monotonic() > ends_at:
            raise TimedOut from error
        raise
    finally:
        raw.set_progress_handler(None, 0)


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


def _read_labels(dimension: str, ids: set[Any]) -> dict[Any, _Row]:
    """The fields of the response for each id of a key, a workspace or a user (0 for nobody)."""
    if dimension == "api_key_id":
        keys = ApiKey.objects.filter(pk__in=ids).values_list("pk", "name", "hash")
        return {pk: {"api_key_id": name, "api_key_hash": key_hash} for pk, name, key_hash in keys}
    if dimension == "workspace":
        by_id = {value if isinstance(value, UUID) else UUID(value): value for value in ids}
        names = Workspace.everything.filter(pk__in=by_id).values_list("pk", "name")
        return {by_id[pk]: {"workspace": name, "workspace_id": str(pk)} for pk, name in names}
    labels: dict[Any, _Row] = {0: {"user": None, "user_email": None}}
    users = User.objects.filter(pk__in=ids).values_list("pk", "public_id", "email")
    for pk, public_id, email in users:
        labels[pk] = {"user": public_id, "user_email": email or None}
    return labels


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
