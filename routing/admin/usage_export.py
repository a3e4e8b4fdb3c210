"""The download of charges as CSV, from the list of generations."""

from datetime import date
from typing import TYPE_CHECKING

from django import forms
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponseBase
from django.template.response import TemplateResponse
from django.urls import URLPattern, path

from accounts.models import Account
from gateway.http.jsonio import JsonObject
from routing.exports.columns import PERIODS
from routing.exports.rows import UsageExport
from routing.views.exports import download_csv

if TYPE_CHECKING:
    from gateway.admin import PageAdmin as _Page
else:
    _Page = object


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


class UsageExportPage(_Page):
    """Mixed into the page of generations."""

    change_list_template = "admin/routing/generation/change_list.html"

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
