"""Provider credentials that teams brought: pages and forms.

Keys are stored sealed and shown nowhere.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest

from accounts.admin.fields import NumbersField, WordsField
from accounts.byok import KEY_CHARS_MAX, InvalidProviderKey, clean_key
from accounts.models import Account, ApiKey, ByokCredential
from accounts.ports import KeyTrial, higher_apps
from accounts.services.byok import (
    CredentialChanged,
    ProviderKeyRefused,
    change_credential,
    create_credential,
    delete_credential,
    move_credential,
)
from accounts.services.records import operator_actor
from gateway.admin import Form, PageAdmin
from gateway.database.db import release_connection
from gateway.http.errors import GatewayError
from gateway.http.jsonio import JsonObject, format_usd

_FILTERS = ("allowed_models", "allowed_keys", "allowed_user_ids")
_SETTINGS = ("name", "is_fallback", "is_required", "is_byok_only", "disabled")
_HELP = {
    "is_required": "The models that it is for are not served on the gateway's own credential.",
    "is_byok_only": "Nothing of the provider is served on the gateway's own credential.",
}


def try_typed_key(provider: str, text: str) -> KeyTrial | None:
    """What the provider says of a key as it was typed; None where there is nothing to ask."""
    try:
        key = clean_key(text)
    except InvalidProviderKey:
        return None
    return (
        higher_apps().try_key(provider, key) if higher_apps().is_known_provider(provider) else None
    )


class _CredentialForm(Form):
    """What both pages have. `trial` is what the provider has said of the key by now: the page asks
    before its transaction begins."""

    allowed_models = WordsField(required=False, help_text="Model ids; empty for all models.")
    allowed_keys = NumbersField(
        label="Allowed keys", required=False, help_text="Numbers of keys; empty for all keys."
    )
    allowed_user_ids = WordsField(
        required=False, help_text="Ids of users whose keys may use it; empty for all keys."
    )
    trial: KeyTrial | None = None

    def allowed_hashes(self) -> list[str] | None:
        """The keys as the service names them."""
        numbers = self.cleaned_data["allowed_keys"]
        if numbers is None:
            return None
        found = dict(self._keys().filter(pk__in=numbers).values_list("pk", "hash"))
        return [found[number] for number in numbers if number in found]

    def clean_key(self) -> str:
        text: str = self.cleaned_data["key"]
        try:
            return clean_key(text) if text else ""
        except InvalidProviderKey:
            raise forms.ValidationError("Visible ASCII characters or a JSON object.") from None

    def clean(self) -> JsonObject:
        cleaned: JsonObject = super().clean() or self.cleaned_data
        numbers, account = cleaned.get("allowed_keys"), self._account()
        if numbers and account and self._keys().filter(pk__in=numbers).count() != len(numbers):
            self.add_error("allowed_keys", "One of these is no key of this account.")
        if cleaned.get("is_byok_only") and cleaned.get("is_fallback"):
            self.add_error("is_byok_only", "Not for a fallback credential.")
        if cleaned.get("key") and not self.errors:
            if self.trial is None:
                self.add_error("key", "The provider was not asked about it. Try again.")
            elif self.trial.verdict == "refused":
                self.add_error("key", ProviderKeyRefused(self.trial).text)
        return cleaned

    def _account(self) -> Account | None:
        return self.cleaned_data.get("account") or getattr(self.instance, "account", None)

    def _keys(self) -> Any:
        account = self._account()
        return ApiKey.objects.filter(account=account, kind=ApiKey.Kind.INFERENCE)


class NewCredentialForm(_CredentialForm):
    key = forms.CharField(
        max_length=KEY_CHARS_MAX,
        widget=forms.PasswordInput(attrs={"autocomplete": "off", "size": 60}),
        help_text="The provider is asked about it. It is shown to nobody again.",
    )

    class Meta:
        model = ByokCredential
        fields = ("account", "workspace", "provider", *_SETTINGS)
        help_texts = {"workspace": "Empty for all workspaces of the account.", **_HELP}

    def clean_provider(self) -> str:
        slug: str = self.cleaned_data["provider"]
        if not higher_apps().is_known_provider(slug):
            raise forms.ValidationError("No provider of the catalogue has this slug.")
        return slug

    def clean(self) -> JsonObject:
        workspace, account = (self.cleaned_data.get(name) for name in ("workspace", "account"))
        if workspace is not None and account is not None and workspace.account_id != account.pk:
            self.add_error("workspace", "This workspace belongs to another account.")
        return super().clean()


class CredentialForm(_CredentialForm):
    key = forms.CharField(
        label="New key",
        max_length=KEY_CHARS_MAX,
        required=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "off", "size": 60}),
        help_text="Takes the place of the old one; empty keeps that.",
    )

    class Meta:
        model = ByokCredential
        fields = _SETTINGS
        help_texts = _HELP

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        # Someone who may only look gets the page without the fields.
        for name, field in zip(_FILTERS, _COLUMNS, strict=True):
            if name in self.fields:
                self.fields[name].initial = getattr(self.instance, field)

    def changes(self) -> JsonObject:
        """What was changed, as the service names it."""
        changed = {name: self.cleaned_data[name] for name in self.changed_data if name != "key"}
        if "allowed_keys" in changed:
            del changed["allowed_keys"]
            changed["allowed_api_key_hashes"] = self.allowed_hashes()
        return changed


_COLUMNS = ("allowed_models", "allowed_key_ids", "allowed_user_ids")
NEW_FIELDS = ("account", "workspace", "provider", "key", *_SETTINGS, *_FILTERS)
FIELDS = ("key", *_SETTINGS, *_FILTERS)


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
    form, new_form = CredentialForm, NewCredentialForm
    new_fields, fixed_fields = NEW_FIELDS, _FIXED
    fields = (*FIELDS, *_FIXED)
    viewer_fields = (
        *("name", "is_fallback", "is_required", "is_byok_only", "disabled", "allowed_models"),
        *_FIXED,
    )

    def get_queryset(self, request: HttpRequest) -> Any:
        return super().get_queryset(request).filter(deleted_at__isnull=True)

    def get_form(self, request: Any, obj: Any = None, change: bool = False, **options: Any) -> Any:
        made: Any = super().get_form(request, obj, change, **options)
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
            if object_id is None:
                may, provider = self.has_add_permission(request), request.POST.get("provider", "")
            else:
                row = self.get_object(request, object_id)
                may = row is not None and self.has_change_permission(request, row)
                provider = row.provider if row else ""
            if may:
                release_connection()
                request.key_trial = try_typed_key(provider, request.POST["key"])
        return super().changeform_view(request, object_id, form_url, extra_context)

    @admin.display(description="workspace")
    def scope(self, row: ByokCredential) -> str:
        return row.workspace.slug if row.workspace else "all"

    @admin.display(description="section", ordering="is_fallback")
    def section(self, row: ByokCredential) -> str:
        return "fallback" if row.is_fallback else "prioritised"

    @admin.display(description=f"the last {_SHOWN_DAYS} days")
    def usage(self, row: ByokCredential) -> str:
        since = datetime.now(UTC) - timedelta(days=_SHOWN_DAYS)
        calls, list_nano, fees_nano = higher_apps().count_byok_usage(row.account_id, row.pk, since)
        return (
            f"{calls} calls, USD {format_usd(list_nano)} at list price, "
            f"USD {format_usd(fees_nano)} in fees"
        )

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        by, cleaned = operator_actor(request.user), form.cleaned_data
        if not change:
            made = create_credential(
                account_id=obj.account_id,
                workspace_id=obj.workspace_id,
                every_workspace=obj.workspace_id is None,
                provider=obj.provider,
                key=cleaned["key"],
                trial=form.trial,
                by=by,
                name=obj.name,
                disabled=obj.disabled,
                is_fallback=obj.is_fallback,
                is_required=obj.is_required,
                is_byok_only=obj.is_byok_only,
                allowed_models=cleaned["allowed_models"],
                allowed_user_ids=cleaned["allowed_user_ids"],
                allowed_api_key_hashes=form.allowed_hashes(),
            )
            obj.pk = made.row.pk
            obj.refresh_from_db()
            self._report(request, form)
            return
        changes, key = form.changes(), cleaned["key"] or None
        if not (changes or key):
            return
        row = ByokCredential.objects.get(pk=obj.pk)
        try:
            change_credential(row=row, changes=changes, by=by, key=key, trial=form.trial)
        except CredentialChanged as error:
            messages.error(request, error.text)
        else:
            self._report(request, form)

    def _report(self, request: HttpRequest, form: Any) -> None:
        if form.trial is not None:
            messages.info(request, f"The key was tried: {form.trial.explanation}.")

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        delete_credential(row=obj, by=operator_actor(request.user))

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
