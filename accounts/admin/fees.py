"""Fees that were kept of payments, to look at."""

from typing import Any

from django.contrib import admin

from accounts.models import PurchaseFee
from gateway.admin import ReadOnlyAdmin, usd_column


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

    def get_queryset(self, request: Any) -> Any:
        return super().get_queryset(request).select_related("entry__account")

    @admin.display(description="account")
    def account(self, fee: PurchaseFee) -> str:
        return str(fee.entry.account)
