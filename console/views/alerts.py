"""Alerts: where people hear of budgets that run out and of what fails, and what was sent."""

from typing import Any, Final
from uuid import UUID

from django import forms
from django.contrib import messages
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_POST

from accounts.admin.fields import WordsField, build_checkboxes
from accounts.events.kinds import EVENT_KINDS
from accounts.events.senders import has_mail_server
from accounts.models import Channel, Delivery, Event
from accounts.services.channels import (
    change_channel,
    create_channel,
    delete_channel,
    find_channel,
    send_test_message,
)
from accounts.services.records import operator_actor
from console.listing import Filter, Listing, has_words, is_value, list_choices, write_buttons
from console.page import PageContext, page, render_page
from console.queries.workspaces import list_led_workspaces
from console.scope import Role, Scope
from console.table import Column
from console.views.settings import render_settings, require_role
from console.words import Badge
from gateway.http.errors import SchemaInvalid
from gateway.outbound.targets import URL_CHARS_MAX

_URL_NAME: Final = "console:alerts"
_ALL: Final = ""


def _name_kind(kind: str) -> str:
    return kind.replace(".", ": ").replace("_", " ")


# What the gateway's operator alone hears of is left out.
_KINDS: Final = [
    (kind, _name_kind(kind))
    for kind in EVENT_KINDS
    if kind not in ("channel.test", "ledger.mismatch", "model.unpriced")
]
_TONES: Final = {"delivered": "good", "failed": "bad"}
DELIVERIES: Final = (
    Column("When", lambda row: row.created_at, "time", order="time"),
    Column(
        "State",
        lambda row: Badge(_TONES.get(row.state, "plain"), row.get_state_display().lower()),
        "badge",
    ),
    Column("Channel", lambda row: row.channel.name),
    Column("Message", lambda row: row.event.title),
    Column("Why it failed", lambda row: row.error, minor=True),
)
EVENTS: Final = (
    Column("When", lambda row: row.at, "time", order="time"),
    Column("Kind", lambda row: _name_kind(row.kind), order="kind"),
    Column("What", lambda row: row.title),
    Column("Workspace", lambda row: row.workspace and row.workspace.name, detail=True),
)


def _describe_channel(row: Channel) -> Badge:
    return Badge("plain", "off") if row.disabled else Badge("good", "on")


CHANNELS: Final = (
    Column("Name", lambda row: row.name, order="name"),
    Column("State", _describe_channel, "badge", order="state"),
    Column("Type", lambda row: row.get_type_display(), order="type"),
    Column("Leads to", lambda row: row.label),
    Column("Events of", lambda row: row.workspace.name if row.workspace else "the whole account"),
    Column("Hears of", lambda row: ", ".join(row.kinds or ()) or "everything", detail=True),
)


