"""Workspaces: the list, one of them with its budgets, members and defaults, and making one."""

from functools import partial
from typing import Any, Final
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_POST

from accounts.models import Workspace, WorkspaceBudget, WorkspaceMembership
from accounts.services.records import operator_actor
from accounts.services.workspace_budgets import delete_budget, set_budget
from accounts.services.workspace_members import add_members, change_role, remove_members
from accounts.services.workspaces import change_workspace, create_workspace
from console.forms.rate_limits import (
    FiguresForm,
    ScopedLimitForm,
    describe_figures,
    find_whole_limit,
    list_scoped_limits,
    read_scoped_change,
)
from console.forms.workspace import (
    BudgetForm,
    EndUserBudgetForm,
    MemberKeysForm,
    NewWorkspaceForm,
    SettingsForm,
    TagBudgetForm,
    describe_member_limits,
)
from console.listing import Filter, Listing, has_words, write_buttons
from console.page import PageContext, page, render_page
from console.queries.budgets import list_budgets_of
from console.queries.workspaces import (
    Member,
    WorkspaceRow,
    find_workspace,
    list_members,
    list_people_outside,
    list_workspaces,
)
from console.scope import Role, Scope
from console.table import Column
from console.views.settings import require_role
from gateway.http.jsonio import JsonObject

COLUMNS: Final = (
    Column(
        "Name", lambda row: row.workspace.name, link=lambda row: _link(row.workspace), order="name"
    ),
    Column("Short name", lambda row: row.workspace.slug, "code", detail=True),
    Column("Fullest budget", lambda row: row.budget_state, "badge"),
    Column("Spent", lambda row: row.spend_nano, "usd", order="spent"),
    Column("Members", lambda row: row.members, "count", order="members"),
    Column("Keys", lambda row: row.keys, "count", order="keys"),
    Column("Default model", lambda row: row.workspace.default_text_model, "code", detail=True),
    Column("Made", lambda row: row.workspace.created_at, "time", minor=True, order="made"),
)

MEMBERS: Final = (
    Column("Name", lambda row: row.user.username, order="name"),
    Column(
        "Role",
        lambda row: row.badge,
        "badge",
        order="role",
        note=lambda row: "by a directory" if row.by_groups else "",
    ),
)


@page
def show_workspaces(request: HttpRequest, page: PageContext) -> HttpResponse:
    require_role(page.scope, Role.LEAD)
    fits = has_words(lambda row: f"{row.workspace.name} {row.workspace.slug}")
    filters = [Filter("text", "Name", fits)]
    listing = Listing[WorkspaceRow](request, COLUMNS, "Workspaces", filters=filters)
    listing.load_whole(list_workspaces(page.scope, page.period.start(page.now), page.now))
    if listing.is_csv:
        return listing.respond()
    may_make = page.scope.rules_account
    context = {"title": "Workspaces", "may_make": may_make, "list": listing}
    return render_page(request, page, "console/workspaces.html", context)


@page
def make_workspace(request: HttpRequest, page: PageContext) -> HttpResponse:
    if not page.scope.rules_account:
        raise Http404
    form = NewWorkspaceForm(request.POST if request.method == "POST" else None)
    if request.method != "POST" or not form.is_valid():
        context = {"title": "New workspace", "nav": "Workspaces", "form": form}
        status = 400 if form.is_bound else 200
        return render_page(request, page, "console/new_workspace.html", context, status=status)
    workspace = create_workspace(
        account_id=page.scope.account.pk,
        creator=None,
        by=operator_actor(request.user),
        settings=form.cleaned_data,
    )
    messages.success(request, "The workspace is there. Add its people, and a budget.")
    return HttpResponseRedirect(_link(workspace))


@page
def show_workspace(request: HttpRequest, page: PageContext, workspace_id: UUID) -> HttpResponse:
    workspace, scope = find_workspace(page.scope, workspace_id)
    return _render(request, page, workspace, scope)


@require_POST
@page
def change_settings(request: HttpRequest, page: PageContext, workspace_id: UUID) -> HttpResponse:
    workspace, scope = find_workspace(page.scope, workspace_id)
    form = SettingsForm(scope, workspace, request.POST)
    if not form.is_valid():
        return _render(request, page, workspace, scope, settings_form=form)
    return _save(
        request, workspace, form.read_changes(), "Saved. Requests follow it within a few seconds."
    )


