"""The list of requests, with its live tail, and the page of one request."""

from typing import Any, Final

from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse

from console.page import PageContext, keep_query, page, render_page
from console.queries.explanation import shorten_provider, tell_in_a_sentence
from console.queries.refused_request import find_refused
from console.queries.request_detail import find_request
from console.queries.requests import (
    KEYS_MAX,
    NEWEST_FIRST,
    OUTCOMES,
    RequestFilter,
    RequestRow,
    list_keys,
    list_people,
    list_reasons,
    list_requests,
)
from console.table import CSV_ROWS_MAX, Column, Table, csv_response, read_pages, render_table
from console.views.outage import find_simulated
from console.words import Badge, format_tags
from routing.entities.exchange import CANCELLED
from routing.metering.models import Generation

_CSV_PAGE: Final = 250


def describe_outcome(row: RequestRow) -> Badge:
    """How a request ended, in a word."""
    return Badge("warn", f"refused, {row.status}") if row.is_refused else describe_end(row)


def describe_end(row: RequestRow | Generation) -> Badge:
    """The same of one that a provider was asked for."""
    if row.lost:
        return Badge("bad", "lost")
    if row.cancelled:
        return Badge("warn", "cancelled")
    if row.status != 200:
        return Badge("bad", f"failed, {row.status}")
    tries = sum(attempt.get("error_type") != CANCELLED for attempt in row.attempts)
    if tries > 1:
        return Badge("good", f"answered, attempt {tries}")
    return Badge("good", "answered")


def tell_attempts(row: RequestRow) -> str:
    """What happened, in a sentence, where it took more than one attempt; else nothing."""
    return tell_in_a_sentence(row._asdict()) if len(row.attempts) > 1 else ""


COLUMNS: Final = (
    Column(
        "Time",
        lambda row: row.created_at,
        "time",
        lambda row: reverse(
            "console:refused" if row.is_refused else "console:request", args=[row.pk]
        ),
        order="time",
    ),
    Column("Outcome", describe_outcome, "badge", note=tell_attempts),
    Column("Model", lambda row: row.model),
    Column("Provider", lambda row: row.provider_name and shorten_provider(row.provider_name)),
    Column("Key", lambda row: row.key_name),
    Column("Person", lambda row: row.person, minor=True),
    Column("Workspace", lambda row: row.workspace, minor=True),
    Column("Tags", lambda row: format_tags(row.tags), minor=True),
    Column("Tokens in", lambda row: row.tokens_prompt, "count", detail=True),
    Column("Out", lambda row: row.tokens_completion, "count", detail=True),
    Column("First token", lambda row: row.latency_ms, "ms", detail=True),
    Column("Duration", lambda row: row.duration_ms, "ms", order="duration"),
    Column("Cost", lambda row: row.charge_nano, "usd", order="cost"),
)
_CSV_COLUMNS: Final = (
    Column("Id", lambda row: row.pk),
    *COLUMNS,
    Column("Session", lambda row: row.session_id),
    Column("End user", lambda row: row.external_user),
    Column("Error", lambda row: row.error_type),
    Column("Why refused", lambda row: row.refusal),
    Column("What happened", tell_attempts),
)


@page
def show_requests(request: HttpRequest, page: PageContext) -> HttpResponse:
    wanted = RequestFilter.read(request.GET)
    order, cursor = request.GET.get("order", NEWEST_FIRST), request.GET.get("cursor", "")
    start = page.period.start(page.now)
    if request.GET.get("csv"):
        # Only by time can a page be read without the others.
        is_by_time = order.removeprefix("-") == "time"
        limit = _CSV_PAGE if is_by_time else CSV_ROWS_MAX
        rows = read_pages(
            lambda cursor: list_requests(
                page.scope, wanted, start=start, order=order, cursor=cursor, limit=limit
            )
        )
        return csv_response("requests", _CSV_COLUMNS, rows)
    found = list_requests(page.scope, wanted, start=start, order=order, cursor=cursor)
    table = Table(COLUMNS, found.rows, "Requests", order, found.next_cursor)
    is_live = order == NEWEST_FIRST and not cursor
    context: dict[str, Any] = {
        "title": "Requests",
        "table": render_table(request, table),
        "is_empty": not found.rows,
        "wanted": wanted,
        "is_live": is_live,
        "live_url": keep_query(request, part="rows"),
    }
    if request.GET.get("part") == "rows":
        return render_page(request, page, "console/parts/request_rows.html", context)
    keys = list_keys(page.scope, wanted.key)
    context |= {
        "outcomes": OUTCOMES.items(),
        "keys": keys,
        "are_keys_cut": len(keys) >= KEYS_MAX,
        "people": list_people(page.scope),
        "reasons": list_reasons(page.scope, start, wanted.reason),
        "failing": find_simulated() if page.scope.is_operator else None,
    }
    return render_page(request, page, "console/requests.html", context)


@page
def show_request(request: HttpRequest, page: PageContext, generation_id: str) -> HttpResponse:
    detail = find_request(page.scope, generation_id)
    if detail is None:
        raise Http404
    context = {
        "title": "Request",
        "nav": "Requests",
        "request_detail": detail,
        "outcome": describe_end(detail.record),
    }
    return render_page(request, page, "console/request.html", context)


@page
def show_refused(request: HttpRequest, page: PageContext, number: int) -> HttpResponse:
    refused = find_refused(page.scope, number)
    context = {"title": "Refused request", "nav": "Requests", "refused": refused}
    return render_page(request, page, "console/refused_request.html", context)
