"""Workspaces: the list, one of them with its budgets, members and defaults, and making one."""

from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from django import forms
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_POST

from accounts.admin.fields import EnforcementField, UsdField, build_checkboxes
from accounts.models import ApiKey, Workspace, WorkspaceBudget, WorkspaceMembership
from accounts.models.account import SAMPLING_RATE_MIN, SERVER_TOOLS
from accounts.ports import higher_apps
from accounts.roles import Action
from accounts.services.records import operator_actor
from accounts.services.workspace_budgets import delete_budget, set_budget
from accounts.services.workspace_members import add_members, change_role, remove_members
from accounts.services.workspaces import (
    SLUG_CHARS_MAX,
    SLUG_PATTERN,
    change_workspace,
    create_workspace,
)
from accounts.views.schemas.workspace import END_USER_LIMITS_MAX
from console.page import PageContext, page, render_page
from console.queries.budgets import list_budgets_of
from console.queries.workspaces import (
    find_workspace,
    list_members,
    list_people_outside,
    list_workspaces,
)
from console.scope import Role, Scope
from console.table import Column, Table, csv_response, render_table
from console.views.settings import require_role
from gateway.end_users import hash_user
from gateway.http.jsonio import JsonObject, format_usd

COLUMNS: Final = (
    Column("Name", lambda row: row.workspace.name, link=lambda row: _link(row.workspace)),
    Column("Slug", lambda row: row.workspace.slug, "code", detail=True),
    Column("Fullest budget", lambda row: row.budget_state, "badge"),
    Column("Spent", lambda row: row.spend_nano, "usd"),
    Column("Members", lambda row: row.members, "count"),
    Column("Keys", lambda row: row.keys, "count"),
    Column("Default model", lambda row: row.workspace.default_text_model, "code", detail=True),
    Column("Made", lambda row: row.workspace.created_at, "time", minor=True),
)

# What decides who gets to see prompts and answers, and is for those alone who may read them.
_CONTENTS: Final = (
    "is_observability_io_logging_enabled",
    "io_logging_sampling_rate",
    "is_observability_broadcast_enabled",
)


class BudgetForm(forms.Form):
    """A budget of one interval. It holds from the moment it is saved."""

    interval = forms.ChoiceField(label="Interval", choices=WorkspaceBudget.Interval.choices)
    limit_usd = UsdField(
        label="Limit in USD",
        min_value=Decimal("1E-9"),
        # Browsers compare steps as small as a billionth badly.
        widget=forms.NumberInput(attrs={"step": "any"}),
    )
    enforcement = EnforcementField(label="When it is spent")


class SettingsForm(forms.Form):
    """What holds for requests of a workspace that do not say otherwise, and what it keeps."""

    name = forms.CharField(max_length=100, label="Name")
    default_text_model = forms.CharField(
        max_length=200,
        required=False,
        label="Default model",
        help_text="For requests that name none.",
    )
    default_image_model = forms.CharField(
        max_length=200, required=False, label="Default image model"
    )
    default_provider_sort = forms.TypedChoiceField(
        label="Order of providers",
        required=False,
        empty_value=None,
        choices=[("", "Balanced by price and health"), *Workspace.ProviderSort.choices],
    )
    is_observability_io_logging_enabled = forms.BooleanField(
        required=False,
        label="Keep prompts and answers",
        help_text="Sealed; admins of the account can read them.",
    )
    io_logging_sampling_rate = forms.FloatField(
        min_value=SAMPLING_RATE_MIN,
        max_value=1,
        label="Share of requests that are kept",
        help_text="1 keeps all of them.",
    )
    is_observability_broadcast_enabled = forms.BooleanField(
        required=False,
        label="Send traces to destinations",
        help_text="See Settings, Destinations.",
    )
    disabled_server_tools = forms.MultipleChoiceField(
        choices=[(name, name.removeprefix("router:")) for name in SERVER_TOOLS],
        widget=build_checkboxes(),
        required=False,
        label="Server tools that are off",
    )

    def __init__(self, scope: Scope, workspace: Workspace, data: Any = None) -> None:
        initial = {name: getattr(workspace, name) for name in self.base_fields}
        super().__init__(data, initial=initial)
        if not scope.allows(Action.CONTENTS):
            for name in _CONTENTS:
                self.fields[name].disabled = True
                self.fields[name].help_text = "Admins of the account change it."

    def read_changes(self) -> dict[str, Any]:
        """What the person may change."""
        return {n: value for n, value in self.cleaned_data.items() if not self.fields[n].disabled}

    def clean_default_text_model(self) -> str:
        return _check_model(self.cleaned_data["default_text_model"])

    def clean_default_image_model(self) -> str:
        return _check_model(self.cleaned_data["default_image_model"])

    def clean_disabled_server_tools(self) -> list[str] | None:
        return self.cleaned_data["disabled_server_tools"] or None