@require_POST
@page
def change_budget(request: HttpRequest, page: PageContext, workspace_id: UUID) -> HttpResponse:
    """Set a budget. Who spends does not raise their own limit: an admin of the account does."""
    workspace, scope = _find_ruled(page, workspace_id)
    form = BudgetForm(request.POST)
    if not form.is_valid():
        return _render(request, page, workspace, scope, budget_form=form)
    set_budget(
        account_id=workspace.account_id,
        reference=str(workspace.pk),
        interval=form.cleaned_data["interval"],
        limit_nano=form.cleaned_data["limit_usd"],
        enforcement=form.cleaned_data["enforcement"],
        include_byok=None,
        by=operator_actor(request.user),
    )
    messages.success(request, "The budget holds from now on, for what was spent already as well.")
    return HttpResponseRedirect(_link(workspace))


@require_POST
@page
def end_budget(request: HttpRequest, page: PageContext, workspace_id: UUID) -> HttpResponse:
    workspace, _ = _find_ruled(page, workspace_id)
    interval = request.POST.get("interval", "")
    if interval not in WorkspaceBudget.Interval.values:
        raise Http404
    delete_budget(
        account_id=workspace.account_id,
        reference=str(workspace.pk),
        interval=interval,
        by=operator_actor(request.user),
    )
    messages.success(request, f"The {interval} budget is gone.")
    return HttpResponseRedirect(_link(workspace))


@require_POST
@page
def change_end_users(request: HttpRequest, page: PageContext, workspace_id: UUID) -> HttpResponse:
    """Set the budget of each end user, or take it away."""
    workspace, scope = _find_ruled(page, workspace_id)
    form = EndUserBudgetForm(workspace, request.POST)
    if not form.is_valid():
        return _render(request, page, workspace, scope, end_user_form=form)
    return _save(
        request,
        workspace,
        {"end_user_budget": form.build_budget()},
        "Saved. Requests of end users are held to it from now on.",
    )


@require_POST
@page
def change_tags(request: HttpRequest, page: PageContext, workspace_id: UUID) -> HttpResponse:
    """Set the budget of a tag, or take the one away that is named by its place in the list."""
    workspace, scope = _find_ruled(page, workspace_id)
    budgets: list[JsonObject] = list(workspace.tag_budgets or ())
    if "remove" in request.POST:
        place = request.POST["remove"]
        if not place.isdecimal() or int(place) >= len(budgets):
            raise Http404
        del budgets[int(place)]
    else:
        form = TagBudgetForm(workspace, request.POST)
        if not form.is_valid():
            return _render(request, page, workspace, scope, tag_form=form)
        budgets = form.build_budgets(form.cleaned_data)
    return _save(
        request,
        workspace,
        {"tag_budgets": budgets or None},
        "Saved. Requests with the tag are held to it from now on.",
    )


@require_POST
@page
def change_member_keys(request: HttpRequest, page: PageContext, workspace_id: UUID) -> HttpResponse:
    """Say what keys have that members make, and have at most."""
    workspace, scope = _find_ruled(page, workspace_id)
    form = MemberKeysForm(workspace, request.POST)
    if not form.is_valid():
        return _render(request, page, workspace, scope, member_keys_form=form)
    return _save(
        request,
        workspace,
        {"member_key_limits": form.build_limits()},
        "Saved. It holds for keys that members make from now on.",
    )


@require_POST
@page
def change_rate_limits(request: HttpRequest, page: PageContext, workspace_id: UUID) -> HttpResponse:
    """Say how much all keys of the workspace together may ask for."""
    workspace, scope = _find_ruled(page, workspace_id)
    form = FiguresForm(request.POST)
    if not form.is_valid():
        return _render(request, page, workspace, scope, limit_form=form)
    return _save_limits(request, workspace, form.read_rate_limits(workspace.rate_limits))


