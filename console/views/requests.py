"""The list of requests, with its live tail, and the page of one request."""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple

from django.db.models import Q
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils.cache import get_conditional_response

from accounts.models import (
    ApiKey,
    Guardrail,
    GuardrailKey,
    GuardrailMember,
    Membership,
    Workspace,
)
from accounts.roles import Action
from console.page import PageContext, keep_query, page, render_page
from console.queries.explanation import (
    Candidate,
    Explanation,
    describe_in_a_sentence,
    list_candidates,
    read_explanation,
    shorten_provider,
)
from console.queries.guardrails import (
    BLOCKED,
    GuardrailAction,
    list_guardrail_actions,
    name_guardrail,
)
from console.queries.paging import Page
from console.queries.request_detail import find_request, read_text
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
from console.scope import Scope, widen_scope
from console.table import CSV_ROWS_MAX, Column, Table, csv_response, read_pages, render_table
from console.views.outage import find_simulated
from console.words import Badge, describe_refusal, format_tags
from routing.entities.exchange import CANCELLED
from routing.metering.models import Generation
from routing.reports.models import FailedRequest

_FACT_WORDS: Final = {"remedy_hint": "What helps"}


class Remedy(NamedTuple):
    """What can be done, and the page where; `address` is empty where the person may not open it."""

    text: str
    address: str = ""


@dataclass(frozen=True)
class RefusedDetail:
    """A request that no upstream was asked for, with its key, and the endpoints of its plan."""

    record: FailedRequest
    key: ApiKey | None
    scope: Scope

    @cached_property
    def explanation(self) -> Explanation:
        return read_explanation(self.record.plan)

    @cached_property
    def candidates(self) -> list[Candidate]:
        return list_candidates(self.explanation)

    @cached_property
    def guarding(self) -> list[GuardrailAction]:
        return list_guardrail_actions(self.explanation.facts, self.scope)

    @cached_property
    def remedies(self) -> list[Remedy]:
        """By the reason on record; none where nothing of the account's was in the way."""
        reason = self.record.reason
        find = _BY_REASON.get(reason) or (_list_of_key if reason.startswith("key_") else None)
        return list(find(self)) if find else []

    @property
    def facts(self) -> list[tuple[str, str]]:
        """What the caller got beside the text."""
        detail = {name: v for name, v in self.record.detail.items() if v is not None}
        # The page's own words say which limit it was.
        detail.pop("limit_source", None)
        return [
            (
                _FACT_WORDS.get(name, name.replace("_", " ").capitalize()),
                ", ".join(map(str, v)) if isinstance(v, list) else read_text(v),
            )
            for name, v in detail.items()
        ]


def find_refused(seen: Scope, number: int) -> RefusedDetail:
    """The refused request of that number. Raises `Http404` where the person may not see it."""
    record = get_object_or_404(FailedRequest, pk=number)
    key = ApiKey.objects.filter(pk=record.api_key_id).select_related("creator").first()
    scope = widen_scope(seen, record.account_id)
    if not scope.covers(
        account_id=record.account_id,
        workspace_id=record.workspace_id,
        creator_id=key.creator_id if key else None,
    ):
        raise Http404
    return RefusedDetail(record, key, scope)


def _list_of_key(refused: RefusedDetail) -> Iterator[Remedy]:
    key = refused.key
    if key is None or key.deleted_at is not None:
        yield Remedy("The key is deleted: use another one", reverse("console:keys"))
        return
    yield Remedy(f"Look at the key {key.name}", reverse("console:key", args=[key.pk]))


def _list_of_workspace(refused: RefusedDetail) -> Iterator[Remedy]:
    rows = Workspace.objects.filter(account=refused.scope.account)
    row = rows.filter(pk__in=[refused.record.workspace_id]).first()
    if row is None:
        return
    if refused.scope.leads(row.pk):
        yield Remedy(f"Budgets of {row.name}", reverse("console:workspace", args=[row.pk]))
    else:
        yield Remedy(f"An admin of the account raises budgets of {row.name}")


