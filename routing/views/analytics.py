"""/analytics and /activity: an account's usage by dimensions of its choice, and as a file."""

from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Any, Final

from django.http import HttpRequest, HttpResponseBase, StreamingHttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema

from accounts.views.managed import ManagedViewSet, describe_operations, managed_body
from gateway.database.db import Lane, run_queries
from gateway.http.errors import SchemaInvalid
from gateway.http.responses import json_response
from gateway.http.validation import Issue, describe_options
from gateway.openapi.components import Component, answer_of, array, component, obj
from gateway.openapi.errors import error_responses
from routing.exports.columns import PERIODS
from routing.exports.files import stream_csv
from routing.exports.rows import UsageExport, parse_day
from routing.history.activity import read_activity
from routing.history.analytics import META, answer_query
from routing.history.schemas import (
    ACTIVITY_DAYS,
    Activity,
    ActivityQuery,
    AnalyticsBody,
    AnalyticsMeta,
    AnalyticsMetadata,
    AnalyticsResult,
    read_analytics_body,
)

_RESULT: Final = Component("AnalyticsAnswer", obj({"data": AnalyticsResult}))
# All rows are on one page.
_ACTIVITY: Final = Component("ActivityList", obj({"data": array(Activity)}))
_DAY: Final = {"type": "string", "format": "date"}
_EXPORT_QUERY: Final = [
    OpenApiParameter("from", _DAY, description="First UTC day; this month's first if absent."),
    OpenApiParameter("to", _DAY, description="Last UTC day, included; today if absent."),
    OpenApiParameter("per", {"type": "string", "enum": list(PERIODS), "default": "day"}),
]
_operation = describe_operations("Analytics", 429)


class AnalyticsViewSet(ManagedViewSet):
    """The metrics that analytics offers, and queries of them."""

    @_operation(
        "getAnalyticsMeta",
        "List what analytics can be asked",
        "Metrics, dimensions, operators and granularities.",
        answer_of(AnalyticsMeta),
    )
    def meta(self, request: HttpRequest) -> HttpResponseBase:
        self.manager(request)
        return json_response({"data": META})

    @_operation(
        "queryAnalytics",
        "Query analytics",
        "Metrics of the account's generations by up to two dimensions and a period, exact up to "
        "the last answer. Without a time range the last 7 days are meant. Performance, guardrail "
        "and response-cache metrics, and some dimensions, reach over 31 days, all others over 365. "
        "Rows bear names for keys, workspaces, apps and users; filters take their ids.",
        _RESULT,
        *(400, 408),
        body=AnalyticsBody,
    )
    def query(self, request: HttpRequest) -> HttpResponseBase:
        caller = self.manager(request)
        body, now = managed_body(request), datetime.now(UTC)
        query = read_analytics_body(body, now)
        answer = run_queries(Lane.OPERATOR, lambda: answer_query(caller.account_id, query, now))
        metadata = AnalyticsMetadata.from_row(answer, row_count=len(answer.rows))
        return json_response({"data": {"data": answer.rows, "metadata": metadata}})


class ActivityViewSet(ManagedViewSet):
    """Usage of the last 30 full days by endpoint."""

    @_operation(
        "getActivity",
        "List what endpoints were used for",
        f"One row for each day, model and endpoint of the last {ACTIVITY_DAYS} full days (UTC), "
        "the last day first, all on one page.",
        _ACTIVITY,
        *(400, 404, 408),
        parameters=[component(ActivityQuery)],
    )
    def list(self, request: HttpRequest) -> HttpResponseBase:
        caller = self.manager(request)
        now = datetime.now(UTC)
        query = ActivityQuery.read(request.GET, now=now)
        rows = run_queries(Lane.OPERATOR, lambda: read_activity(caller.account_id, query, now))
        return json_response({"data": rows})


class UsageExportViewSet(ManagedViewSet):
    """What was charged, as a file."""

    @extend_schema(
        operation_id="exportActivity",
        summary="Export what was charged",
        description=(
            "Ours. Needs a management key. CSV of what was booked on some days (UTC), sent while "
            "it is read: a row per charge and reversal, or one per day, key, model, provider and "
            "end user. The amounts sum to the statement's usage of the same days. An answer that "
            "breaks off is incomplete."
        ),
        tags=["Analytics"],
        parameters=_EXPORT_QUERY,
        responses={
            (200, "text/csv"): OpenApiResponse(OpenApiTypes.STR, description="The rows."),
            **error_responses(400, 401, 403, 429, 500),
        },
    )
    def retrieve(self, request: HttpRequest) -> HttpResponseBase:
        caller = self.manager(request)
        first, last, per = _read_export_query(request.GET.dict(), now=datetime.now(UTC))
        return download_csv(UsageExport(first, last, per, (caller.account_id,)))


def _read_export_query(query: Mapping[str, str], *, now: datetime) -> tuple[date, date, Any]:
    """The days and what a row is for. Raises `SchemaInvalid`."""
    issues: list[Issue] = []
    days = {"from": now.date().replace(day=1), "to": now.date()}
    for name in days:
        try:
            days[name] = parse_day(query.get(name) or days[name].isoformat())
        except ValueError:
            issues.append(Issue(name, "Invalid ISO date"))
    if not issues and days["to"] < days["from"]:
        issues.append(Issue("to", "Invalid input: expected a day not before from"))
    per = query.get("per") or "day"
    if per not in PERIODS:
        issues.append(Issue("per", describe_options(PERIODS)))
    if issues:
        raise SchemaInvalid(issues)
    return days["from"], days["to"], per


def download_csv(export: UsageExport) -> HttpResponseBase:
    """The export as an attachment that is sent while it is read."""
    response = StreamingHttpResponse(stream_csv(export), content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="{export.name("csv")}"'
    response["Cache-Control"] = "no-store"
    return response
