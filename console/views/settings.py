"""Settings: the account's policy, logging and the audit trail."""

from typing import Any, Final

from django import forms
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from accounts.admin.fields import ModelsField, WordsField
from accounts.models import Account, Workspace
from accounts.ports import higher_apps
from accounts.services.organization import change_account
from accounts.services.records import operator_actor
from console.listing import Filter, Listing, has_words
from console.page import PageContext, page, render_page
from console.queries.audit import ChangeRow, find_change, select_changes
from console.queries.workspaces import list_led_workspaces
from console.scope import Role, Scope
from console.table import Column
from console.words import Badge

_TABS: Final = (
    ("Account", "console:settings", Role.ADMIN),
    ("Logging and privacy", "console:logging", Role.LEAD),
    ("Destinations", "console:destinations", Role.LEAD),
    ("Alerts", "console:alerts", Role.LEAD),
    ("Audit trail", "console:audit", Role.ADMIN),
    ("Sign-in and sessions", "mfa_index", Role.MEMBER),
)
_RANKS: Final = {role: rank for rank, role in enumerate(Role)}
CHANGES: Final = (
    Column(
        "When",
        lambda row: row.record.at,
        "time",
        link=lambda row: reverse("console:change", args=[row.record.pk]),
        order="time",
    ),
    Column("Who", lambda row: row.by),
    Column("What", lambda row: row.what),
    Column("Of", lambda row: row.record.object_id, "code", detail=True),
    Column("From", lambda row: row.record.address, "code", detail=True),
    Column("Browser or program", lambda row: row.record.agent, minor=True),
    Column("Change", lambda row: row.changes),
)
_CSV_CHANGES: Final = (*CHANGES[:-1], Column("Change", lambda row: row.all_changes))
_KEPT, _NOT_KEPT = Badge("warn", "kept, sealed"), Badge("plain", "not kept")
_SENT, _NOT_SENT = Badge("warn", "sent"), Badge("plain", "not sent")
LOGGING: Final = (
    Column(
        "Workspace",
        lambda row: row.name,
        link=lambda row: reverse("console:workspace", args=[row.pk]),
        order="name",
    ),
    Column(
        "Prompts and answers",
        lambda row: _KEPT if row.is_observability_io_logging_enabled else _NOT_KEPT,
        "badge",
        order="kept",
    ),
    Column("Share kept", lambda row: row.io_logging_sampling_rate * 100, "percent", order="share"),
    Column("Keys", lambda row: _count_logged_keys(row), detail=True),
    Column(
        "Traces to destinations",
        lambda row: _SENT if row.is_observability_broadcast_enabled else _NOT_SENT,
        "badge",
    ),
)


