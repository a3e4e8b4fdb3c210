"""Workspaces, and who belongs to which account."""

from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from accounts.models import Membership, Workspace
from gateway.admin import Form, PageAdmin

_FIELDS = (
    *("account", "name", "slug", "description"),
    *("default_text_model", "default_provider_sort"),
)


class WorkspaceForm(Form):
    """A workspace; its slug is part of what callers write."""

    slug = forms.SlugField(max_length=50)

    class Meta:
        model = Workspace
        fields = _FIELDS


@admin.register(Workspace)
class WorkspaceAdmin(PageAdmin):
    """Workspaces stay, as the keys and the history in them do."""

    form = WorkspaceForm
    list_display = ("name", "slug", "account", "is_default", "default_text_model", "created_at")
    list_filter = ("is_default",)
    search_fields = ("name", "slug", "account__name")
    search_help_text = "Name, slug, account or id"
    ordering = ("account__name", "slug")
    autocomplete_fields = ("account",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        # A workspace is named after its account, also where other pages offer it for choice.
        return super().get_queryset(request).select_related("account")

    def get_fields(self, request: HttpRequest, obj: Workspace | None = None) -> Any:
        return ("id", *_FIELDS, "is_default") if obj else _FIELDS

    def get_readonly_fields(self, request: HttpRequest, obj: Workspace | None = None) -> Any:
        return ("id", "account", "is_default") if obj else ()

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


@admin.register(Membership)
class MembershipAdmin(PageAdmin):
    """Whoever leaves takes the keys they created out of service."""

    list_display = ("user", "account", "role", "created_at")
    list_select_related = ("user", "account")
    list_filter = ("role",)
    search_fields = ("user__username", "user__public_id", "account__name")
    ordering = ("account__name", "user__username")
    autocomplete_fields = ("user", "account")

    def get_readonly_fields(self, request: HttpRequest, obj: Membership | None = None) -> Any:
        return ("user", "account") if obj else ()
