"""Generations, to look at: what was asked, who was tried, what it cost; charges as CSV."""

import uuid
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from accounts.admin.fields import UsdField
from accounts.admin.history import History, add_history
from accounts.models import Account
from accounts.services.records import operator_actor, record_change
from gateway.admin import ReadOnlyAdmin, usd_column
from gateway.http.jsonio import JsonObject, dumps, format_usd
from routing.admin.trace_table import trace_table
from routing.exports.columns import PERIODS
from routing.exports.rows import UsageExport
from routing.metering.models import Generation
from routing.metering.reversals import MoreThanCharged, NotCharged, RecordGone, reverse_usage
from routing.views.analytics import download_csv

if TYPE_CHECKING:
    from gateway.admin import PageAdmin as _Page
else:
    _Page = object


class ReversalForm(forms.Form):
    """How much, and why. `ref` names this one form, so that sending it twice counts once."""

    amount = UsdField(
        label="Amount in USD", min_value=Decimal("0.000000001"), help_text="Some or all of it."
    )
    reason = forms.CharField(max_length=300, help_text="Kept on the ledger entry, with your name.")
    ref = forms.UUIDField(widget=forms.HiddenInput, initial=uuid.uuid4)

    def reverse(self, generation: Generation, user: object) -> bool | None:
        """Whether it is new; None, and an error on the form, where it cannot be."""
        amount_nano = self.cleaned_data["amount"]
        try:
            entry, is_new = reverse_usage(
                generation_id=generation.pk,
                amount_nano=amount_nano,
                source_ref=str(self.cleaned_data["ref"]),
                note=f"{self.cleaned_data['reason']} (by {user})",
            )
        except (NotCharged, RecordGone, MoreThanCharged):
            self.add_error("amount", "It is more than what is left of the charge.")
            return None
        if (entry.generation_id, entry.amount_nano) != (generation.pk, -amount_nano):
            self.add_error(None, "This form was used for another reversal. Open it again.")
            return None
        if is_new:
            record_change(
                by=operator_actor(user),
                action="booked",
                object_type="ledger_entry",
                object_id=entry.pk,
                account_id=entry.account_id,
                before=None,
                after={
                    "kind": str(entry.kind),
                    "amount_usd": format_usd(entry.amount_nano),
                    "generation_id": str(entry.generation_id),
                    "note": entry.note,
                },
            )
        return is_new


class ReversalPage(_Page):
    """Mixed into the generation's page."""

    change_form_template = "admin/routing/generation/change_form.html"

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(self.reverse_view)
        own = path("<path:generation_id>/reverse/", view, name="routing_generation_reverse")
        return [own, *super().get_urls()]

    def reverse_view(self, request: HttpRequest, generation_id: str) -> HttpResponseBase:
        if not request.user.has_perm("accounts.add_ledgerentry"):
            raise PermissionDenied
        generation = get_object_or_404(
            Generation.objects.select_related("account"), pk=generation_id
        )
        form = ReversalForm(request.POST if request.method == "POST" else None)
        if form.is_valid():
            # The entry and who made it, or neither.
            with transaction.atomic():
                is_new = form.reverse(generation, request.user)
            if is_new is not None:
                amount = f"{format_usd(form.cleaned_data['amount'])} USD"
                if is_new:
                    messages.success(request, f"Gave {amount} of {generation} back.")
                else:
                    text = f"{amount} had been given back already, and count once."
                    messages.warning(request, text)
                page = reverse("admin:routing_generation_change", args=[generation.pk])
                return HttpResponseRedirect(page)
        context = {
            **self.admin_site.each_context(request),
            "title": "Give back its charge",
            "opts": self.opts,
            "generation": generation,
            "charged": format_usd(generation.charge_nano),
            "form": form,
        }
        return TemplateResponse(request, "admin/routing/generation/reverse.html", context)


add_history(History("Generations", "admin:routing_generation_changelist"))

_ATTEMPT_COLUMNS = {
    "provider_name": "Provider",
    "endpoint_id": "Endpoint",
    "model_permaslug": "Model",
    "status": "Status",
    "error_type": "Error",
    "latency": "Milliseconds",
    "routed_service_tier": "Tier",
    "credential": "Credential",
    "id": "Upstream's id",
}


class OutcomeFilter(admin.SimpleListFilter):
    """How a generation ended."""

    title = "outcome"
    parameter_name = "outcome"

    def lookups(
        self, request: HttpRequest, model_admin: "admin.ModelAdmin[Generation]"
    ) -> list[tuple[str, str]]:
        return [
            ("answered", "Answered"),
            ("failed", "Failed"),
            ("cancelled", "Cancelled by the caller"),
            ("retried", "Answered by a later attempt"),
        ]

    def queryset(
        self, request: HttpRequest, queryset: QuerySet[Generation]
    ) -> QuerySet[Generation]:
        answered = Q(status=200, cancelled=False)
        match self.value():
            case "answered":
                return queryset.filter(answered)
            case "failed":
                return queryset.exclude(status=200).filter(cancelled=False)
            case "cancelled":
                return queryset.filter(cancelled=True)
            case "retried":
                return queryset.filter(answered, attempts__1__isnull=False)
        return queryset


