"""Requests with an `Idempotency-Key`, to look at. Their answers are sealed and not shown."""

from typing import Any

from django.contrib import admin

from accounts.models import RepeatableRequest
from gateway.admin import ReadOnlyAdmin


@admin.register(RepeatableRequest)
class RepeatableRequestAdmin(ReadOnlyAdmin):
    list_display = (
        *("id", "path", "api_key", "account", "created_at", "finished_at", "status"),
        "keeps_answer",
    )
    list_select_related = ("api_key", "account")
    list_filter = ("path", "created_at")
    # Newest first, by the index that old rows are found with.
    ordering = ("-expires_at",)
    search_fields = ("generation_id__exact", "made__exact", "account__name")
    search_help_text = "Id, generation id, what was made, account"
    fields = (
        *("id", "path", "api_key", "account", "created_at", "lease_until", "finished_at"),
        *("status", "generation_id", "made", "keeps_answer", "answer_until", "expires_at"),
    )
    readonly_fields = ("keeps_answer",)

    def get_queryset(self, request: Any) -> Any:
        return super().get_queryset(request).select_related("api_key", "account")

    @admin.display(description="answer kept", boolean=True)
    def keeps_answer(self, row: RepeatableRequest) -> bool:
        return row.sealed_answer is not None
