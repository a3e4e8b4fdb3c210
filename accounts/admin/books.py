"""Read-only pages: ledger and fees, audit records, idempotent requests, sign-in attempts."""

from uuid import UUID

from django.contrib import admin
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from accounts.models import (
    AuditRecord,
    FormerHash,
    Hold,
    LastAudit,
    LedgerEntry,
    PurchaseFee,
    RepeatableRequest,
    SignInAttempts,
    SpendCounter,
)
from accounts.spending import UNREACHABLE_NANO
from gateway.admin import ReadOnlyAdmin, usd_column
from gateway.http.jsonio import format_usd


class _BookAdmin(ReadOnlyAdmin):
    amount = usd_column("amount_nano", "amount")
    related = ("account", "api_key", "workspace__account")


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
    byok_spent = usd_column("byok_spent_nano", "BYOK spent")
    byok_held = usd_column("byok_held_nano", "BYOK held")
    list_display = ("scope", "of", "window", "window_start", "spent", "held", "limit")
    list_filter = ("scope", "window")
    ordering = ("-window_start", "-id")
    search_fields = ("scope_id__exact",)
    search_help_text = "Number of the key, id of the workspace in hex"

    @admin.display(description="limit (USD)", ordering="limit_nano")
    def limit(self, row: SpendCounter) -> str:
        if row.limit_nano is None:
            return str(self.get_empty_value_display())
        return "warns only" if row.limit_nano == UNREACHABLE_NANO else format_usd(row.limit_nano)

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


@admin.register(PurchaseFee)
class PurchaseFeeAdmin(ReadOnlyAdmin):
    paid = usd_column("paid_nano", "paid")
    fee = usd_column("fee_nano", "fee")
    list_display = ("entry", "account", "paid", "fee")
    # Newest first: an entry's number is the order of writing.
    ordering = ("-entry",)
    search_fields = ("entry__source_ref__exact", "entry__account__name")
    search_help_text = "Reference of the payment, account"
    fields = ("entry", "account", "paid", "fee")
    readonly_fields = ("account", "paid", "fee")
    related = ("entry__account",)

    @admin.display(description="account")
    def account(self, fee: PurchaseFee) -> str:
        return str(fee.entry.account)


@admin.register(AuditRecord)
class AuditRecordAdmin(ReadOnlyAdmin):
    """Who changed what, newest first. Nobody changes it afterwards."""

    list_display = ("at", "author", "account", "action", "object_type", "object_id", "changes")
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
        *("action", "object_type", "object_id", "before", "after", "address", "agent"),
    )

    @admin.display(description="who")
    def author(self, record: AuditRecord) -> str:
        return str(record.operator or record.management_key or record.command)

    @admin.display(description="fields")
    def changes(self, record: AuditRecord) -> str:
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


@admin.register(RepeatableRequest)
class RepeatableRequestAdmin(ReadOnlyAdmin):
    list_display = (
        *("id", "path", "api_key", "account", "created_at", "finished_at", "status"),
        "keeps_answer",
    )
    related = ("api_key", "account")
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

    @admin.display(description="answer kept", boolean=True)
    def keeps_answer(self, row: RepeatableRequest) -> bool:
        return row.sealed_answer is not None


@admin.register(SignInAttempts)
class SignInAttemptsAdmin(ReadOnlyAdmin):
    list_display = ("subject", "count", "last_at", "blocked_until")
    # By the index that old rows are found with.
    ordering = ("-last_at",)
    fields = ("subject", "count", "last_at", "blocked_until")


@admin.register(LastAudit)
class LastAuditAdmin(ReadOnlyAdmin):
    list_display = ("at", "mismatches")
    ordering = ("id",)
    fields = ("at", "mismatches")
