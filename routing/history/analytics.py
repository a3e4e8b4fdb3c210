"""Answering an analytics query (management reference 11.3)."""

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple
from uuid import UUID

from django.conf import settings
from django.db import connection

from accounts.models import ApiKey, User, Workspace
from gateway.http.jsonio import format_time, usd
from routing.history.body import AnalyticsBody
from routing.history.conditions import build_conditions
from routing.history.deadline import deadline
from routing.history.dialect import Dialect, dialect
from routing.history.metrics import ARRAY, DIMENSIONS, METRICS, SCALAR, Kind
from routing.history.rollup import read_rollup_state
from routing.history.statement import Statement, UsageQuery

_Row = dict[str, Any]


class AnalyticsAnswer(NamedTuple):
    """Rows as they are told, and whether there are more than these."""

    rows: list[_Row]
    truncated: bool
    query_time_ms: int


def answer_query(account_id: UUID, asked: AnalyticsBody, now: datetime) -> AnalyticsAnswer:
    """The account's rows. Raises `SchemaInvalid` for a filter that can name nothing, `TimedOut`."""
    began = time.monotonic()
    question = build_query(account_id, asked, now)
    with deadline(settings.ANALYTICS_TIMEOUT):
        found = fetch_rows(question, now)
        rows = _serialize_rows(found, asked, dialect())
    total = found[0]["rows_found"] if found else 0
    taken_ms = round((time.monotonic() - began) * 1000)
    return AnalyticsAnswer(rows, total > len(rows), taken_ms)


def fetch_rows(question: UsageQuery, now: datetime) -> list[_Row]:
    """The rows of a question, as `Statement.names` names their columns, in two queries."""
    statement = Statement(question, read_rollup_state(now), dialect())
    sql, values = statement.text()
    names = [*statement.names, "rows_found"]
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def build_query(account_id: UUID, asked: AnalyticsBody, now: datetime) -> UsageQuery:
    """What the body asks of the database. Raises `SchemaInvalid`."""
    start, end = asked.span(now)
    dimensions = [DIMENSIONS[name] for name in asked.dimensions]
    named = [*dimensions, *(DIMENSIONS[each.field] for each in asked.filters)]
    return UsageQuery(
        account_id=account_id,
        start=start,
        end=end,
        metrics={name: METRICS[name] for name in asked.metrics},
        groups=tuple(dimension.column for dimension in dimensions),
        time=asked.granularity,
        conditions=build_conditions(asked.filters, account_id, dialect()),
        order=_order(asked),
        limit=asked.limit,
        group_limit=asked.group_limit,
        fair=bool(asked.granularity and dimensions),
        titles="app" in asked.dimensions,
        singles=any(dimension.is_single for dimension in named),
    )


def _order(asked: AnalyticsBody) -> tuple[tuple[str, bool], ...]:
    """The newest period first where there are any, else the largest of the first metric."""
    if asked.order_by is None:
        return ((("period" if asked.granularity else asked.metrics[0]), True),)
    field, down = asked.order_by.field, asked.order_by.direction == "desc"
    if field in METRICS:
        return ((field, down),)
    return (("period" if field == asked.time_field else DIMENSIONS[field].column, down),)


# --- What a row says --------------------------------------------------------------------------


def _serialize_rows(found: Sequence[_Row], asked: AnalyticsBody, spelled: Dialect) -> list[_Row]:
    labels = {
        name: _LABELS[name]({row[f"by_{number}"] for row in found})
        for number, name in enumerate(asked.dimensions)
        if name in _LABELS
    }
    return [_serialize_row(row, asked, labels, spelled) for row in found]


def _serialize_row(
    row: _Row, asked: AnalyticsBody, labels: Mapping[str, Mapping[Any, _Row]], spelled: Dialect
) -> _Row:
    told: _Row = {}
    if asked.time_field:
        told[asked.time_field] = format_time(spelled.moment_of(row["period"]))
    for number, name in enumerate(asked.dimensions):
        value = row[f"by_{number}"]
        if name in labels:
            told |= labels[name][value]
        elif name == "app":
            told |= {"app": row["title"] or value or None, "app_id": value or None}
        else:
            told[name] = value or None
    return told | {name: serialize_value(METRICS[name].kind, row[name]) for name in asked.metrics}


def serialize_value(kind: Kind, value: Any) -> Any:
    """A metric as the answer tells it; null where nothing was measured."""
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


def _keys(ids: set[Any]) -> dict[Any, _Row]:
    rows = ApiKey.objects.filter(pk__in=ids).values_list("pk", "name", "hash")
    return {pk: {"api_key_id": name, "api_key_hash": key_hash} for pk, name, key_hash in rows}


def _workspaces(ids: set[Any]) -> dict[Any, _Row]:
    by_id = {value if isinstance(value, UUID) else UUID(value): value for value in ids}
    names = Workspace.everything.filter(pk__in=by_id).values_list("pk", "name")
    return {by_id[pk]: {"workspace": name, "workspace_id": str(pk)} for pk, name in names}


def _users(ids: set[Any]) -> dict[Any, _Row]:
    rows = User.objects.filter(pk__in=ids).values_list("pk", "public_id", "email")
    nobody: _Row = {"user": None, "user_email": None}
    known = {pk: {"user": public_id, "user_email": email or None} for pk, public_id, email in rows}
    return {0: nobody} | known


_LABELS: Final[Mapping[str, Callable[[set[Any]], dict[Any, _Row]]]] = {
    "api_key_id": _keys,
    "workspace": _workspaces,
    "user": _users,
}


# --- What there is to ask ---------------------------------------------------------------------

META: Final[Mapping[str, Any]] = {
    "metrics": [
        {
            "name": name,
            "display_label": metric.label,
            "is_rate": metric.is_rate,
            "display_format": metric.display,
        }
        for name, metric in METRICS.items()
    ],
    "dimensions": [
        {"name": name, "display_label": dimension.label} for name, dimension in DIMENSIONS.items()
    ],
    "operators": [
        *({"name": name, "value_type": "scalar"} for name in SCALAR),
        *({"name": name, "value_type": "array"} for name in ARRAY),
    ],
    "granularities": [
        {"name": name, "display_label": name.capitalize()}
        for name in ("minute", "hour", "day", "week", "month")
    ],
}