class AccountForm(forms.Form):
    """What all requests of an account are held to, whatever workspaces and guardrails allow."""

    name = forms.CharField(max_length=100, label="Name of the account")
    data_collection = forms.ChoiceField(
        choices=Account.DataCollection.choices,
        label="Data collection by providers",
        help_text="Denied: requests go to no endpoint that collects data.",
    )
    zdr = forms.BooleanField(
        required=False,
        label="Zero data retention only",
        help_text="Requests go to endpoints that keep nothing.",
    )
    allowed_models = ModelsField(
        required=False,
        label="Models that may be used",
        help_text="Ids, with commas between; empty allows all of them.",
    )
    allowed_providers = WordsField(
        required=False,
        label="Providers that may be used",
        help_text="Short names, such as openai, with commas between; empty allows all of them.",
    )
    ignored_providers = WordsField(required=False, label="Providers that are never used")
    is_filtered_model_catalog_enabled = forms.BooleanField(
        required=False, label="Lists of models show only what a key may use"
    )

    def __init__(self, account: Account, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._account = account

    def clean_name(self) -> str:
        name: str = self.cleaned_data["name"]
        if Account.objects.filter(name=name).exclude(pk=self._account.pk).exists():
            raise forms.ValidationError("Another account has this name.")
        return name

    def clean_allowed_providers(self) -> list[str] | None:
        return _check_providers(self.cleaned_data["allowed_providers"])

    def clean_ignored_providers(self) -> list[str] | None:
        return _check_providers(self.cleaned_data["ignored_providers"])


def _check_providers(names: list[str] | None) -> list[str] | None:
    if not names:
        return None
    known = higher_apps().find_provider_slugs(names)
    if unknown := [name for name in names if name not in known]:
        raise forms.ValidationError(f"No provider has this name: {', '.join(unknown)[:200]}")
    return [known[name] for name in names]


def render_settings(
    request: HttpRequest,
    page: PageContext,
    url_name: str,
    context: dict[str, Any],
    *,
    template: str,
    status: int = 200,
) -> HttpResponse:
    """A page of settings below the links to all that the person may open."""
    rank = _RANKS[page.scope.role]
    tabs = [
        {"label": label, "url": reverse(name), "is_current": name == url_name}
        for label, name, least in _TABS
        if _RANKS[least] <= rank
    ]
    whole = {"title": "Settings", "tabs": tabs, **context}
    return render_page(request, page, template, whole, status=status)


def require_role(scope: Scope, least: Role) -> None:
    if _RANKS[scope.role] < _RANKS[least]:
        raise Http404


@page
def show_settings(request: HttpRequest, page: PageContext) -> HttpResponse:
    if not page.scope.rules_account:
        is_lead = page.scope.role is Role.LEAD
        return HttpResponseRedirect(reverse("console:logging" if is_lead else "mfa_index"))
    account = page.scope.account
    initial = {name: getattr(account, name) for name in AccountForm.base_fields}
    form = AccountForm(account, request.POST if request.method == "POST" else None, initial=initial)
    if request.method == "POST" and form.is_valid():
        change_account(
            account_id=account.pk, changes=form.cleaned_data, by=operator_actor(request.user)
        )
        messages.success(request, "Saved. Requests follow it within a few seconds.")
        return HttpResponseRedirect(reverse("console:settings"))
    context = {"form": form, "account": account}
    status = 400 if form.is_bound else 200
    template = "console/settings_account.html"
    return render_settings(
        request, page, "console:settings", context, template=template, status=status
    )


@page
def show_logging(request: HttpRequest, page: PageContext) -> HttpResponse:
    require_role(page.scope, Role.LEAD)
    filters = [Filter("text", "Workspace", has_words(lambda row: row.name))]
    listing = Listing[Workspace](request, LOGGING, "Logging", filters=filters)
    listing.load_whole(list_led_workspaces(page.scope))
    if listing.is_csv:
        return listing.respond()
    context = {"list": listing}
    template = "console/settings_logging.html"
    return render_settings(request, page, "console:logging", context, template=template)


@page
def show_audit(request: HttpRequest, page: PageContext) -> HttpResponse:
    require_role(page.scope, Role.ADMIN)
    listing = Listing[ChangeRow](
        request,
        CHANGES,
        "Changes",
        filters=[Filter("text", "User name, or id of an object"), Filter("kind", "Kind of object")],
        order="-time",
        csv_columns=_CSV_CHANGES,
    )
    rows = select_changes(page.scope, listing.wanted)
    # Numbers grow with time, and have an index.
    listing.load_query(rows, {"time": "pk"}, lambda found: [ChangeRow(row) for row in found])
    if listing.is_csv:
        return listing.respond()
    context = {"list": listing}
    template = "console/settings_audit.html"
    return render_settings(request, page, "console:audit", context, template=template)


@page
def show_change(request: HttpRequest, page: PageContext, number: int) -> HttpResponse:
    require_role(page.scope, Role.ADMIN)
    context = {"change": find_change(page.scope, number)}
    template = "console/settings_change.html"
    return render_settings(request, page, "console:audit", context, template=template)


def _count_logged_keys(row: Any) -> str:
    keys = row.io_logging_api_key_ids
    return "all" if keys is None else f"{len(keys)} of its keys"
