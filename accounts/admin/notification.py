"""Where events are sent to, what happened, and what became of each message."""

from datetime import UTC, datetime
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from accounts.admin.fields import WordsField, build_checkboxes
from accounts.events.delivery import resend
from accounts.events.kinds import EVENT_KINDS
from accounts.events.senders import has_mail_server, parse_channel_url
from accounts.models import Alarm, Channel, Delivery, Event
from accounts.services.channels import (
    ChannelWithSecret,
    change_channel,
    create_channel,
    delete_channel,
    send_test_message,
)
from accounts.services.records import operator_actor
from gateway.admin import Form, KeptRowsAdmin, PageAdmin, ReadOnlyAdmin
from gateway.http.jsonio import JsonObject
from gateway.outbound.targets import URL_CHARS_MAX, TargetRefused


class ChannelForm(Form):
    """A channel. Its URL goes in and is never shown again."""

    url = forms.CharField(
        required=False,
        max_length=URL_CHARS_MAX,
        label="URL",
        widget=forms.PasswordInput(attrs={"autocomplete": "off", "size": 60}),
        help_text="Of a webhook or of Slack. Empty keeps what is set.",
    )
    recipients = WordsField(required=False, help_text="Of e-mail: addresses.")
    kinds = forms.MultipleChoiceField(
        required=False,
        choices=[(kind, kind) for kind in EVENT_KINDS if kind != "channel.test"],
        widget=build_checkboxes(),
        help_text="What it wants to hear of; nothing chosen is everything.",
    )

    class Meta:
        model = Channel
        fields = ("account", "workspace", "name", "type", "disabled")
        help_texts = {
            "account": "Empty: the operator's, which hears of all accounts and of the gateway.",
            "workspace": "Only events of this workspace; empty for all of the account's.",
        }

    def clean_recipients(self) -> list[str] | None:
        found: list[str] | None = self.cleaned_data["recipients"]
        for address in found or ():
            forms.EmailField().clean(address)
        return found

    def clean_url(self) -> str:
        url: str = self.cleaned_data["url"]
        try:
            if url:
                parse_channel_url(url)
        except TargetRefused as error:
            raise forms.ValidationError(f"{error}.") from None
        return url

    def clean(self) -> JsonObject:
        cleaned: JsonObject = super().clean() or self.cleaned_data
        kind = cleaned.get("type") or self.instance.type
        account = cleaned.get("account") or self.instance.account
        workspace = cleaned.get("workspace")
        if workspace is not None and (account is None or workspace.account_id != account.pk):
            self.add_error("workspace", "This workspace belongs to another account.")
        if kind == Channel.Type.EMAIL:
            if not has_mail_server():
                self.add_error(None, "This gateway sends no e-mail, because EMAIL_URL is not set.")
            if cleaned.get("url"):
                self.add_error("url", "Not for e-mail.")
            if not cleaned.get("recipients") and "recipients" not in self.errors:
                self.add_error("recipients", "E-mail needs one at least.")
        elif cleaned.get("recipients"):
            self.add_error("recipients", "Only for e-mail.")
        elif self.instance._state.adding and not cleaned.get("url") and "url" not in self.errors:
            self.add_error("url", "A webhook or Slack needs one.")
        return cleaned


