"""The forms behind an account's money pages.

`ref` names one form on one page, so that sending it twice counts once.
"""

import uuid
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Protocol

from django import forms
from django.conf import settings

from accounts.admin.fields import UsdField
from accounts.models import Account, LedgerEntry
from accounts.services.credits import (
    InsufficientBalance,
    MovementConflict,
    add_credits,
    take_credits,
    take_payment,
    transfer_credits,
)
from accounts.services.records import operator_actor
from accounts.services.statements.statement import StatementPeriod
from accounts.services.statements.statement_file import FORMATS

_SOURCE = "admin"
_KINDS = (LedgerEntry.Kind.PURCHASE, LedgerEntry.Kind.GRANT)
_BEFORE = "This form was used for another payment. Open it again."


class _MovementForm(forms.Form):
    amount = UsdField(
        label="Amount in USD", min_value=Decimal("0.000000001"), help_text="For example 5 or 0.25."
    )
    reason = forms.CharField(max_length=300, help_text="Kept on the ledger entry, with your name.")
    ref = forms.UUIDField(widget=forms.HiddenInput, initial=uuid.uuid4)

    def book(self, *, account: Account, user: Any) -> bool | None:
        """Book a valid form; whether it is new. None, and an error on it, where it cannot be."""
        try:
            return self.move(account=account, user=user)
        except MovementConflict:
            self.add_error(None, _BEFORE)
        except InsufficientBalance:
            self.add_error("amount", "The balance, less what is held, is smaller.")
        return None

    def move(self, *, account: Account, user: Any) -> bool:
        """Raises `MovementConflict` and `InsufficientBalance`."""
        raise NotImplementedError

    def note(self, user: Any) -> str:
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

    def move(self, *, account: Account, user: Any) -> bool:
        said = self.cleaned_data
        movement: dict[str, Any] = {
            "account": account,
            "source": _SOURCE,
            "source_ref": str(said["ref"]),
            "note": self.note(user),
            "by": operator_actor(user),
        }
        if said["kind"] == LedgerEntry.Kind.PURCHASE:
            return take_payment(paid_nano=said["amount"], **movement)[1]
        return add_credits(amount_nano=said["amount"], kind=LedgerEntry.Kind.GRANT, **movement)[1]


class RefundForm(_MovementForm):
    """Money that goes back to who paid it."""

    below_zero = forms.BooleanField(
        required=False,
        label="Even below zero",
        help_text="A payment that was taken back after it was spent.",
    )
    field_order = ("amount", "reason", "below_zero")

    def move(self, *, account: Account, user: Any) -> bool:
        said = self.cleaned_data
        return take_credits(
            account=account,
            amount_nano=said["amount"],
            source=_SOURCE,
            source_ref=str(said["ref"]),
            note=self.note(user),
            below_zero=said["below_zero"],
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

    def move(self, *, account: Account, user: Any) -> bool:
        said = self.cleaned_data
        return transfer_credits(
            giver=account,
            taker=said["to"],
            amount_nano=said["amount"],
            source_ref=str(said["ref"]),
            note=self.note(user),
            by=operator_actor(user),
        )


class Movement(Protocol):
    """What the pages do with any of the forms above."""

    cleaned_data: dict[str, Any]

    def is_valid(self) -> bool: ...
    def book(self, *, account: Account, user: Any) -> bool | None: ...


def _last_month() -> tuple[date, date]:
    this = datetime.now(UTC).date().replace(day=1)
    return (this - timedelta(days=1)).replace(day=1), this


class StatementForm(forms.Form):
    """Which statement to download: last month's, unless something else is said."""

    start = forms.DateField(initial=lambda: _last_month()[0], help_text="UTC")
    end = forms.DateField(
        initial=lambda: _last_month()[1], help_text="The first day that is not part of it."
    )
    format = forms.ChoiceField(choices=[(name, name.upper()) for name in reversed(FORMATS)])

    def clean(self) -> dict[str, Any]:
        said: dict[str, Any] = super().clean() or {}
        if "start" in said and "end" in said and said["end"] < said["start"]:
            self.add_error("end", "It is before the start.")
        return said

    @property
    def period(self) -> StatementPeriod:
        days = (self.cleaned_data["start"], self.cleaned_data["end"])
        return StatementPeriod(*(datetime.combine(day, time(), UTC) for day in days))
