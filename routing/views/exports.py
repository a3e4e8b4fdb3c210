"""GET /activity/export: an account's charges as CSV (ours)."""

from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Any, Final

from django.http import HttpRequest, HttpResponseBase, StreamingHttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema

from accounts.views.managed import ManagedViewSet
from gateway.http.errors import SchemaInvalid
from gateway.http.validation import Issue, describe_options
from gateway.openapi.errors import error_responses
from routing.exports.columns import PERIODS
from routing.exports.files import stream_csv
from routing.exports.rows import UsageExport, parse_day

_DAY: Final = {"type": "string", "format": "date"}
_QUERY: Final = [
    OpenApiParameter("from", _DAY, description="First UTC day; this month's first if absent."),
    OpenApiParameter("to", _DAY, description="Last UTC day, included; today if absent."),
    OpenApiParameter("per", {"type": "string", "enum": list(PERIODS), "default": "day"}),
]


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
        parameters=_QUERY,
        responses={
            (200, "text/csv"): OpenApiResponse(OpenApiTypes.STR, description="The rows."),
            **error_responses(400, 401, 403, 429, 500),
        },
    )
    def retrieve(self, request: HttpRequest) -> HttpResponseBase:
        caller = self.manager(request)
        first, last, per = _read_query(request.GET.dict(), now=datetime.now(UTC))
        return download_csv(UsageExport(first, last, per, (caller.account_id,)))


def _read_query(query: Mapping[str, str], *, now: datetime) -> tuple[date, date, Any]:
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
