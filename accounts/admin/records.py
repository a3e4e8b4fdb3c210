"""Audit records and former hashes, to look at."""

from django.contrib import admin

from accounts.models import AuditRecord, FormerHash
from gateway.admin import ReadOnlyAdmin


@admin.register(AuditRecord)
class AuditRecordAdmin(ReadOnlyAdmin):
    """Who changed what, newest first. Nobody changes it afterwards."""

    list_display = ("at", "author", "account", "action", "object_type", "object_id", "moved")
    list_select_related = ("account", "operator", "management_key")
    list_filter = ("object_type", "action", "at")
    date_hierarchy = "at"
    # Newest first by the primary key, which is the order of writing and has an index.
    ordering = ("-id",)
    search_fields = (
        *("object_id__exact", "account__name", "operator__username", "management_key__name"),
        "command",
    )
    search_help_text = "Id of the object, account, operator, management key, command"
    fields = (
        *("at", "operator", "management_key", "command", "account"),
        *("action", "object_type", "object_id", "before", "after"),
    )

    @admin.display(description="who")
    def author(self, record: AuditRecord) -> str:
        return str(record.operator or record.management_key or record.command)

    @admin.display(description="fields")
    def moved(self, record: AuditRecord) -> str:
        return ", ".join(record.after or ()) if record.before else ""


@admin.register(FormerHash)
class FormerHashAdmin(ReadOnlyAdmin):
    """Strings that keys were rotated away from, and until when they work at the longest."""

    list_display = ("hash", "api_key", "created_at", "valid_until")
    list_select_related = ("api_key",)
    ordering = ("-id",)
    search_fields = ("hash__exact", "api_key__name")
    search_help_text = "Hash, name of the key"
    fields = ("hash", "api_key", "created_at", "valid_until")
