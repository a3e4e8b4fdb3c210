"""People and groups of directories: to look at. Directories and commands write them."""

from typing import Any

from django.contrib import admin
from django.db.models import Count, QuerySet
from django.http import HttpRequest

from accounts.admin.recorded import RecordedMixin
from accounts.models import (
    DeletedScimUser,
    ScimGroup,
    ScimGroupMapping,
    ScimSyncJob,
    ScimUser,
)
from accounts.services.directory.users import forget_deletion
from gateway.admin import PageAdmin, ReadOnlyAdmin


@admin.register(ScimUser)
class ScimUserAdmin(ReadOnlyAdmin):
    """Who is not active has lost membership and keys."""

    list_display = ("user_name", "account", "active", "external_id", "updated_at")
    list_filter = ("active",)
    list_select_related = ("account",)
    search_fields = ("user_name", "external_id", "account__name")
    ordering = ("account__name", "user_name")


@admin.register(DeletedScimUser)
class DeletedScimUserAdmin(RecordedMixin, ReadOnlyAdmin):
    """Whom a directory deleted, and no provider brings back. Who is deleted here may come again."""

    object_type = "deleted_scim_user"
    facts = ("user_id", "user_name", "external_id")
    list_display = ("user_name", "account", "user", "external_id", "deleted_at")
    list_select_related = ("account", "user")
    search_fields = ("user_name", "external_id", "account__name")
    ordering = ("account__name", "user_name")

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return PageAdmin.has_delete_permission(self, request, obj)

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        forget_deletion(obj)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        for row in queryset:
            forget_deletion(row)


@admin.register(ScimGroup)
class ScimGroupAdmin(ReadOnlyAdmin):
    """Deleted groups are not among them."""

    list_display = ("display_name", "account", "external_id", "member_count", "updated_at")
    list_select_related = ("account",)
    search_fields = ("display_name", "external_id", "account__name")
    ordering = ("account__name", "display_name")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        rows: QuerySet[Any] = super().get_queryset(request).annotate(people=Count("members"))
        return rows

    @admin.display(description="members", ordering="people")
    def member_count(self, group: Any) -> int:
        count: int = group.people
        return count


@admin.register(ScimGroupMapping)
class ScimGroupMappingAdmin(ReadOnlyAdmin):
    """Which group gets into which workspace; the API makes and changes them."""

    list_display = ("group", "workspace", "role", "updated_at")
    list_filter = ("role",)
    list_select_related = ("group", "workspace__account")
    search_fields = ("group__display_name", "workspace__slug", "workspace__account__name")
    ordering = ("workspace__account__name", "group__display_name")


@admin.register(ScimSyncJob)
class ScimSyncJobAdmin(ReadOnlyAdmin):
    """Runs over an account's groups, newest first."""

    list_display = ("created_at", "account", "status", "synced_groups", "deleted_groups")
    list_filter = ("status",)
    list_select_related = ("account",)
    search_fields = ("account__name",)
    ordering = ("-created_at",)
