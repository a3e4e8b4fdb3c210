"""Credentials that teams brought. Their keys are stored sealed and shown nowhere."""

from datetime import UTC, datetime, timedelta
from typing import Any

from django.contrib import admin, messages
from django.db import connection
from django.db.models import QuerySet
from django.http import HttpRequest

from accounts.admin.byok_forms import (
    FIELDS,
    NEW_FIELDS,
    CredentialForm,
    NewCredentialForm,
    try_typed_key,
)
from accounts.models import ByokCredential
from accounts.ports.byok_usage import usage_of
from accounts.ports.known_providers import KeyTrial
from accounts.services.byok import (
    CredentialChanged,
    change_credential,
    create_credential,
    delete_credential,
    move_credential,
)
from accounts.services.records import operator_actor
from gateway.admin import PageAdmin
from gateway.http.errors import GatewayError
from gateway.http.jsonio import format_usd

_SHOWN_DAYS = 7
_FIXED = (
    *("id", "account", "workspace", "provider", "label", "key_said", "sort_order"),
    *("usage", "created_at", "updated_at"),
)


@admin.register(ByokCredential)
class ByokCredentialAdmin(PageAdmin):
    """Made, changed and deleted through the services, so every rule holds here too."""

    list_display = (
        *("label", "provider", "name", "account", "scope", "section", "sort_order"),
        *("disabled", "key_said", "created_at"),
    )
    list_filter = ("provider", "is_fallback", "disabled")
    list_select_related = ("account", "workspace")
    search_fields = ("name", "label", "provider", "account__name", "workspace__slug")
    search_help_text = "Name, label, provider, account, workspace or id"
    ordering = ("account__name", "workspace__slug", "is_fallback", "sort_order")
    autocomplete_fields = ("account", "workspace")
    actions = ("move_up", "move_down", "disable", "enable")

    def get_queryset(self, request: HttpRequest) -> Any:
        return super().get_queryset(request).filter(deleted_at__isnull=True)

    def get_form(self, request: Any, obj: Any = None, change: bool = False, **options: Any) -> Any:
        form = CredentialForm if obj else NewCredentialForm
        made: Any = super().get_form(request, obj, change, **{"form": form, **options})
        # A class of this request's own.
        made.trial = getattr(request, "key_trial", None)
        return made

    def changeform_view(
        self,
        request: Any,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: Any = None,
    ) -> Any:
        """Django's own view is one transaction, which is not to wait for a provider."""
        if request.method == "POST" and request.POST.get("key"):
            request.key_trial = self._trial(request, object_id)
        return super().changeform_view(request, object_id, form_url, extra_context)

    def _trial(self, request: Any, object_id: str | None) -> KeyTrial | None:
        if object_id is None:
            may, provider = self.has_add_permission(request), request.POST.get("provider", "")
        else:
            row = self.get_object(request, object_id)
            may = row is not None and self.has_change_permission(request, row)
            provider = row.provider if row else ""
        if not may:
            return None
        if not connection.in_atomic_block:
            # The answer takes its time; meanwhile the connection serves others.
            connection.close()
        return try_typed_key(provider, request.POST["key"])

    def get_fields(self, request: HttpRequest, obj: ByokCredential | None = None) -> Any:
        if obj is None:
            return NEW_FIELDS
        if self.has_change_permission(request, obj):
            return (*FIELDS, *_FIXED)
        shown = ("name", "is_fallback", "is_required", "is_byok_only", "disabled")
        return (*shown, "allowed_models", *_FIXED)

    def get_readonly_fields(self, request: HttpRequest, obj: ByokCredential | None = None) -> Any:
        return _FIXED if obj else ()

    @admin.display(description="workspace")
    def scope(self, row: ByokCredential) -> str:
        return row.workspace.slug if row.workspace else "all"

    @admin.display(description="section", ordering="is_fallback")
    def section(self, row: ByokCredential) -> str:
        return "fallback" if row.is_fallback else "prioritised"

    @admin.display(description=f"the last {_SHOWN_DAYS} days")
    def usage(self, row: ByokCredential) -> str:
        since = datetime.now(UTC) - timedelta(days=_SHOWN_DAYS)
        calls, list_nano, fees_nano = usage_of(row.account_id, row.pk, since)
        return (
            f"{calls} calls, USD {format_usd(list_nano)} at list price, "
            f"USD {format_usd(fees_nano)} in fees"
        )

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        by, said = operator_actor(request.user), form.cleaned_data
        if not change:
            made = create_credential(
                account_id=obj.account_id,
                workspace_id=obj.workspace_id,
                every_workspace=obj.workspace_id is None,
                provider=obj.provider,
                key=said["key"],
                trial=form.trial,
                by=by,
                name=obj.name,
                disabled=obj.disabled,
                is_fallback=obj.is_fallback,
                is_required=obj.is_required,
                is_byok_only=obj.is_byok_only,
                allowed_models=said["allowed_models"],
                allowed_user_ids=said["allowed_user_ids"],
                allowed_api_key_hashes=form.allowed_hashes(),
            )
            obj.pk = made.row.pk
            obj.refresh_from_db()
            self._tell(request, form)
            return
        changes, key = form.changes(), said["key"] or None
        if not (changes or key):
            return
        row = ByokCredential.objects.get(pk=obj.pk)
        try:
            change_credential(row=row, changes=changes, by=by, key=key, trial=form.trial)
        except CredentialChanged as error:
            messages.error(request, error.text)
        else:
            self._tell(request, form)

    def _tell(self, request: HttpRequest, form: Any) -> None:
        if form.trial is not None:
            messages.info(request, f"The key was tried: {form.trial.said}.")

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        delete_credential(row=obj, by=operator_actor(request.user))

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        for row in queryset:
            delete_credential(row=row, by=operator_actor(request.user))

    @admin.action(description="Move up in its section", permissions=["change"])
    def move_up(self, request: HttpRequest, rows: QuerySet[ByokCredential]) -> None:
        # From the top on, so that several stay in their order.
        self._move(request, rows.order_by("sort_order"), places=-1)

    @admin.action(description="Move down in its section", permissions=["change"])
    def move_down(self, request: HttpRequest, rows: QuerySet[ByokCredential]) -> None:
        self._move(request, rows.order_by("-sort_order"), places=1)

    def _move(self, request: HttpRequest, rows: QuerySet[Any], *, places: int) -> None:
        for row in rows:
            try:
                move_credential(row=row, places=places, by=operator_actor(request.user))
            except GatewayError as error:
                messages.error(request, f"{row}: {error.text}")

    @admin.action(description="Disable", permissions=["change"])
    def disable(self, request: HttpRequest, rows: QuerySet[ByokCredential]) -> None:
        self._set_disabled(request, rows, disabled=True)

    @admin.action(description="Enable", permissions=["change"])
    def enable(self, request: HttpRequest, rows: QuerySet[ByokCredential]) -> None:
        self._set_disabled(request, rows, disabled=False)

    def _set_disabled(self, request: HttpRequest, rows: QuerySet[Any], *, disabled: bool) -> None:
        for row in rows:
            changes = {"disabled": disabled}
            try:
                change_credential(row=row, changes=changes, by=operator_actor(request.user))
            except GatewayError as error:
                messages.error(request, f"{row}: {error.text}")