def _list_of_guardrails(refused: RefusedDetail) -> Iterator[Remedy]:
    """Those that are known to have acted, else all that govern the key."""
    named = {
        each.guardrail_id: each.name
        for each in refused.guarding
        if each.guardrail_id and each.action == BLOCKED
    }
    scope = refused.scope
    if not named:
        governs = Q(is_default=True, workspace=refused.record.workspace_id)
        if (key := refused.key) is not None:
            owner = Membership.objects.filter(account=scope.account, user=key.creator_id)
            governs |= Q(pk__in=GuardrailKey.objects.filter(api_key=key).values("guardrail"))
            held = GuardrailMember.objects.filter(membership__in=owner)
            governs |= Q(pk__in=held.values("guardrail"))
        rows = Guardrail.objects.filter(governs, workspace__account=scope.account)
        rows = rows.select_related("workspace").order_by("name", "pk")
        named = {row.pk: name_guardrail(row) for row in rows if scope.leads(row.workspace_id)}
    for pk, name in named.items():
        yield Remedy(f"Look at the guardrail {name}", reverse("console:guardrail", args=[pk]))
    if refused.record.reason == "guardrail" and scope.rules_account:
        yield Remedy("Look at the account's policy", reverse("console:settings"))
    elif not named:
        yield Remedy("Whoever leads the workspace can look at its guardrails")


def _list_of_credits(refused: RefusedDetail) -> Iterator[Remedy]:
    if refused.scope.allows(Action.BILLING):
        yield Remedy("Look at the account's credits", reverse("console:credits"))
    else:
        yield Remedy("An admin of the account adds credits")


def _list_of_models(refused: RefusedDetail) -> Iterator[Remedy]:
    yield Remedy("Choose another model", reverse("console:models"))


_BY_REASON: Final[Mapping[str, Callable[[RefusedDetail], Iterator[Remedy]]]] = {
    "workspace_budget": _list_of_workspace,
    "end_user_budget": _list_of_workspace,
    "tag_budget": _list_of_workspace,
    "guardrail_budget": _list_of_guardrails,
    "guardrail": _list_of_guardrails,
    "content_filter": _list_of_guardrails,
    "credits": _list_of_credits,
    "unknown_model": _list_of_models,
    "model_unpriced": _list_of_models,
}


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


def describe_attempts(row: RequestRow) -> str:
    """What happened, in a sentence, where it took more than one attempt; else nothing."""
    return describe_in_a_sentence(row._asdict()) if len(row.attempts) > 1 else ""


def note_outcome(row: RequestRow) -> str:
    """Why the gateway refused it, or how it went where it took more than one attempt."""
    return describe_refusal(row.refusal) or describe_attempts(row)


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
    Column("Outcome", describe_outcome, "badge", note=note_outcome),
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
    Column("Id ends with", lambda row: f"{row.pk}"[-6:], "code", minor=True),
)
_CSV_COLUMNS: Final = (
    Column("Id", lambda row: row.pk),
    *COLUMNS,
    Column("Session", lambda row: row.session_id),
    Column("End user", lambda row: row.external_user),
    Column("Error", lambda row: row.error_type),
    Column("Why refused", lambda row: row.refusal),
    Column("What happened", describe_attempts),
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
    is_part = request.GET.get("part") == "rows"
    etag = _hash_list(page, wanted, found) if is_part else ""
    # Most ticks find nothing new, and then no table is made.
    if is_part and (unchanged := get_conditional_response(request, etag=etag)):
        return unchanged
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
    if is_part:
        part = render_page(request, page, "console/parts/request_rows.html", context)
        part.headers["ETag"] = etag
        return part
    keys = list_keys(page.scope, wanted.key)
    context |= {
        "outcomes": OUTCOMES.items(),
        "keys": keys,
        "are_keys_cut": len(keys) >= KEYS_MAX,
        "people": list_people(page.scope),
        "reasons": list_reasons(page.scope, start, wanted.reason),
        "failing": find_simulated() if page.scope.is_operator else None,
        "order": "" if order == NEWEST_FIRST else order,
    }
    return render_page(request, page, "console/requests.html", context)


def _hash_list(page: PageContext, wanted: RequestFilter, found: Page[RequestRow]) -> str:
    content = repr((page.period.value, wanted, found)).encode()
    return f'"{hashlib.md5(content, usedforsecurity=False).hexdigest()}"'


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
