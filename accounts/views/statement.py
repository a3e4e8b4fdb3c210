"""GET /credits/statement: an account's statement for a period (ours)."""

from collections.abc import Mapping
from datetime import UTC, date, datetime, time
from typing import Final

from django.http import HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema

from accounts.models import LedgerEntry
from accounts.services.books.statement import StatementPeriod
from accounts.services.books.statement_file import (
    FORMATS,
    IN_MEMORY_BYTES,
    StatementFile,
    StatementFormat,
    write_statement,
)
from accounts.views.managed import ManagedViewSet
from gateway.database.db import Lane, run_queries
from gateway.http.errors import SchemaInvalid
from gateway.http.validation import Issue, describe_options
from gateway.openapi.components import (
    MOMENT,
    TEXT,
    USD,
    UUID_TEXT,
    WHOLE,
    Component,
    Schema,
    add_description,
    array,
    nullable,
    obj,
    words,
)
from gateway.openapi.errors import error_responses


def _money(*names: str) -> Schema:
    """USD as a number, and as whole nano-USD."""
    return {key: kind for name in names for key, kind in ((name, USD), (f"{name}_nano", WHOLE))}


_LINE: Final = Component(
    "StatementLine",
    obj(
        {
            "date": {"type": "string", "format": "date"},
            "at": nullable(add_description(MOMENT, "When, of a single entry.")),
            "kind": words(*LedgerEntry.Kind.values),
            "entries": add_description(WHOLE, "How many entries it sums."),
            **_money("amount"),
            "workspace_id": nullable(UUID_TEXT),
            "workspace": nullable(TEXT),
            "key_hash": nullable(TEXT),
            "key": nullable(add_description(TEXT, "The key's name.")),
            "source": nullable(TEXT),
            "source_ref": nullable(TEXT),
            "generation_id": nullable(TEXT),
            "note": nullable(TEXT),
        },
        description="An entry, or a day's usage of one kind, workspace and key. The amount is its "
        "effect on the balance.",
    ),
)
_STATEMENT: Final = Component(
    "Statement",
    obj(
        {
            "data": obj(
                {
                    "account_id": UUID_TEXT,
                    "start": MOMENT,
                    "end": MOMENT,
                    "made_at": MOMENT,
                    **_money("opening_balance"),
                    "lines": array(_LINE),
                    "totals": obj(
                        {
                            "lines": WHOLE,
                            "entries": WHOLE,
                            **_money("credits", "usage", "change"),
                        }
                    ),
                    **_money("closing_balance"),
                }
            )
        }
    ),
)
_QUERY: Final = [
    OpenApiParameter(
        "start",
        str,
        description="A UTC day `YYYY-MM-DD`, or a moment; this month's first if absent.",
    ),
    OpenApiParameter(
        "end", str, description="The same of the end, which is no longer part of it; now if absent."
    ),
    OpenApiParameter("format", {"type": "string", "enum": ["json", "csv"], "default": "json"}),
]


class StatementViewSet(ManagedViewSet):
    """The account's statement."""

    @extend_schema(
        operation_id="getStatement",
        summary="Get a statement of the account",
        description=(
            "Ours. Needs a management key. Opening balance, lines, totals and closing balance of a "
            "period, all of one moment; the lines sum to the totals exactly. Credits, refunds and "
            "reversals are told one by one, usage per UTC day, workspace, key and kind. A request "
            "that is settled late stands at the time it was settled."
        ),
        tags=["Keys and credits"],
        parameters=_QUERY,
        responses={
            (200, "application/json"): OpenApiResponse(_STATEMENT, description="The statement."),
            (200, "text/csv"): OpenApiResponse(OpenApiTypes.STR, description="The statement."),
            **error_responses(400, 401, 403, 500),
        },
    )
    def retrieve(self, request: HttpRequest) -> HttpResponseBase:
        caller = self.manager(request)
        period, form = read_query(request.GET.dict(), now=datetime.now(UTC))
        file = run_queries(Lane.OPERATOR, lambda: write_statement(caller.account_id, period, form))
        return download(file)


def read_query(
    query: Mapping[str, str], *, now: datetime
) -> tuple[StatementPeriod, StatementFormat]:
    """The period and the form asked for. Raises `SchemaInvalid`.

    Without `start` it begins with the current month, without `end` it goes up to now.
    """
    issues: list[Issue] = []
    month = datetime.combine(now.date().replace(day=1), time(), UTC)
    start = _moment(query.get("start"), month, "start", issues)
    end = _moment(query.get("end"), max(now, start), "end", issues)
    if not issues and end < start:
        issues.append(Issue("end", "Invalid input: expected a moment not before start"))
    form = query.get("format") or "json"
    if form not in FORMATS:
        issues.append(Issue("format", describe_options(FORMATS)))
    if issues:
        raise SchemaInvalid(issues)
    return StatementPeriod(start, end), FORMATS[form]


def _moment(text: str | None, default: datetime, name: str, issues: list[Issue]) -> datetime:
    """A day, which begins at midnight UTC, or an ISO 8601 moment in UTC."""
    if not text:
        return default
    try:
        if len(text) == len("YYYY-MM-DD"):
            return datetime.combine(date.fromisoformat(text), time(), UTC)
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None or moment.utcoffset():
        issues.append(Issue(name, "Invalid ISO date, or datetime in UTC"))
        return default
    return moment


def download(file: StatementFile) -> HttpResponseBase:
    """The file as an attachment; a large one leaves in pieces."""
    size_bytes = file.size_bytes
    response: HttpResponseBase
    if size_bytes <= IN_MEMORY_BYTES:
        response = HttpResponse(b"".join(file.pieces()), content_type=file.form.content_type)
    else:
        response = StreamingHttpResponse(file.pieces(), content_type=file.form.content_type)
        # A download that never begins must not keep the file.
        response._resource_closers.append(file.lines.close)  # type: ignore[attr-defined]  # What Django closes with it.
    response["Content-Length"] = str(size_bytes)
    response["Content-Disposition"] = f'attachment; filename="{file.name}"'
    response["Cache-Control"] = "no-store"
    return response
