"""Destinations as an operator sees them: what they are sent, what became of it, a test."""

from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest

from accounts.services.records import operator_actor
from gateway.admin import PageAdmin, changed_fields
from gateway.http.jsonio import JsonObject, dumps
from routing.destinations.delivery import try_connection
from routing.destinations.models import Destination
from routing.destinations.services import change_destination, delete_destination, load_details

_SETTINGS = (
    *("name", "enabled", "privacy_mode", "sampling_rate", "filter_rules"),
    *("regions", "broadcast_generation_cost", "broadcast_generation_cost_allocation"),
    *("broadcast_generation_identity", "broadcast_generation_request_context"),
)
_FIXED = (
    *("id", "account", "workspace", "type", "masked_config", "api_key_ids"),
    *("delivered", "dropped", "drops_in_row", "last_error", "created_at", "updated_at"),
)


@admin.register(Destination)
class DestinationAdmin(PageAdmin):
    """Destinations are made through the API, where their secrets are given; here they are
    switched, tested and deleted."""

    list_display = (
        *("name", "type", "account", "workspace", "enabled", "privacy_mode"),
        *("delivered", "dropped", "drops_in_row", "last_error"),
    )
    list_filter = ("type", "enabled", "privacy_mode")
    list_select_related = ("account", "workspace__account")
    search_fields = ("name", "account__name", "workspace__slug")
    search_help_text = "Name, account, workspace or id"
    ordering = ("account__name", "workspace__slug", "-created_at")
    actions = ("test_connection", "enable", "disable")
    fields = (*_SETTINGS, *_FIXED)
    # Rules have a form of their own, which the API checks.
    readonly_fields = ("filter_rules", *_FIXED)
    can_add = False

    @admin.display(description="config")
    def masked_config(self, row: Destination) -> str:
        details = load_details(row)
        note = "" if details.is_open else " (its secrets do not open under this master key)"
        return dumps(details.config).decode() + note

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        if names := changed_fields(obj, form):
            self._change(request, obj, {name: form.cleaned_data[name] for name in names})

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        delete_destination(row=obj, by=operator_actor(request.user))

    @admin.action(description="Test the connection", permissions=["change"])
    def test_connection(self, request: HttpRequest, rows: QuerySet[Destination]) -> None:
        for row in rows:
            result = try_connection(row)
            tell = messages.success if result.passed else messages.error
            tell(request, f"{row}: {result.message}")

    @admin.action(description="Enable", permissions=["change"])
    def enable(self, request: HttpRequest, rows: QuerySet[Destination]) -> None:
        for row in rows:
            self._change(request, row, {"enabled": True})

    @admin.action(description="Disable", permissions=["change"])
    def disable(self, request: HttpRequest, rows: QuerySet[Destination]) -> None:
        for row in rows:
            self._change(request, row, {"enabled": False})

    def _change(self, request: HttpRequest, row: Destination, changes: JsonObject) -> None:
        change_destination(
            account_id=row.account_id,
            destination_id=row.pk,
            changes=changes,
            by=operator_actor(request.user),
        )