class ChannelForm(forms.Form):
    """A channel; its URL goes in and is never shown again."""

    name = forms.CharField(max_length=100, label="Name")
    type = forms.ChoiceField(label="Type", choices=Channel.Type.choices)
    workspace = forms.ChoiceField(label="Events of", required=False)
    url = forms.CharField(
        required=False,
        max_length=URL_CHARS_MAX,
        label="URL",
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
        help_text="Of a webhook or of Slack: https, at a public address.",
    )
    recipients = WordsField(required=False, label="Recipients", help_text="Of e-mail: addresses.")
    kinds = forms.MultipleChoiceField(
        required=False,
        choices=_KINDS,
        widget=build_checkboxes(),
        label="What it hears of",
        help_text="Choose none to hear of all events.",
    )

    def __init__(self, scope: Scope, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        whole = [(_ALL, "The whole account")] if scope.rules_account else []
        led = [(str(each.pk), each.name) for each in list_led_workspaces(scope)]
        self.fields["workspace"].choices = [*whole, *led]  # type: ignore[attr-defined]  # It is a choice.
        self.fields["workspace"].required = not scope.rules_account
        if not has_mail_server():
            offered = [each for each in Channel.Type.choices if each[0] != Channel.Type.EMAIL]
            self.fields["type"].choices = offered  # type: ignore[attr-defined]  # It is a choice.
            del self.fields["recipients"]

    def clean_recipients(self) -> list[str] | None:
        found: list[str] | None = self.cleaned_data["recipients"]
        for address in found or ():
            try:
                validate_email(address)
            except ValidationError:
                raise forms.ValidationError(f"No e-mail address: {address[:100]}") from None
        return found


@page
def show_alerts(request: HttpRequest, page: PageContext) -> HttpResponse:
    require_role(page.scope, Role.LEAD)
    rows = Channel.objects.filter(account=page.scope.account).select_related("workspace")
    led = [row for row in rows.order_by("name", "pk") if _may_change(page.scope, row)]
    channels = Listing[Channel](
        request,
        (*CHANNELS, write_buttons(request, "console/parts/channel_actions.html")),
        "Channels",
        filters=[
            Filter("text", "Name", has_words(lambda row: row.name)),
            Filter("state", "State", is_value(_describe_channel), list_choices(["on", "off"])),
            Filter("type", "Type", is_value(lambda row: row.type), Channel.Type.choices),
        ],
        order="name",
    )
    channels.load_whole(led)
    listings = (channels, _list_events(request, page.scope), _list_messages(request, led))
    for listing in listings:
        if listing.is_csv:
            return listing.respond()
    context = dict(zip(("channels", "events", "messages_sent"), listings, strict=True))
    template = "console/settings_alerts.html"
    return render_settings(request, page, _URL_NAME, context, template=template)


@page
def make_channel(request: HttpRequest, page: PageContext) -> HttpResponse:
    require_role(page.scope, Role.LEAD)
    form = ChannelForm(page.scope, request.POST or None)
    if request.method == "POST" and form.is_valid():
        cleaned = form.cleaned_data
        try:
            made = create_channel(
                account_id=page.scope.account.pk,
                by=operator_actor(request.user),
                workspace_id=UUID(cleaned["workspace"]) if cleaned["workspace"] else None,
                url=cleaned["url"] or None,
                name=cleaned["name"],
                type=cleaned["type"],
                kinds=cleaned["kinds"] or None,
                recipients=cleaned.get("recipients"),
            )
        except SchemaInvalid as error:
            form.add_error(None, error.text)
        else:
            if made.secret is not None:
                context = {"title": "Your new webhook", "nav": "Settings", "secret": made.secret}
                return render_page(request, page, "console/channel_secret.html", context)
            messages.success(request, "The channel is there. Send it a test message.")
            return HttpResponseRedirect(reverse(_URL_NAME))
    status = 400 if form.is_bound else 200
    template = "console/settings_new_channel.html"
    return render_settings(
        request, page, _URL_NAME, {"form": form}, template=template, status=status
    )


@require_POST
@page
def change_one(request: HttpRequest, page: PageContext, channel_id: UUID) -> HttpResponse:
    """Switch a channel, send it a test message, or delete it."""
    require_role(page.scope, Role.LEAD)
    row = find_channel(page.scope.account.pk, channel_id)
    if not _may_change(page.scope, row):
        raise Http404
    to, by = request.POST.get("to"), operator_actor(request.user)
    if to == "tested":
        send_test_message(row)
        messages.success(request, "A test message is on its way.")
    elif to == "deleted":
        delete_channel(row=row, by=by)
        messages.success(request, "Deleted, with its URL.")
    elif to in ("enabled", "disabled"):
        change_channel(row=row, changes={"disabled": to == "disabled"}, by=by)
        messages.success(request, "Saved.")
    else:
        raise Http404
    return HttpResponseRedirect(reverse(_URL_NAME))


def _list_events(request: HttpRequest, scope: Scope) -> Listing[Event]:
    """Those of the account, for a lead those of the workspaces that they lead."""
    filters = [Filter("text", "Event"), Filter("kind", "Kind", choices=_KINDS)]
    listing = Listing[Event](
        request, EVENTS, "Events", filters=filters, order="-time", name="events"
    )
    rows = Event.objects.filter(account=scope.account).select_related("workspace")
    if not scope.rules_account:
        rows = rows.filter(workspace__in=list_led_workspaces(scope))
    if text := listing.wanted["text"]:
        rows = rows.filter(title__icontains=text)
    if kind := listing.wanted["kind"]:
        rows = rows.filter(kind=kind)
    listing.load_query(rows, {"time": "at", "kind": "kind"})
    return listing


def _list_messages(request: HttpRequest, channels: list[Channel]) -> Listing[Delivery]:
    """What these channels were sent."""
    filters = [Filter("text", "Message"), Filter("state", "State", choices=Delivery.State.choices)]
    listing = Listing[Delivery](
        request, DELIVERIES, "Messages", filters=filters, order="-time", name="messages"
    )
    rows = Delivery.objects.filter(channel__in=channels).select_related("event", "channel")
    if text := listing.wanted["text"]:
        rows = rows.filter(event__title__icontains=text)
    if state := listing.wanted["state"]:
        rows = rows.filter(state=state)
    listing.load_query(rows, {"time": "created_at"})
    return listing


def _may_change(scope: Scope, row: Channel) -> bool:
    """The account's are for those who rule it, others for those who lead their workspaces."""
    return scope.rules_account if row.workspace_id is None else scope.leads(row.workspace_id)
