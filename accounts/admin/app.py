"""Apps that people let have keys: looked at and revoked."""

from typing import Any

from django.contrib import admin, messages
from django.db.models import Count, Q, QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from accounts.models import App, AuthorizationCode
from accounts.services.oauth import revoke_app
from accounts.services.records import operator_actor
from gateway.admin import ReadOnlyAdmin


@admin.register(App)
class AppAdmin(ReadOnlyAdmin):
    """Apps come by themselves, when somebody authorizes one."""

    list_display = ("name", "origin", "account", "keys", "authorized_at", "revoked_at")
    list_filter = (("revoked_at", admin.EmptyFieldListFilter),)
    search_fields = ("name", "origin", "account__name")
    list_select_related = ("account",)
    ordering = ("-authorized_at",)
    actions = ("revoke",)  # type: ignore[assignment]  # The base has none.

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        living = Q(keys__deleted_at__isnull=True)
        rows: QuerySet[Any] = super().get_queryset(request)
        counted: QuerySet[Any] = rows.annotate(key_count=Count("keys", filter=living))
        return counted

    @admin.display(description="keys", ordering="key_count")
    def keys(self, app: Any) -> SafeString:
        url = reverse("admin:accounts_apikey_changelist")
        return format_html('<a href="{}?app__id__exact={}">{}</a>', url, app.pk, app.key_count)

    @admin.action(description="Revoke apps and delete their keys", permissions=["revoke"])
    def revoke(self, request: HttpRequest, chosen: QuerySet[App]) -> None:
        by = operator_actor(request.user)
        deleted = [
            revoke_app(account_id=app.account_id, app_id=app.pk, by=by)
            for app in chosen
            if app.revoked_at is None
        ]
        messages.success(request, f"Revoked {len(deleted)} apps and {sum(deleted)} keys.")

    def has_revoke_permission(self, request: HttpRequest) -> bool:
        """Django asks for it by the action's word. Nothing else of an app can be changed."""
        return request.user.has_perm("accounts.change_app")


@admin.register(AuthorizationCode)
class AuthorizationCodeAdmin(ReadOnlyAdmin):
    """Codes of the last day, by the key that they are for. Their strings are kept nowhere."""

    list_display = ("created_at", "key_name", "app", "workspace", "failures", "used_at")
    fields = (
        *("created_at", "key_name", "app", "workspace", "creator", "limit_nano", "limit_reset"),
        *("expires_at", "failures", "used_at"),
    )
    list_select_related = ("app", "workspace__account")
    search_fields = ("key_name", "app__name", "workspace__account__name")
    ordering = ("-created_at",)
