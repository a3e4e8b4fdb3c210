"""Destinations of traces: which there are and how they do, making, switching, testing them."""

from typing import Any, Final, Literal, get_args, get_origin
from uuid import UUID

from django import forms
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_POST

from accounts.roles import Action
from accounts.services.records import operator_actor
from console.listing import Filter, Listing, has_words, is_value, list_choices, write_buttons
from console.page import PageContext, page
from console.queries.workspaces import list_led_workspaces
from console.scope import Role, Scope
from console.table import Column
from console.views.settings import render_settings, require_role
from console.words import Badge
from gateway.http.errors import SchemaInvalid
from gateway.http.jsonio import JsonObject
from routing.destinations.delivery import try_connection
from routing.destinations.models import Destination
from routing.destinations.senders import SENDERS
from routing.destinations.services import (
    change_destination,
    create_destination,
    delete_destination,
    find_destination,
)

_NAMES: Final = {
    "otel-collector": "OpenTelemetry collector",
    "s3": "S3",
    "posthog": "PostHog",
    "langsmith": "LangSmith",
}
_HEADERS: Final = "headers"
_URL_NAME: Final = "console:destinations"


_STATES: Final = {"on": "good", "off": "plain", "dropping": "bad"}


def _describe_state(row: Destination) -> Badge:
    word = "off" if not row.enabled else "dropping" if row.drops_in_row else "on"
    return Badge(_STATES[word], word)


def _name_workspace(row: Destination) -> str:
    return row.workspace.name if row.workspace else ""


COLUMNS: Final = (
    Column("Name", lambda row: row.name, order="name"),
    Column("State", _describe_state, "badge", order="state"),
    Column("Type", lambda row: name_type(row.type), order="type"),
    Column("Workspace", _name_workspace, order="workspace"),
    Column("Delivered", lambda row: row.delivered, "count", order="delivered"),
    Column("Dropped", lambda row: row.dropped, "count", order="dropped"),
    Column("Last error", lambda row: row.last_error and row.last_error[:120], detail=True),
)


class HeadersField(forms.CharField):
    """Headers, one `Name: value` a line; None where there are none."""

    widget = forms.Textarea(attrs={"rows": 2})

    def clean(self, value: Any) -> Any:
        pairs = [line.partition(":") for line in super().clean(value).splitlines() if line.strip()]
        if not all(mark for _, mark, _ in pairs):
            raise forms.ValidationError("One header a line, as Name: value.")
        return {name.strip(): text.strip() for name, _, text in pairs} or None


