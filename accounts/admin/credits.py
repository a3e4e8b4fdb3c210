"""Pages of an account that move its credits, and the download of its statement."""

import uuid
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

from django import forms
from django.conf import settings
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse

from accounts.admin.fields import UsdField
from accounts.models import Account, LedgerEntry
from accounts.services.books.credits import (
    InsufficientBalance,
    MovementConflict,
    add_credits,
    take_credits,
    take_payment,
    transfer_credits,
)
from accounts.services.books.statement import StatementPeriod
from accounts.services.books.statement_file import FORMATS, write_statement
from accounts.services.records import operator_actor
from accounts.views.statement import download
from gateway.http.jsonio import JsonObject, format_usd

_SOURCE = "admin"
_KINDS = (LedgerEntry.Kind.PURCHASE, LedgerEntry.Kind.GRANT)
_BEFORE = "This form was used for another payment. Open it again."


class _MovementForm(forms.Form):
    amount = UsdField(
        label="Amount in USD", min_value=Decimal("0.000000001"), help_text="For example 5 or 0.25."
    )
    reason = forms.CharField(max_length=300, help_text="Kept on the ledger entry, with your name.")
    ref = forms.UUIDField(widget=forms.HiddenInput, initial=uuid.uuid4)

    def book(self, *, account: Account, user: object) -> bool | None:
        """Book a valid form; whether it is new. None, and an error on it, where it cannot be."""
        try:
            return self.move(account=account, user=user)
        except MovementConflict:
            self.add_error(None, _BEFORE)
        except InsufficientBalance:
            self.add_error("amount", "The balance, less what is held, is smaller.")
        return None

    def move(self, *, account: Account, user: object) -> bool:
        """Raises `MovementConflict` and `InsufficientBalance`."""
        raise NotImplementedError

    def note(self, user: object) -> str:
        return f"{self.cleaned_data['reason']} (by {user})"


class CreditsForm(_MovementForm):
    """Money that came in, or a gift."""

    kind = forms.ChoiceField(
        choices=[(kind.value, kind.label) for kind in _KINDS],
        help_text="A grant is a gift; an account counts as paying once it has a purchase.",
    )
    field_order = ("amount", "kind", "reason")

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        if settings.CREDIT_FEE_RATE:
            self.fields[
                "kind"
            ].help_text += f" Of a purchase {settings.CREDIT_FEE_RATE:.4%} are kept as the fee."

    def move(self, *, account: Account, user: object) -> bool:
        cleaned = self.cleaned_data
        movement: JsonObject = {
            "account": account,
            "source": _SOURCE,
            "source_ref": str(cleaned["ref"]),
            "note": self.note(user),
            "by": operator_actor(user),
        }
        if cleaned["kind"] == LedgerEntry.Kind.PURCHASE:
            return take_payment(paid_nano=cleaned["amount"], **movement)[1]
        return add_credits(amount_nano=cleaned["amount"], kind=LedgerEntry.Kind.GRANT, **movement)[
            1
        ]


class RefundForm(_MovementForm):
    """Money that goes back to who paid it."""

    below_zero = forms.BooleanField(
        required=False,
        label="Even below zero",
        help_text="A payment that was taken back after it was spent.",
    )
    field_order = ("amount", "reason", "below_zero")

    def move(self, *, account: Account, user: object) -> bool:
        cleaned = self.cleaned_data
        return take_credits(
            account=account,
            amount_nano=cleaned["amount"],
            source=_SOURCE,
            source_ref=str(cleaned["ref"]),
            note=self.note(user),
            below_zero=cleaned["below_zero"],
            by=operator_actor(user),
        )[1]


class TransferForm(_MovementForm):
    """Credits that move to another account."""

    to = forms.ModelChoiceField(Account.objects.order_by("name"), label="To the account")
    field_order = ("amount", "to", "reason")

    def __init__(self, *args: Any, account: Account, **options: Any) -> None:
        super().__init__(*args, **options)
        field: Any = self.fields["to"]
        field.queryset = field.queryset.exclude(pk=account.pk)

    def move(self, *, account: Account, user: object) -> bool:
        cleaned = self.cleaned_data
        return transfer_credits(
            giver=account,
            taker=cleaned["to"],
            amount_nano=cleaned["amount"],
            source_ref=str(cleaned["ref"]),
            note=self.note(user),
            by=operator_actor(user),
        )


def _last_month() -> tuple[date, date]:
    this = datetime.now(UTC).date().replace(day=1)
    return (this - timedelta(days=1)).replace(day=1), this


