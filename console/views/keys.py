"""Keys: the list, one of them, making, changing, rotating and disabling them."""

from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final

from django import forms
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_POST

from accounts.admin.fields import ModelsField, UsdField
from accounts.models import ApiKey, User
from accounts.services.keys import change_key, create_key, rotate_key, set_disabled
from accounts.services.member_keys import bound_key
from accounts.services.records import operator_actor
from console.forms.rate_limits import (
    LIMIT_FIELDS,
    FiguresForm,
    ScopedLimitForm,
    find_whole_limit,
    list_scoped_limits,
    read_scoped_change,
)
from console.forms.workspace import RESETS, describe_member_limits, fill_workspaces
from console.listing import Filter, Listing
from console.page import PageContext, page, render_page
from console.queries.budgets import read_key_limit
from console.queries.keys import (
    NEWEST_FIRST,
    KeyRow,
    find_key,
    list_keys,
    may_change_limits,
    may_rotate,
    may_switch,
)
from console.queries.snippets import list_snippets
from console.scope import Scope
from console.table import Column
from gateway.http.jsonio import format_usd

_LIFETIMES: Final = {"": None, "1": 1, "7": 7, "30": 30, "90": 90, "365": 365}
_LIFETIME_CHOICES: Final = [
    ("", "Never"),
    ("1", "In a day"),
    ("7", "In a week"),
    ("30", "In 30 days"),
    ("90", "In 90 days"),
    ("365", "In a year"),
]
_NEVER: Final = "never"
# Where a field of the API is called otherwise.
_FIELD_OF: Final = {"limit": "limit_usd"}
_NEW_LIFETIME_CHOICES: Final = [("", "As it is"), (_NEVER, "Never"), *_LIFETIME_CHOICES[1:]]
_GRACE_CHOICES: Final = [
    ("0", "at once"),
    ("3600", "in an hour"),
    ("86400", "in a day"),
    ("604800", "in a week"),
]
COLUMNS: Final = (
    Column("Name", lambda row: row.key.name, link=lambda row: _link(row.key), order="name"),
    Column("Key", lambda row: row.key.label, "code"),
    Column("Status", lambda row: row.status, "badge"),
    Column("Workspace", lambda row: row.key.workspace.name, detail=True),
    Column("Person", lambda row: row.key.creator.username if row.key.creator else None, minor=True),
    Column("Spent today", lambda row: row.usage.spent["day"], "usd", order="today"),
    Column("This month", lambda row: row.usage.spent["month"], "usd", order="month"),
    Column("Limit", lambda row: row.key.limit_nano, "usd"),
    Column("Of the limit", lambda row: row.percent, "percent"),
    Column("Last used", lambda row: row.key.last_used_at, "time", order="used", detail=True),
    Column("Made", lambda row: row.key.created_at, "time", order="created", minor=True),
)


# Of a key's form, what few keys need.
_FURTHER: Final = (*LIMIT_FIELDS, "hedge", "rescue")


def _build_wish(label: str) -> forms.TypedChoiceField:
    """A column that may be null."""
    return forms.TypedChoiceField(
        label=label,
        required=False,
        choices=[("", "As the workspace says"), ("True", "Yes"), ("False", "No")],
        coerce=lambda text: text == "True",
        empty_value=None,
        help_text="Both are charged. Requests may say otherwise.",
    )


class LimitForm(FiguresForm):
    """A name, how much a key may spend, and what it wants where a request does not say."""

    name = forms.CharField(max_length=100, label="Name")
    limit_usd = UsdField(
        label="Limit in USD", required=False, min_value=0, help_text="Empty for no limit."
    )
    limit_reset = forms.ChoiceField(
        label="The limit starts over", required=False, choices=RESETS, help_text="Days are UTC."
    )

    allowed_models = ModelsField(
        label="Only these models",
        required=False,
        help_text="Ids, with commas between; empty for all models.",
    )
    hedge = _build_wish("Ask a second endpoint where the first is late")
    rescue = _build_wish("Continue streams that break off")

    def first_fields(self) -> list[forms.BoundField]:
        return [self[name] for name in self.fields if name not in _FURTHER]

    def further_fields(self) -> list[forms.BoundField]:
        """What few keys need: folded on the page."""
        return [self[name] for name in _FURTHER]

    def has_further(self) -> bool:
        """Whether any of these says something, or is wrong."""
        values = (each.errors or each.value() for each in self.further_fields())
        return any(value not in (None, "") for value in values)

    def read_reset(self) -> str | None:
        return self.cleaned_data["limit_reset"] or None


