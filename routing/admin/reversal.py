"""Giving a generation's charge back, from its page."""

import uuid
from decimal import Decimal
from typing import TYPE_CHECKING

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse

from accounts.admin.fields import UsdField
from accounts.services.records import operator_actor, record_change
from gateway.http.jsonio import format_usd
from routing.metering.models import Generation
from routing.metering.reversals import MoreThanCharged, NotCharged, RecordGone, reverse_usage

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
