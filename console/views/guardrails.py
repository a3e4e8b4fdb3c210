"""Guardrails: the list, one of them as rows of rules, a box to try a text, and yesterday."""

from collections.abc import Mapping
from copy import copy
from typing import Any, Final
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_POST

from accounts.models import Guardrail, Workspace
from accounts.roles import Action
from accounts.services import guardrail_assignments as assignments
from accounts.services.guardrails import change_guardrail, create_guardrail, delete_guardrail
from accounts.services.records import operator_actor
from accounts.views.schemas.guardrail import read_guardrail_changes, read_new_guardrail
from console.forms.guardrail import GuardrailForm
from console.listing import Filter, Listing, has_words, is_value, list_choices
from console.page import PageContext, page, render_page
from console.queries.guardrail_trials import TEXT_CHARS_MAX, replay_yesterday, try_text
from console.queries.guardrails import (
    GuardrailRow,
    find_assignable,
    find_guardrail,
    list_assignments,
    list_guardrails,
    may_change_guardrail,
)
from console.queries.workspaces import list_led_workspaces
from console.scope import Role, Scope
from console.table import Column
from console.views.settings import require_role
from console.views.what_if import list_refusals
from gateway.http.errors import SchemaInvalid

_BLOCKS: Final = [(each, each.capitalize()) for each in ("blocks", "redacts", "notes", "no filter")]
COLUMNS: Final = (
    Column("Name", lambda row: row.name, link=lambda row: _link(row.guardrail), order="name"),
    Column("Filters", lambda row: row.blocks, "badge"),
    Column("Governs", lambda row: row.governs, order="governs"),
    Column("Rules", lambda row: row.rules),
    Column("Workspace", lambda row: row.guardrail.workspace.name, detail=True, order="workspace"),
)


@page
def show_guardrails(request: HttpRequest, page: PageContext) -> HttpResponse:
    require_role(page.scope, Role.LEAD)
    rows = list_guardrails(page.scope)
    workspaces = list_choices(row.guardrail.workspace.name for row in rows)
    filters = [
        Filter("text", "Name or rule", has_words(lambda row: f"{row.name} {row.rules}")),
        Filter("filters", "Filters", is_value(lambda row: row.blocks), _BLOCKS),
        Filter("of", "Workspace", is_value(lambda row: row.guardrail.workspace.name), workspaces),
    ]
    listing = Listing[GuardrailRow](request, COLUMNS, "Guardrails", filters=filters)
    listing.load_whole(rows)
    if listing.is_csv:
        return listing.respond()
    context = {"title": "Guardrails", "list": listing}
    return render_page(request, page, "console/guardrails.html", context)


@page
def make_guardrail(request: HttpRequest, page: PageContext) -> HttpResponse:
    require_role(page.scope, Role.LEAD)
    workspaces = list_led_workspaces(page.scope)
    if not workspaces:
        raise Http404
    chosen = request.POST.get("workspace", "")
    workspace = next((each for each in workspaces if str(each.pk) == chosen), workspaces[0])
    form = GuardrailForm(None, request.POST if request.method == "POST" else None)
    if request.method == "POST" and chosen != str(workspace.pk):
        raise Http404
    if request.method == "POST" and form.is_valid():
        try:
            body = form.build_body() | {"workspace_id": str(workspace.pk)}
            workspace_id, settings = read_new_guardrail(body)
            if "try" in request.POST:
                tried = Guardrail(workspace=workspace, **settings)
                replay = _replay(tried, page.scope, page)
                return _render_new(request, page, form, workspaces, workspace, **replay)
            row = create_guardrail(
                account_id=page.scope.account.pk,
                workspace_id=workspace_id,
                by=operator_actor(request.user),
                settings=settings,
            )
        except SchemaInvalid as error:
            form.add_error(None, error.text)
        else:
            text = "It is there. It governs nobody until you assign it to keys or members."
            messages.success(request, text)
            return HttpResponseRedirect(_link(row))
    return _render_new(request, page, form, workspaces, workspace)


def _render_new(
    request: HttpRequest,
    page: PageContext,
    form: GuardrailForm,
    workspaces: list[Workspace],
    workspace: Workspace,
    **more: Any,
) -> HttpResponse:
    context = {
        "title": "New guardrail",
        "nav": "Guardrails",
        "form": form,
        "workspaces": workspaces,
        "workspace": workspace,
        **more,
    }
    status = 400 if form.errors else 200
    return render_page(request, page, "console/new_guardrail.html", context, status=status)