class NewKeyForm(LimitForm):
    """What a new key is made of."""

    workspace = forms.ChoiceField(label="Workspace")
    lifetime = forms.ChoiceField(label="The key expires", required=False, choices=_LIFETIME_CHOICES)

    field_order = (
        "name",
        "workspace",
        "limit_usd",
        "limit_reset",
        "lifetime",
        "allowed_models",
        *LIMIT_FIELDS,
    )

    def __init__(self, scope: Scope, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.workspaces = fill_workspaces(self.fields["workspace"], scope)
        self._scope = scope
        self.creator: User | None = None
        # What the person's keys have there at most, by the workspace's name.
        self.bounds = [
            (workspace.name, describe_member_limits(workspace.member_key_limits))
            for pk, workspace in self.workspaces.items()
            if workspace.member_key_limits and not scope.leads(workspace.pk)
        ]

    def clean(self) -> dict[str, Any]:
        """With the creator, and the columns of what the workspace lets keys of members have."""
        cleaned: dict[str, Any] = super().clean() or {}
        if self.errors:
            return cleaned
        wanted = {
            "limit_nano": cleaned["limit_usd"],
            "limit_reset": self.read_reset(),
            "allowed_models": cleaned["allowed_models"],
            "rate_limits": self.read_rate_limits(),
        }
        self.creator = self._scope.user if self._scope.is_member else None
        creator_id = self.creator.pk if self.creator else None
        bound = bound_key(self.workspaces[cleaned["workspace"]].pk, creator_id, wanted)
        for issue in bound.issues:
            self.add_error(_FIELD_OF.get(issue.path, issue.path), issue.message)
        return cleaned | {"limits": bound.fields}

    def read_expiry(self, now: datetime) -> datetime | None:
        days = _LIFETIMES[self.cleaned_data["lifetime"]]
        return None if days is None else now + timedelta(days=days)


class ChangedKeyForm(LimitForm):
    """What a key is from now on."""

    lifetime = forms.ChoiceField(
        label="The key expires", required=False, choices=_NEW_LIFETIME_CHOICES
    )

    field_order = ("name", "limit_usd", "limit_reset", "lifetime", "allowed_models", *LIMIT_FIELDS)

    def read_changes(self, key: ApiKey, now: datetime) -> dict[str, Any]:
        """The columns to change."""
        values, days = self.cleaned_data, _LIFETIMES.get(self.cleaned_data["lifetime"])
        expiry = {} if not values["lifetime"] else {"expires_at": days and now + timedelta(days)}
        return {
            "name": values["name"],
            "limit_nano": values["limit_usd"],
            "limit_reset": self.read_reset(),
            "allowed_models": values["allowed_models"],
            "rate_limits": self.read_rate_limits(key.rate_limits),
            "hedge": values["hedge"],
            "rescue": values["rescue"],
            **expiry,
        }


class RotationForm(forms.Form):
    """For how long the old string works on."""

    grace_s = forms.ChoiceField(choices=_GRACE_CHOICES)


@page
def show_keys(request: HttpRequest, page: PageContext) -> HttpResponse:
    filters = [Filter("text", "Name, beginning of the key, or person")]
    listing = Listing[KeyRow](request, COLUMNS, "Keys", filters=filters, order=NEWEST_FIRST)
    text = listing.wanted["text"]
    listing.load(partial(list_keys, page.scope, text, page.now, listing.order))
    if listing.is_csv:
        return listing.respond()
    context = {"title": "Keys", "list": listing}
    return render_page(request, page, "console/keys.html", context)


@page
def make_key(request: HttpRequest, page: PageContext) -> HttpResponse:
    form = NewKeyForm(page.scope, request.POST if request.method == "POST" else None)
    if request.method != "POST" or not form.is_valid():
        context = {"title": "New key", "nav": "Keys", "form": form}
        status = 400 if form.is_bound else 200
        return render_page(request, page, "console/new_key.html", context, status=status)
    workspace = form.workspaces[form.cleaned_data["workspace"]]
    key, string = create_key(
        account=page.scope.account,
        name=form.cleaned_data["name"],
        workspace=workspace,
        creator=form.creator,
        expires_at=form.read_expiry(page.now),
        hedge=form.cleaned_data["hedge"],
        rescue=form.cleaned_data["rescue"],
        **form.cleaned_data["limits"],
        by=operator_actor(request.user),
    )
    return _show_string(request, page, key, string, "Your new key")


@page
def show_key(request: HttpRequest, page: PageContext, number: int) -> HttpResponse:
    row, scope = find_key(page.scope, number, page.now)
    form = _build_changed_form(row, request.POST if request.method == "POST" else None)
    if request.method == "POST":
        if not may_change_limits(scope, row.key):
            raise Http404
        if form.is_valid():
            changes = form.read_changes(row.key, page.now)
            by = operator_actor(request.user)
            change_key(keys=ApiKey.objects.filter(pk=row.key.pk), changes=changes, by=by)
            messages.success(request, "Saved. It holds from now on.")
            return HttpResponseRedirect(_link(row.key))
    return _render_key(request, page, row, scope, form=form)


@require_POST
@page
def change_rate_limits(request: HttpRequest, page: PageContext, number: int) -> HttpResponse:
    """Add a rate limit for a part of the key's requests, or take one away."""
    row, scope = find_key(page.scope, number, page.now)
    if not may_change_limits(scope, row.key):
        raise Http404
    limits, wrong = read_scoped_change(row.key.rate_limits, request.POST)
    if wrong is not None:
        return _render_key(request, page, row, scope, scoped_form=wrong)
    change_key(
        keys=ApiKey.objects.filter(pk=row.key.pk),
        changes={"rate_limits": limits},
        by=operator_actor(request.user),
    )
    messages.success(request, "Saved. It holds within a second.")
    return HttpResponseRedirect(_link(row.key))


@require_POST
@page
def switch_key(request: HttpRequest, page: PageContext, number: int) -> HttpResponse:
    """Disable a key, or enable it again, which takes more: somebody may have had a reason."""
    row, scope = find_key(page.scope, number, page.now)
    disabled = request.POST.get("to") == "disabled"
    may = may_switch if disabled else may_change_limits
    if not may(scope, row.key):
        raise Http404
    keys = ApiKey.objects.filter(pk=row.key.pk)
    set_disabled(keys=keys, disabled=disabled, by=operator_actor(request.user))
    done = "Disabled. It stops working within a second." if disabled else "It works again."
    messages.success(request, done)
    return HttpResponseRedirect(_link(row.key))


@require_POST
@page
def renew_key(request: HttpRequest, page: PageContext, number: int) -> HttpResponse:
    """Give a key a new string."""
    row, scope = find_key(page.scope, number, page.now)
    form = RotationForm(request.POST)
    if not form.is_valid() or not may_rotate(scope, row.key):
        raise Http404
    keys = ApiKey.objects.filter(pk=row.key.pk)
    grace_s = int(form.cleaned_data["grace_s"])
    key, string = rotate_key(keys=keys, grace_s=grace_s, by=operator_actor(request.user))
    return _show_string(request, page, key, string, f"The new string of {key.name}")


def _show_string(
    request: HttpRequest, page: PageContext, key: ApiKey, string: str, title: str
) -> HttpResponse:
    """The one page that has a key's string. It is kept nowhere."""
    context = {
        "title": title,
        "nav": "Keys",
        "key": key,
        "string": string,
        "snippets": list_snippets(request.build_absolute_uri("/"), string),
    }
    return render_page(request, page, "console/key_string.html", context)


def _link(key: ApiKey) -> str:
    return reverse("console:key", args=[key.pk])


def _build_changed_form(row: KeyRow, data: Any = None) -> ChangedKeyForm:
    initial = {
        "name": row.key.name,
        "limit_usd": "" if row.key.limit_nano is None else format_usd(row.key.limit_nano),
        "limit_reset": row.key.limit_reset or "",
        "allowed_models": row.key.allowed_models,
        "hedge": row.key.hedge,
        "rescue": row.key.rescue,
        **find_whole_limit(row.key.rate_limits),
    }
    return ChangedKeyForm(data, initial=initial)


def _render_key(
    request: HttpRequest, page: PageContext, row: KeyRow, scope: Scope, **given: Any
) -> HttpResponse:
    """The page of a key; `given` forms are those that were not saved."""
    context = {
        "title": row.key.name,
        "nav": "Keys",
        "row": row,
        "limit": read_key_limit(row.key, row.counted_nano, page.now),
        "form": _build_changed_form(row),
        "scoped_form": ScopedLimitForm(),
        "scoped_limits": list_scoped_limits(row.key.rate_limits),
        "may_change": may_change_limits(scope, row.key),
        "may_switch": may_switch(scope, row.key),
        "may_rotate": may_rotate(scope, row.key),
        "graces": _GRACE_CHOICES,
        **given,
    }
    status = 400 if any(form.is_bound for form in given.values()) else 200
    return render_page(request, page, "console/key.html", context, status=status)
