"""What happened to interns, to look at."""

from django.contrib import admin

from gateway.admin import ReadOnlyAdmin
from interns.models import InternCreation, InternTransition


@admin.register(InternTransition)
class InternTransitionAdmin(ReadOnlyAdmin):
    """Every move of every intern, also of those that are gone, newest first."""

    list_display = (
        *("at", "intern_name", "account", "rule", "from_status", "to_status", "by", "why"),
    )
    list_select_related = ("account",)
    list_filter = ("to_status", "rule", "at")
    date_hierarchy = "at"
    ordering = ("-id",)
    search_fields = ("intern_name", "account__name", "by")
    search_help_text = "Name of the intern, account, who"
    fields = (
        *("at", "intern_id", "intern_name", "account", "rule", "from_status", "to_status"),
        *("why", "by", "operation_id"),
    )


@admin.register(InternCreation)
class InternCreationAdmin(ReadOnlyAdmin):
    """Requests that made an intern, for as long as they are remembered."""

    list_display = ("intern", "created_at", "finished_at", "expires_at", "wants_provision")
    list_select_related = ("intern",)
    ordering = ("-created_at",)
    search_fields = ("intern__name",)
    search_help_text = "Name of the intern, or id"
    fields = ("id", "intern", "wants_provision", "created_at", "finished_at", "expires_at")