@admin.register(Channel)
class ChannelAdmin(KeptRowsAdmin):
    """Made, changed and deleted through the services, so that every rule holds here too."""

    form = ChannelForm
    list_display = ("name", "type", "account", "workspace", "label", "disabled")
    list_filter = ("type", "disabled")
    list_select_related = ("account", "workspace__account")
    search_fields = ("name", "account__name")
    ordering = ("account__name", "name")
    autocomplete_fields = ("account", "workspace")
    actions = ("test_channels",)
    fixed_fields = ("account", "workspace", "type", "label", "created_at", "updated_at")
    new_fields = (
        *("account", "workspace", "name", "type"),
        *("url", "recipients", "kinds", "disabled"),
    )
    fields = ("name", *fixed_fields, "url", "recipients", "kinds", "disabled")
    viewer_fields = ("name", *fixed_fields, "disabled")

    def get_form(
        self, request: HttpRequest, obj: Any = None, change: bool = False, **options: Any
    ) -> Any:
        form: Any = super().get_form(request, obj, change, **options)
        if obj is not None and "recipients" in form.base_fields:
            form.base_fields["recipients"].initial = obj.recipients
            form.base_fields["kinds"].initial = obj.kinds
        return form

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        cleaned, by = form.cleaned_data, operator_actor(request.user)
        wanted = {"name": cleaned["name"], "disabled": cleaned["disabled"]}
        wanted |= {"kinds": cleaned["kinds"] or None, "recipients": cleaned["recipients"] or None}
        if change:
            changes = wanted | ({"url": cleaned["url"]} if cleaned["url"] else {})
            changed = change_channel(row=obj, changes=changes, by=by)
            obj.secret_shown_once = changed.secret
            return
        made: ChannelWithSecret = create_channel(
            account_id=obj.account_id,
            workspace_id=obj.workspace_id,
            type=obj.type,
            url=cleaned["url"] or None,
            by=by,
            **wanted,
        )
        obj.pk = made.row.pk
        obj.refresh_from_db()
        # Carried to the page that answers this request, and forgotten with it.
        obj.secret_shown_once = made.secret

    def response_add(
        self, request: HttpRequest, obj: Any, post_url_continue: Any = None
    ) -> HttpResponse:
        if obj.secret_shown_once is None:
            return super().response_add(request, obj, post_url_continue)
        return self._show_secret(request, obj, "Channel made")

    def response_change(self, request: HttpRequest, obj: Any) -> HttpResponse:
        if obj.secret_shown_once is None:
            return super().response_change(request, obj)
        return self._show_secret(request, obj, "Channel changed")

    def _show_secret(self, request: HttpRequest, obj: Any, title: str) -> HttpResponse:
        """The page with a webhook's secret: not a message of the next page, which would be kept."""
        context = {
            **self.admin_site.each_context(request),
            "title": title,
            "opts": self.opts,
            "channel": obj,
            "secret": obj.secret_shown_once,
        }
        return TemplateResponse(request, "admin/accounts/channel/made.html", context)

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        delete_channel(row=obj, by=operator_actor(request.user))

    @admin.action(description="Send a test message", permissions=["change"])
    def test_channels(self, request: HttpRequest, rows: QuerySet[Channel]) -> None:
        for row in rows:
            send_test_message(row)
        messages.success(request, "Test messages go out within seconds; see Deliveries.")


@admin.register(Event)
class EventAdmin(ReadOnlyAdmin):
    list_display = ("at", "kind", "account", "title")
    list_filter = ("kind",)
    list_select_related = ("account",)
    ordering = ("-at",)
    search_fields = ("title", "account__name")
    fields = ("at", "kind", "account", "workspace", "title", "text", "data", "key")


@admin.register(Delivery)
class DeliveryAdmin(PageAdmin):
    """What was sent, and what is still tried; failed ones can be sent again."""

    list_display = ("created_at", "state", "channel", "what", "attempts", "error")
    list_filter = ("state",)
    list_select_related = ("event", "channel")
    ordering = ("-created_at",)
    fields = (
        *("what", "channel", "state", "attempts", "answer_status", "error"),
        *("next_try_at", "retry_until", "delivered_at", "created_at"),
    )
    readonly_fields = ("what",)
    actions = ("resend",)
    can_add = can_delete = False

    @admin.display(description="event")
    def what(self, row: Delivery) -> SafeString:
        url = reverse("admin:accounts_event_change", args=[row.event_id])
        return format_html('<a href="{}">{}</a>', url, row.event.title)

    def has_change_permission(self, request: HttpRequest, obj: object = None) -> bool:
        """Of the list's actions; a row itself is changed by nobody."""
        return obj is None and super().has_change_permission(request)

    @admin.action(description="Send again", permissions=["change"])
    def resend(self, request: HttpRequest, rows: QuerySet[Delivery]) -> None:
        now = datetime.now(UTC)
        open_rows = rows.filter(channel__deleted_at__isnull=True, channel__disabled=False)
        for row in open_rows:
            resend(row, now=now)
        messages.success(request, f"{len(open_rows)} are sent again within seconds.")


@admin.register(Alarm)
class AlarmAdmin(ReadOnlyAdmin):
    """States that are as they should not be, or were."""

    list_display = ("subject", "is_raised", "count", "changed_at")
    list_filter = ("is_raised",)
    ordering = ("-changed_at",)
    fields = ("subject", "is_raised", "count", "changed_at")