class EndUserBudgetForm(forms.Form):
    """What each end user of a workspace may spend, and one of them where that differs."""

    interval = forms.ChoiceField(
        required=False,
        label="Interval",
        choices=[("", "None: end users have no budget"), *ApiKey.Reset.choices],
    )
    limit_usd = UsdField(
        required=False,
        min_value=Decimal("1E-9"),
        label="Limit of each in USD",
        help_text="Empty: only those with a limit of their own are held to one.",
        widget=forms.NumberInput(attrs={"step": "any"}),
    )
    user = forms.CharField(
        required=False,
        max_length=256,
        label="An end user who differs",
        help_text="The id as requests give it in user.",
    )
    user_limit_usd = UsdField(
        required=False,
        min_value=Decimal("1E-9"),
        label="Their limit in USD",
        help_text="Empty: no limit.",
        widget=forms.NumberInput(attrs={"step": "any"}),
    )

    def __init__(self, workspace: Workspace, data: Any = None) -> None:
        self._workspace = workspace
        self._before: JsonObject = workspace.end_user_budget or {"limits": {}}
        limit_nano = self._before.get("limit_nano")
        initial = {
            "interval": self._before.get("interval", ""),
            "limit_usd": "" if limit_nano is None else format_usd(limit_nano),
        }
        # The form of budgets has fields of the same names on the same page.
        super().__init__(data, initial=initial, auto_id="end_user_%s")

    def count_differing(self) -> int:
        """How many end users have limits of their own. Their names are kept as hashes only."""
        return len(self._before["limits"])

    def clean(self) -> dict[str, Any]:
        said: dict[str, Any] = super().clean() or {}
        if said.get("user") and self.count_differing() >= END_USER_LIMITS_MAX:
            self.add_error("user", f"{END_USER_LIMITS_MAX} end users have limits of their own.")
        return said

    def build_budget(self) -> JsonObject | None:
        """The column."""
        said = self.cleaned_data
        if not said["interval"]:
            return None
        limits = dict(self._before["limits"])
        if said["user"]:
            limits[hash_user(self._workspace.account_id, said["user"])] = said["user_limit_usd"]
        return {"interval": said["interval"], "limit_nano": said["limit_usd"], "limits": limits}


def _check_model(name: str) -> str:
    if name and not higher_apps().is_known_model(name):
        raise forms.ValidationError("No model has this name.")
    return name


class NewWorkspaceForm(forms.Form):
    """A workspace; its slug is part of what callers write."""

    name = forms.CharField(max_length=100, label="Name")
    slug = forms.RegexField(
        SLUG_PATTERN,
        max_length=SLUG_CHARS_MAX,
        label="Slug",
        help_text="Lowercase letters and digits, with single hyphens between.",
    )


@page
def show_workspaces(request: HttpRequest, page: PageContext) -> HttpResponse:
    require_role(page.scope, Role.LEAD)
    rows = list_workspaces(page.scope, page.period.start(page.now), page.now)
    if request.GET.get("csv"):
        return csv_response("workspaces", COLUMNS, rows)
    context = {
        "title": "Workspaces",
        "is_empty": not rows,
        "may_make": page.scope.rules_account,
        "table": render_table(request, Table(COLUMNS, rows, "Workspaces")),
    }
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
    workspace, scope = _find(request, workspace_id)
    return _render(request, page, workspace, scope)


@require_POST
@page
def change_settings(request: HttpRequest, page: PageContext, workspace_id: UUID) -> HttpResponse:
    workspace, scope = _find(request, workspace_id)
    form = SettingsForm(scope, workspace, request.POST)
    if not form.is_valid():
        return _render(request, page, workspace, scope, settings_form=form)
    change_workspace(
        account_id=workspace.account_id,
        reference=str(workspace.pk),
        by=operator_actor(request.user),
        changes=form.read_changes(),
    )
    messages.success(request, "Saved. Requests follow it within a few seconds.")
    return HttpResponseRedirect(_link(workspace))


@require_POST
@page
def change_budget(request: HttpRequest, page: PageContext, workspace_id: UUID) -> HttpResponse:
    """Set a budget. Who spends does not raise their own limit: an admin of the account does."""
    workspace, scope = _find_ruled(request, workspace_id)
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
    workspace, _ = _find_ruled(request, workspace_id)
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
    workspace, scope = _find_ruled(request, workspace_id)
    form = EndUserBudgetForm(workspace, request.POST)
    if not form.is_valid():
        return _render(request, page, workspace, scope, end_user_form=form)
    change_workspace(
        account_id=workspace.account_id,
        reference=str(workspace.pk),
        by=operator_actor(request.user),
        changes={"end_user_budget": form.build_budget()},
    )
    messages.success(request, "Saved. Requests of end users are held to it from now on.")
    return HttpResponseRedirect(_link(workspace))


@require_POST
@page
def change_members(request: HttpRequest, page: PageContext, workspace_id: UUID) -> HttpResponse:
    """Add somebody of the account, make them lead or member, or let them go."""
    workspace, _ = _find(request, workspace_id)
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
    context = {
        "title": workspace.name,
        "nav": "Workspaces",
        "workspace": workspace,
        "budgets": list_budgets_of(workspace, page.now),
        "members": list_members(workspace),
        "people": [] if workspace.is_default else list_people_outside(workspace),
        "may_set_budgets": scope.rules_account,
        "budget_form": BudgetForm(),
        "end_user_form": EndUserBudgetForm(workspace),
        "settings_form": SettingsForm(scope, workspace),
        **forms,
    }
    status = 400 if forms else 200
    return render_page(request, page, "console/workspace.html", context, status=status)


def _find(request: HttpRequest, workspace_id: UUID) -> tuple[Workspace, Scope]:
    found = find_workspace(request.user, workspace_id)
    if found is None:
        raise Http404
    return found


def _find_ruled(request: HttpRequest, workspace_id: UUID) -> tuple[Workspace, Scope]:
    """One whose budgets the person sets."""
    workspace, scope = _find(request, workspace_id)
    if not scope.rules_account:
        raise Http404
    return workspace, scope


def _link(workspace: Workspace) -> str:
    return reverse("console:workspace", args=[workspace.pk])