@require_POST
@page
def change_scoped_limits(
    request: HttpRequest, page: PageContext, workspace_id: UUID
) -> HttpResponse:
    """Add a rate limit for a part of the workspace's requests, or take one away."""
    workspace, scope = _find_ruled(page, workspace_id)
    limits, wrong = read_scoped_change(workspace.rate_limits, request.POST)
    if wrong is not None:
        return _render(request, page, workspace, scope, scoped_form=wrong)
    return _save_limits(request, workspace, limits)


def _save_limits(
    request: HttpRequest, workspace: Workspace, limits: list[JsonObject] | None
) -> HttpResponse:
    message = "Saved. Requests are held to it within a few seconds."
    return _save(request, workspace, {"rate_limits": limits}, message)


def _save(
    request: HttpRequest, workspace: Workspace, changes: JsonObject, message: str
) -> HttpResponse:
    change_workspace(
        account_id=workspace.account_id,
        reference=str(workspace.pk),
        by=operator_actor(request.user),
        changes=changes,
    )
    messages.success(request, message)
    return HttpResponseRedirect(_link(workspace))


@require_POST
@page
def change_members(request: HttpRequest, page: PageContext, workspace_id: UUID) -> HttpResponse:
    """Add somebody of the account, make them lead, member or viewer, or let them go."""
    workspace, _ = find_workspace(page.scope, workspace_id)
    user_id, action = request.POST.get("user", ""), request.POST.get("to", "")
    place: dict[str, Any] = {
        "account_id": workspace.account_id,
        "reference": str(workspace.pk),
        "by": operator_actor(request.user),
    }
    if action == "add":
        add_members(**place, user_ids=[user_id])
    elif action == "remove":
        remove_members(**place, user_ids=[user_id])
    elif action in WorkspaceMembership.Role.values:
        change_role(**place, user_id=user_id, role=action)
    else:
        raise Http404
    messages.success(request, "Saved.")
    return HttpResponseRedirect(_link(workspace))


def _render(
    request: HttpRequest, page: PageContext, workspace: Workspace, scope: Scope, **forms: Any
) -> HttpResponse:
    """The page of a workspace; `forms` are those that were not saved."""
    members = _list_members(request, workspace)
    if members.is_csv:
        return members.respond()
    context = {
        "title": workspace.name,
        "nav": "Workspaces",
        "workspace": workspace,
        "budgets": list_budgets_of(workspace, page.now),
        "members": members,
        "people": [] if workspace.is_default else list_people_outside(workspace),
        "may_set_budgets": scope.rules_account,
        "budget_form": BudgetForm(),
        "end_user_form": EndUserBudgetForm(workspace),
        "tag_form": TagBudgetForm(workspace),
        "member_keys_form": MemberKeysForm(workspace),
        "member_key_words": describe_member_limits(workspace.member_key_limits),
        "settings_form": SettingsForm(scope, workspace),
        "limit_form": FiguresForm(initial=find_whole_limit(workspace.rate_limits)),
        "whole_limit": describe_figures(find_whole_limit(workspace.rate_limits)),
        "scoped_form": ScopedLimitForm(),
        "scoped_limits": list_scoped_limits(workspace.rate_limits),
        **forms,
    }
    status = 400 if forms else 200
    return render_page(request, page, "console/workspace.html", context, status=status)


def _list_members(request: HttpRequest, workspace: Workspace) -> Listing[Member]:
    buttons = write_buttons(request, "console/parts/member_actions.html", workspace=workspace)
    filters = [Filter("text", "Find a member")]
    columns = MEMBERS if workspace.is_default else (*MEMBERS, buttons)
    listing = Listing[Member](
        request,
        columns,
        "Members",
        filters=filters,
        order="name",
        name="members",
        path=_link(workspace),
    )
    listing.load(partial(list_members, workspace, listing.wanted["text"], listing.order))
    return listing


def _find_ruled(page: PageContext, workspace_id: UUID) -> tuple[Workspace, Scope]:
    """One whose budgets the person sets."""
    workspace, scope = find_workspace(page.scope, workspace_id)
    if not scope.rules_account:
        raise Http404
    return workspace, scope


def _link(workspace: Workspace) -> str:
    return reverse("console:workspace", args=[workspace.pk])
