"""The books, to look at: only the ledger writer and the credits service write them."""

from typing import Any
from uuid import UUID

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from accounts.models import Hold, LedgerEntry, SpendCounter
from gateway.admin import ReadOnlyAdmin, usd_column


class _BookAdmin(ReadOnlyAdmin):
    amount = usd_column("amount_nano", "amount")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        # A workspace is named after its account.
        rows = super().get_queryset(request)
        return rows.select_related("account", "api_key", "workspace__account")


@admin.register(LedgerEntry)
class LedgerEntryAdmin(_BookAdmin):
    list_display = ("id", "created_at", "kind", "amount", "account", "api_key", "generation_id")
    list_filter = ("kind", "created_at")
    date_hierarchy = "created_at"
    # Newest first by the primary key, which is the order of writing and has an index.
    ordering = ("-id",)
    search_fields = ("generation_id__exact", "source_ref__exact", "account__name", "note")
    search_help_text = "Generation id, reference of the payment, account, note"
    byok = usd_column("byok_nano", "BYOK")
    fields = (
        *("id", "created_at", "kind", "amount", "account", "workspace", "api_key"),
        *("byok", "day", "generation_id", "source", "source_ref", "note"),
    )
    readonly_fields = ("amount", "byok")


@admin.register(Hold)
class HoldAdmin(_BookAdmin):
    list_display = (
        *("generation_id", "amount", "model", "account", "api_key"),
        *("created_at", "lease_expires_at"),
    )
    ordering = ("lease_expires_at",)
    search_fields = ("generation_id__exact", "account__name", "model")
    search_help_text = "Generation id, account, model"
    fields = (
        *("generation_id", "amount", "account", "workspace", "api_key", "model"),
        *("counter_ids", "created_at", "lease_expires_at"),
    )
    readonly_fields = ("amount",)


@admin.register(SpendCounter)
class SpendCounterAdmin(ReadOnlyAdmin):
    spent = usd_column("spent_nano", "spent")
    held = usd_column("held_nano", "held")
    limit = usd_column("limit_nano", "limit")
    byok_spent = usd_column("byok_spent_nano", "BYOK spent")
    byok_held = usd_column("byok_held_nano", "BYOK held")
    list_display = ("scope", "of", "window", "window_start", "spent", "held", "limit")
    list_filter = ("scope", "window")
    ordering = ("-window_start", "-id")
    search_fields = ("scope_id__exact",)
    search_help_text = "Number of the key, id of the workspace in hex"
    fields = (
        *("scope", "of", "window", "window_start", "spent", "held", "limit"),
        *("byok_spent", "byok_held", "counts_byok"),
    )
    readonly_fields = ("of", "spent", "held", "limit", "byok_spent", "byok_held")

    @admin.display(description="of", ordering="scope_id")
    def of(self, counter: SpendCounter) -> str | SafeString:
        if counter.scope == SpendCounter.Scope.WORKSPACE:
            page = reverse("admin:accounts_workspace_change", args=[UUID(counter.scope_id)])
            return format_html('<a href="{}">workspace</a>', page)
        if counter.scope != SpendCounter.Scope.KEY:
            return counter.scope_id
        page = reverse("admin:accounts_apikey_change", args=[counter.scope_id])
        return format_html('<a href="{}">key {}</a>', page, counter.scope_id)
