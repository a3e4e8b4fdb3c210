"""Vaults and what is in them. Values go in here as everywhere, and are shown nowhere."""

from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import Count, Q
from django.http import HttpRequest

from accounts.admin.fields import WordsField
from accounts.services.records import operator_actor
from gateway.admin import Form, PageAdmin, ReadOnlyAdmin
from gateway.http.errors import GatewayError
from interns.models import Vault, VaultSecret
from interns.vault.secrets import (
    NAME_CHARS_MAX,
    SecretInput,
    canonicalize_host,
    delete_secret,
    is_secret_name,
    put_secret,
    rebind_secret,
)
from interns.views.schemas.vault import LISTED_MAX, VALUE_CHARS_MAX


@admin.register(Vault)
class VaultAdmin(ReadOnlyAdmin):
    """Whose they are, how many secrets they hold, and which master key wraps their data keys."""

    list_display = ("id", "account", "workspace", "intern", "secret_count", "master_key_id")
    list_select_related = ("workspace__account", "intern")
    list_filter = ("master_key_id", "created_at")
    ordering = ("-created_at", "pk")
    search_fields = ("workspace__slug", "workspace__account__name", "intern__name")
    search_help_text = "Workspace, account, name of the intern, or id"
    fields = ("id", "account", "workspace", "intern", "master_key_id", "created_at")

    def get_queryset(self, request: HttpRequest) -> Any:
        own = Count("secrets", filter=Q(secrets__managed=False))
        return super().get_queryset(request).defer("sealed_data_key").annotate(held=own)

    @admin.display(description="account", ordering="workspace__account__name")
    def account(self, vault: Vault) -> Any:
        return vault.workspace.account

    @admin.display(description="secrets", ordering="held")
    def secret_count(self, vault: Any) -> int:
        return int(vault.held)


class SecretForm(Form):
    """Hosts are checked as callers' are; an empty value keeps the one there is."""

    value = forms.CharField(
        max_length=VALUE_CHARS_MAX,
        strip=False,
        required=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "off", "size": 60}),
        help_text="Shown to nobody again. Empty keeps the one there is.",
    )
    hosts = WordsField(help_text="Exact host names; no scheme, port, path or wildcard.")

    class Meta:
        model = VaultSecret
        fields = ("hosts",)

    def clean_hosts(self) -> list[str]:
        given: list[str] = self.cleaned_data["hosts"] or []
        hosts = [canonicalize_host(each) for each in given]
        if None in hosts or not 1 <= len(given) <= LISTED_MAX:
            raise forms.ValidationError(f"1 to {LISTED_MAX} exact DNS names.")
        return list(dict.fromkeys(host for host in hosts if host is not None))


class NewSecretForm(SecretForm):
    class Meta:
        model = VaultSecret
        fields = ("vault", "name", "hosts")

    def clean_name(self) -> str:
        name: str = self.cleaned_data["name"]
        if len(name) > NAME_CHARS_MAX or not is_secret_name(name):
            raise forms.ValidationError("Lowercase letters, digits and single underscores.")
        return name

    def clean_value(self) -> str:
        value: str = self.cleaned_data["value"]
        if not value:
            raise forms.ValidationError("A secret has a value.")
        return value


@admin.register(VaultSecret)
class VaultSecretAdmin(PageAdmin):
    """Stored, replaced and deleted through the services. The gateway's own stay as they are."""

    list_display = ("name", "account", "place", "hosts", "fingerprint", "managed", "updated_at")
    list_filter = ("managed", "created_at")
    list_select_related = ("vault__workspace__account", "vault__intern")
    ordering = ("-created_at", "pk")
    search_fields = ("name", "vault__workspace__slug", "vault__intern__name")
    search_help_text = "Name, workspace, intern or id"
    autocomplete_fields = ("vault",)
    actions = None
    form, new_form = SecretForm, NewSecretForm
    new_fields = ("vault", "name", "value", "hosts")
    fixed_fields = ("name", "vault", "fingerprint", "managed", "created_at", "updated_at")
    fields = (*fixed_fields, "value", "hosts")
    viewer_fields = (*fixed_fields, "hosts")

    def get_queryset(self, request: HttpRequest) -> Any:
        return super().get_queryset(request).defer("sealed", "vault__sealed_data_key")

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        mine = obj is None or not obj.managed
        return mine and super().has_change_permission(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        mine = obj is None or not obj.managed
        return mine and super().has_delete_permission(request, obj)

    @admin.display(description="account")
    def account(self, row: VaultSecret) -> Any:
        return row.vault.workspace.account

    @admin.display(description="of")
    def place(self, row: VaultSecret) -> str:
        return str(row.vault)

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        given, by = form.cleaned_data, operator_actor(request.user)
        if change and not given["value"]:
            if "hosts" in form.changed_data:
                rebind_secret(row=obj, hosts=given["hosts"], account_id=_get_account_id(obj), by=by)
            return
        stored = SecretInput(obj.name, given["value"], given["hosts"])
        try:
            made = put_secret(
                vaults=Vault.objects.filter(pk=obj.vault_id),
                stored=stored,
                account_id=_get_account_id(obj),
                by=by,
            )
        except GatewayError as error:
            self.message_user(request, error.text, level="error")
            return
        obj.pk = made.pk

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        delete_secret(
            secrets=VaultSecret.objects.filter(vault=obj.vault_id),
            name=obj.name,
            account_id=_get_account_id(obj),
            by=operator_actor(request.user),
        )


def _get_account_id(row: VaultSecret) -> Any:
    return row.vault.workspace.account_id