@page
def show_guardrail(request: HttpRequest, page: PageContext, guardrail_id: UUID) -> HttpResponse:
    row, scope = find_guardrail(page.scope, guardrail_id)
    if request.method == "POST":
        _require_change(row, scope)
    form = GuardrailForm(row.guardrail, request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid():
        try:
            changes = read_guardrail_changes(form.build_body())
            if "try" in request.POST:
                tried = copy(row.guardrail)
                for name, value in changes.items():
                    setattr(tried, name, value)
                return _render(request, page, row, scope, form=form, **_replay(tried, scope, page))
            change_guardrail(
                account_id=scope.account.pk,
                guardrail_id=guardrail_id,
                by=operator_actor(request.user),
                changes=changes,
            )
        except SchemaInvalid as error:
            form.add_error(None, error.text)
        else:
            messages.success(request, "Saved. Requests are held to it within a second.")
            return HttpResponseRedirect(_link(row.guardrail))
    return _render(request, page, row, scope, form=form)


@require_POST
@page
def remove_guardrail(request: HttpRequest, page: PageContext, guardrail_id: UUID) -> HttpResponse:
    row, scope = find_guardrail(page.scope, guardrail_id)
    _require_change(row, scope)
    if not row.is_there:
        raise Http404
    delete_guardrail(
        account_id=scope.account.pk, guardrail_id=guardrail_id, by=operator_actor(request.user)
    )
    messages.success(request, f"{row.name} holds nobody any more.")
    return HttpResponseRedirect(reverse("console:guardrails"))


@require_POST
@page
def try_guardrail(request: HttpRequest, page: PageContext, guardrail_id: UUID) -> HttpResponse:
    """What its filters do to a text; nothing is sent anywhere, and the text is not kept."""
    row, scope = find_guardrail(page.scope, guardrail_id)
    text = request.POST.get("text", "")[:TEXT_CHARS_MAX]
    trial = try_text(row.guardrail, text) if text else None
    form = GuardrailForm(row.guardrail)
    return _render(request, page, row, scope, form=form, trial=trial, text=text)


@page
def show_replay(request: HttpRequest, page: PageContext, guardrail_id: UUID) -> HttpResponse:
    """A part of the page, which asks for it once it stands."""
    row, scope = find_guardrail(page.scope, guardrail_id)
    context = {"row": row, **_replay(row.guardrail, scope, page, routes=False)}
    return render_page(request, page, "console/parts/guardrail_replay.html", context)


def _replay(
    guardrail: Guardrail, scope: Scope, page: PageContext, *, routes: bool = True
) -> dict[str, Any]:
    """What a template shows of yesterday under the guardrail."""
    reads_texts = scope.allows(Action.CONTENTS)
    replay = replay_yesterday(guardrail, scope, page.now, reads_texts=reads_texts, routes=routes)
    moves = replay.routes
    latency: list[float] = []
    if moves is not None and moves.latency_known:
        sides = (moves.before, moves.after)
        latency = [1000 * side.latency_s / moves.latency_known for side in sides]
    return {
        "replay": replay,
        "reads_texts": reads_texts,
        "places": replay.places.most_common(5),
        "found": replay.found.most_common(8),
        "routes": moves,
        "latency": latency,
        "refusals": list_refusals(moves) if moves else [],
        "refused_count": moves.refused.total() if moves else 0,
    }


@require_POST
@page
def assign_guardrail(request: HttpRequest, page: PageContext, guardrail_id: UUID) -> HttpResponse:
    """Put a key or a member under it, or let them go."""
    row, scope = find_guardrail(page.scope, guardrail_id)
    _require_change(row, scope)
    found = find_assignable(row.guardrail, scope)
    place: dict[str, Any] = {
        "account_id": scope.account.pk,
        "guardrail_id": guardrail_id,
        "by": operator_actor(request.user),
    }
    to, key, user = (request.POST.get(name, "") for name in ("to", "key", "user"))
    is_key = found.keys.filter(hash=key).exists()
    is_user = found.members.filter(user__public_id=user).exists()
    if to == "add" and is_key:
        assignments.assign_keys(**place, assigner=request.user.pk, key_hashes=[key])
    elif to == "add" and is_user:
        assignments.assign_members(**place, assigner=request.user.pk, user_ids=[user])
    elif to == "remove" and is_key:
        assignments.unassign_keys(**place, key_hashes=[key])
    elif to == "remove" and is_user:
        assignments.unassign_members(**place, user_ids=[user])
    else:
        raise Http404
    messages.success(request, "Saved.")
    return HttpResponseRedirect(_link(row.guardrail))


def _render(
    request: HttpRequest, page: PageContext, row: GuardrailRow, scope: Scope, **more: Any
) -> HttpResponse:
    holder = request.GET.get("holder", "").strip()
    context: Mapping[str, Any] = {
        "title": row.name,
        "nav": "Guardrails",
        "row": row,
        "guardrail": row.guardrail,
        "holder": holder,
        "assigned": None
        if row.guardrail.is_default
        else list_assignments(row.guardrail, scope, holder),
        "may_change": may_change_guardrail(row.guardrail, scope),
        "text_chars_max": TEXT_CHARS_MAX,
        **more,
    }
    status = 400 if more["form"].errors else 200
    return render_page(request, page, "console/guardrail.html", context, status=status)


def _require_change(row: GuardrailRow, scope: Scope) -> None:
    if not may_change_guardrail(row.guardrail, scope):
        raise Http404


def _link(guardrail: Guardrail) -> str:
    return reverse("console:guardrail", args=[guardrail.pk])
