"""Pools of credentials. What goes in is never shown again, but for its last characters."""

from datetime import UTC, date, datetime
from typing import Any

from django.contrib import admin
from django.db.models import OuterRef, QuerySet, Subquery, Sum
from django.http import HttpRequest

from gateway.admin import ReadOnlyAdmin, usd_column
from gateway.http.jsonio import JsonObject, format_usd
from routing.admin.write_only import WriteOnlyAdmin, WriteOnlyForm
from routing.catalogue.credentials import ProviderCredential
from routing.catalogue.spec import CredentialSpec
from routing.metering.models import CredentialSpend


class CredentialForm(WriteOnlyForm):
    spec = CredentialSpec
    fixed_name = "label"

    class Meta:
        model = ProviderCredential
        fields = ("provider", "label", "weight", "rate_limits")

    def clean(self) -> JsonObject:
        fields = super().clean()
        if not self.instance.sealed and not fields.get("new_credential"):
            self.add_error("new_credential", "A new credential needs its content.")
        return fields


@admin.register(ProviderCredential)
class ProviderCredentialAdmin(WriteOnlyAdmin):
    """Credentials of providers that have several. Web processes follow within a second."""

    form = CredentialForm
    list_display = ("label", "provider", "masked", "weight", "spent_today", "spent_this_month")
    list_select_related = ("provider",)
    list_filter = ("provider",)
    search_fields = ("label", "provider__slug")
    fieldsets = (
        (None, {"fields": ("provider", "label", "weight")}),
        ("Credential", {"fields": ("masked", "new_credential")}),
        ("How much of it may be used", {"fields": ("rate_limits",)}),
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[ProviderCredential]:
        rows: QuerySet[ProviderCredential] = super().get_queryset(request)
        today = datetime.now(UTC).date()
        return rows.annotate(
            today_nano=_sum_since(today), month_nano=_sum_since(today.replace(day=1))
        )

    def get_readonly_fields(
        self, request: HttpRequest, obj: ProviderCredential | None = None
    ) -> tuple[str, ...]:
        # What is sealed is bound to both.
        return ("masked", "provider", "label") if obj else ("masked",)

    @admin.display(description="spent today (USD)")
    def spent_today(self, row: Any) -> str:
        return format_usd(row.today_nano or 0)

    @admin.display(description="spent this month (USD)")
    def spent_this_month(self, row: Any) -> str:
        return format_usd(row.month_nano or 0)

    def save_model(
        self, request: HttpRequest, obj: ProviderCredential, form: CredentialForm, change: bool
    ) -> None:
        if secret := form.cleaned_data["new_credential"]:
            obj.set_secret(secret)
        super().save_model(request, obj, form, change)
        if change and secret:
            obj.save(update_fields=["sealed", "masked"])


def _sum_since(day: date) -> Subquery:
    rows: QuerySet[Any, Any] = CredentialSpend.objects.filter(
        provider=OuterRef("provider__slug"), label=OuterRef("label"), day__gte=day
    )
    sums = rows.order_by().values("provider", "label").annotate(total=Sum("cost_nano"))
    return Subquery(sums.values("total"))


@admin.register(CredentialSpend)
class CredentialSpendAdmin(ReadOnlyAdmin):
    """What each of them spent, day by day, at list price."""

    cost = usd_column("cost_nano", "spent")
    list_display = ("day", "provider", "label", "requests", "cost")
    list_filter = ("provider", "day")
    search_fields = ("provider", "label")
    date_hierarchy = "day"