class DestinationForm(forms.Form):
    """A destination of one type: its name and workspace, and what its sender needs."""

    name = forms.CharField(max_length=100, label="Name")
    workspace = forms.ChoiceField(label="Workspace", help_text="Whose requests are sent.")
    sampling_rate = forms.FloatField(
        min_value=0.0001, max_value=1, initial=1, label="Share of requests that are sent"
    )
    privacy_mode = forms.BooleanField(
        required=False, label="Without prompts and answers", initial=True
    )

    def __init__(self, scope: Scope, type_name: str, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.workspaces = {str(each.pk): each for each in list_led_workspaces(scope)}
        choices = [(pk, workspace.name) for pk, workspace in self.workspaces.items()]
        self.fields["workspace"].choices = choices  # type: ignore[attr-defined]  # It is a choice.
        if not scope.allows(Action.CONTENTS):
            # Its value is the initial one then, whatever is sent.
            self.fields["privacy_mode"].disabled = True
            self.fields["privacy_mode"].help_text = "Admins of the account may send them too."
        self.config_fields = _build_config_fields(type_name)
        self.fields.update(self.config_fields)

    def read_config(self) -> JsonObject:
        """What was filled in of the sender's fields."""
        given = {name: self.cleaned_data.get(name) for name in self.config_fields}
        return {name: value for name, value in given.items() if value not in (None, "")}


def _build_config_fields(type_name: str) -> dict[str, forms.Field]:
    config = SENDERS[type_name].config
    fields: dict[str, forms.Field] = {}
    for name, info in config.model_fields.items():
        default = None if info.is_required() else info.default
        common: dict[str, Any] = {"required": info.is_required(), "label": _label(name)}
        if get_origin(info.annotation) is Literal:
            words = [(each, each) for each in get_args(info.annotation)]
            fields[name] = forms.ChoiceField(choices=words, initial=default, **common)
        elif name == _HEADERS:
            text = "One a line, as Name: value."
            fields[name] = HeadersField(help_text=text, **common)
        else:
            is_secret = name in config.secrets
            attrs = {"autocomplete": "off"}
            widget = forms.PasswordInput(attrs=attrs) if is_secret else forms.TextInput(attrs=attrs)
            fields[name] = forms.CharField(
                max_length=4_096, initial=default, widget=widget, **common
            )
    return fields


def _label(name: str) -> str:
    """`Secret access key` of `secretAccessKey`."""
    words = "".join(f" {char.lower()}" if char.isupper() else char for char in name)
    return words[:1].upper() + words[1:].replace("dsn", "DSN").replace("url", "URL")


def name_type(type_name: str) -> str:
    return _NAMES.get(type_name, type_name.capitalize())


@page
def show_destinations(request: HttpRequest, page: PageContext) -> HttpResponse:
    require_role(page.scope, Role.LEAD)
    rows = Destination.objects.filter(account=page.scope.account).select_related("workspace")
    if page.scope.view.workspace_ids is not None:
        rows = rows.filter(workspace_id__in=page.scope.view.workspace_ids)
    led = [row for row in rows.order_by("name", "pk") if page.scope.leads(row.workspace_id)]
    types = [(name, name_type(name)) for name in sorted(SENDERS)]
    names = list_choices(row.workspace.name for row in led if row.workspace)
    listing = Listing[Destination](
        request,
        (*COLUMNS, write_buttons(request, "console/parts/destination_actions.html")),
        "Destinations",
        filters=[
            Filter("text", "Name", has_words(lambda row: row.name)),
            Filter("state", "State", is_value(_describe_state), list_choices(_STATES)),
            Filter("type", "Type", is_value(lambda row: row.type), types),
            Filter("of", "Workspace", is_value(_name_workspace), names),
        ],
        order="name",
    )
    listing.load_whole(led)
    if listing.is_csv:
        return listing.respond()
    context = {"list": listing, "types": types}
    template = "console/settings_destinations.html"
    return render_settings(request, page, _URL_NAME, context, template=template)


@page
def make_destination(request: HttpRequest, page: PageContext, type_name: str) -> HttpResponse:
    require_role(page.scope, Role.LEAD)
    if type_name not in SENDERS:
        raise Http404
    form = DestinationForm(page.scope, type_name, request.POST or None)
    if request.method == "POST" and form.is_valid():
        cleaned = form.cleaned_data
        try:
            create_destination(
                account_id=page.scope.account.pk,
                workspace_id=form.workspaces[cleaned["workspace"]].pk,
                type=type_name,
                config=form.read_config(),
                by=operator_actor(request.user),
                name=cleaned["name"],
                sampling_rate=cleaned["sampling_rate"],
                privacy_mode=cleaned["privacy_mode"],
            )
        except SchemaInvalid as error:
            form.add_error(None, error.text)
        else:
            text = "It gets traces of workspaces that send them, from the next request on."
            messages.success(request, text)
            return HttpResponseRedirect(reverse(_URL_NAME))
    context = {"form": form, "type_name": name_type(type_name)}
    status = 400 if form.is_bound else 200
    template = "console/settings_new_destination.html"
    return render_settings(request, page, _URL_NAME, context, template=template, status=status)


@require_POST
@page
def change_one(request: HttpRequest, page: PageContext, destination_id: UUID) -> HttpResponse:
    """Switch a destination, test its connection, or delete it."""
    row = find_destination(page.scope.account.pk, destination_id)
    if not page.scope.leads(row.workspace_id):
        raise Http404
    to, by = request.POST.get("to"), operator_actor(request.user)
    if to == "tested":
        result = try_connection(row)
        tell = messages.success if result.passed else messages.error
        tell(request, f"{row.name}: {result.message}")
    elif to == "deleted":
        delete_destination(row=row, by=by)
        messages.success(request, "Deleted, with its secrets.")
    elif to in ("enabled", "disabled"):
        changes: dict[str, Any] = {"enabled": to == "enabled"}
        if to == "enabled" and not page.scope.allows(Action.CONTENTS):
            changes["privacy_mode"] = True
        change_destination(account_id=row.account_id, destination_id=row.pk, changes=changes, by=by)
        text = "It gets no prompts and answers." if "privacy_mode" in changes else "Saved."
        messages.success(request, text)
    else:
        raise Http404
    return HttpResponseRedirect(reverse(_URL_NAME))