class StatementForm(forms.Form):
    """Which statement to download: last month's by default."""

    start = forms.DateField(initial=lambda: _last_month()[0], help_text="UTC")
    end = forms.DateField(
        initial=lambda: _last_month()[1], help_text="The first day that is not part of it."
    )
    format = forms.ChoiceField(choices=[(name, name.upper()) for name in reversed(FORMATS)])

    def clean(self) -> JsonObject:
        cleaned: JsonObject = super().clean() or {}
        if "start" in cleaned and "end" in cleaned and cleaned["end"] < cleaned["start"]:
            self.add_error("end", "It is before the start.")
        return cleaned

    @property
    def period(self) -> StatementPeriod:
        days = (self.cleaned_data["start"], self.cleaned_data["end"])
        return StatementPeriod(*(datetime.combine(day, time(), UTC) for day in days))


if TYPE_CHECKING:
    from gateway.admin import PageAdmin as _Page
else:
    _Page = object


class _PageTexts(NamedTuple):
    """A page's title, what the object's log says afterwards, and the message to the operator."""

    title: str
    logged: str
    message: str


_ADDING = _PageTexts("Add credits", "Added credits", "Added {} to {}.")
_REFUNDING = _PageTexts("Refund credits", "Refunded credits", "Refunded {} of {}.")
_TRANSFERRING = _PageTexts("Transfer credits", "Transferred credits", "Moved {} away from {}.")


class MoneyPages(_Page):
    """Mixed into the account's page."""

    def get_urls(self) -> list[URLPattern]:
        views = {
            "credits": self.credits_view,
            "refund": self.refund_view,
            "transfer": self.transfer_view,
            "statement": self.statement_view,
        }
        own = [
            path(
                f"<uuid:account_id>/{name}/",
                self.admin_site.admin_view(view),
                name=f"accounts_account_{name}",
            )
            for name, view in views.items()
        ]
        return [*own, *super().get_urls()]

    def has_credits_permission(self, request: HttpRequest) -> bool:
        """Moving credits is adding a ledger entry."""
        return request.user.has_perm("accounts.add_ledgerentry")

    def credits_view(self, request: HttpRequest, account_id: uuid.UUID) -> HttpResponseBase:
        account = self._account(request, account_id)
        form = CreditsForm(_read_post(request))
        return self._moving(request, account, form, _ADDING)

    def refund_view(self, request: HttpRequest, account_id: uuid.UUID) -> HttpResponseBase:
        account = self._account(request, account_id)
        form = RefundForm(_read_post(request))
        return self._moving(request, account, form, _REFUNDING)

    def transfer_view(self, request: HttpRequest, account_id: uuid.UUID) -> HttpResponseBase:
        account = self._account(request, account_id)
        form = TransferForm(_read_post(request), account=account)
        return self._moving(request, account, form, _TRANSFERRING)

    def statement_view(self, request: HttpRequest, account_id: uuid.UUID) -> HttpResponseBase:
        """The form; with its fields in the query, the statement itself."""
        if not request.user.has_perm("accounts.view_ledgerentry"):
            raise PermissionDenied
        account = get_object_or_404(Account, pk=account_id)
        form = StatementForm(request.GET if "format" in request.GET else None)
        if form.is_valid():
            written_as = FORMATS[form.cleaned_data["format"]]
            return download(write_statement(account.pk, form.period, written_as))
        return self._page(request, account, form, "Statement", method="get")

    def _account(self, request: HttpRequest, account_id: uuid.UUID) -> Account:
        if not self.has_credits_permission(request):
            raise PermissionDenied
        return get_object_or_404(Account, pk=account_id)

    def _moving(
        self, request: HttpRequest, account: Account, form: _MovementForm, words: _PageTexts
    ) -> HttpResponseBase:
        new = form.book(account=account, user=request.user) if form.is_valid() else None
        if new is None:
            return self._page(request, account, form, words.title, method="post")
        amount = f"{format_usd(form.cleaned_data['amount'])} USD"
        if new:
            self.log_change(request, account, f"{words.logged}: {amount}.")
            messages.success(request, words.message.format(amount, account))
        else:
            messages.warning(request, f"{amount} had been booked already, and count once.")
        return HttpResponseRedirect(reverse("admin:accounts_account_change", args=[account.pk]))

    def _page(
        self, request: HttpRequest, account: Account, form: object, title: str, *, method: str
    ) -> HttpResponseBase:
        context = {
            **self.admin_site.each_context(request),
            "title": title,
            "opts": self.opts,
            "account": account,
            "balance": format_usd(account.balance_nano),
            "form": form,
            "method": method,
        }
        return TemplateResponse(request, "admin/accounts/account/credits.html", context)


def _read_post(request: HttpRequest) -> Any:
    return request.POST if request.method == "POST" else None