class UsageExportForm(forms.Form):
    """What was booked on which days, and of whom."""

    account = forms.ModelChoiceField(
        Account.objects.order_by("name"), required=False, empty_label="All accounts"
    )
    first_day = forms.DateField(help_text="UTC, YYYY-MM-DD")
    last_day = forms.DateField(help_text="It is included.")
    per = forms.ChoiceField(
        choices=[(per, f"A row per {per}") for per in reversed(PERIODS)],
        help_text="Rows of a day are per key, model, provider and end user.",
    )

    def clean(self) -> JsonObject:
        fields: JsonObject = super().clean() or {}
        if "first_day" in fields and fields.get("last_day", date.max) < fields["first_day"]:
            self.add_error("last_day", "It is before the first day.")
        return fields

    def build_export(self) -> UsageExport:
        fields = self.cleaned_data
        account = fields["account"]
        return UsageExport(
            fields["first_day"],
            fields["last_day"],
            fields["per"],
            (account.pk,) if account else None,
        )


@admin.register(Generation)
class GenerationAdmin(ReversalPage, ReadOnlyAdmin):
    """One row per request that reached an upstream, written with its charge."""

    change_list_template = "admin/routing/generation/change_list.html"
    charge = usd_column("charge_nano", "charged")
    hold = usd_column("hold_nano", "held")
    upstream_cost = usd_column("upstream_cost_nano", "cost at the provider")
    list_display = (
        *("id", "created_at", "account", "model", "provider_name", "status", "charge"),
        *("tokens_prompt", "tokens_completion", "latency_ms", "overrun", "lost"),
    )
    list_select_related = ("account",)
    list_filter = (OutcomeFilter, "overrun", "lost", "streamed", "created_at")
    date_hierarchy = "created_at"
    ordering = ("-created_at",)
    search_fields = (
        *("id__exact", "session_id__exact", "upstream_id__exact"),
        *("external_user__exact", "account__name__exact"),
    )
    search_help_text = "Generation id, session, upstream's id, end user, account"
    fieldsets = (
        (
            None,
            {"fields": ("id", "created_at", "account", "workspace", "api_key", "api_type")},
        ),
        (
            "Answer",
            {
                "fields": (
                    *("requested_model", "model", "provider_name", "endpoint_tag", "status"),
                    *("error_type", "finish_reason", "native_finish_reason", "service_tier"),
                    *("streamed", "cancelled", "lost", "upstream_id", "preset_id"),
                )
            },
        ),
        ("Attempts", {"fields": ("attempt_table",)}),
        ("Routing", {"fields": ("candidates",)}),
        (
            "Tokens and time",
            {
                "fields": (
                    *("tokens_prompt", "tokens_cached", "tokens_completion", "tokens_reasoning"),
                    *("latency_ms", "generation_time_ms"),
                )
            },
        ),
        (
            "Money",
            {
                "fields": (
                    *("charge", "hold", "charge_against_hold", "overrun"),
                    *("upstream_cost", "is_byok", "ledger_entries"),
                )
            },
        ),
        ("Caller", {"fields": ("session_id", "external_user", "detail_table")}),
    )
    readonly_fields = (
        *("attempt_table", "candidates", "charge", "hold", "charge_against_hold", "upstream_cost"),
        *("ledger_entries", "detail_table"),
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Generation]:
        # A workspace is named after its account.
        rows: QuerySet[Generation] = super().get_queryset(request)
        # A list shows no trace, and they are the larger part of a row.
        return rows.select_related("account", "api_key", "workspace__account").defer("trace")

    @admin.display(description="attempts")
    def attempt_table(self, generation: Generation) -> SafeString:
        heads = format_html_join("", "<th>{}</th>", ((t,) for t in _ATTEMPT_COLUMNS.values()))
        cells = [
            format_html_join(
                "", "<td>{}</td>", ((_as_text(attempt.get(name)),) for name in _ATTEMPT_COLUMNS)
            )
            for attempt in generation.attempts
        ]
        rows = format_html_join("", "<tr>{}</tr>", ((each,) for each in cells))
        table = "<table><thead><tr>{}</tr></thead><tbody>{}</tbody></table>"
        return format_html(table, heads, rows)

    @admin.display(description="candidates")
    def candidates(self, generation: Generation) -> SafeString:
        return trace_table(generation.trace)

    @admin.display(description="detail")
    def detail_table(self, generation: Generation) -> SafeString:
        rows = ((name, _as_text(value)) for name, value in generation.detail.items())
        cells = format_html_join("", "<tr><th>{}</th><td>{}</td></tr>", rows)
        return format_html("<table><tbody>{}</tbody></table>", cells)

    @admin.display(description="charge against hold")
    def charge_against_hold(self, generation: Generation) -> str:
        left_nano = generation.hold_nano - generation.charge_nano
        if left_nano < 0:
            return f"{format_usd(-left_nano)} USD more than was held"
        return f"{format_usd(left_nano)} USD of the hold given back"

    @admin.display(description="ledger")
    def ledger_entries(self, generation: Generation) -> SafeString:
        page = reverse("admin:accounts_ledgerentry_changelist")
        query = urlencode({"q": generation.pk})
        return format_html('<a href="{}?{}">Its ledger entries</a>', page, query)

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(self.export_view)
        return [path("export/", view, name="routing_generation_export"), *super().get_urls()]

    def export_view(self, request: HttpRequest) -> HttpResponseBase:
        """The form; with its fields in the query, the file itself."""
        if not request.user.has_perm("accounts.view_ledgerentry"):
            raise PermissionDenied
        form = UsageExportForm(request.GET if "per" in request.GET else None)
        if form.is_valid():
            return download_csv(form.build_export())
        context = {
            **self.admin_site.each_context(request),
            "title": "Export charges",
            "opts": self.opts,
            "form": form,
        }
        return TemplateResponse(request, "admin/routing/generation/export.html", context)


def _as_text(value: object) -> str:
    if value is None:
        return "-"
    return value if isinstance(value, str) else dumps(value).decode()
