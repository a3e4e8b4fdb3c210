"""The form behind `Add credits`."""

import uuid
from decimal import Decimal

from django import forms

from accounts.admin.fields import UsdField
from accounts.models import Account, LedgerEntry
from accounts.services.credits import add_credits

_SOURCE = "admin"
_KINDS = (LedgerEntry.Kind.PURCHASE, LedgerEntry.Kind.GRANT)


class CreditsForm(forms.Form):
    """Amount and reason. `ref` names this one form, so that sending it twice counts once."""

    amount = UsdField(
        label="Amount in USD", min_value=Decimal("0.000000001"), help_text="For example 5 or 0.25."
    )
    kind = forms.ChoiceField(
        choices=[(kind.value, kind.label) for kind in _KINDS],
        help_text="A grant is a gift; an account counts as paying once it has a purchase.",
    )
    reason = forms.CharField(max_length=300, help_text="Kept on the ledger entry, with your name.")
    ref = forms.UUIDField(widget=forms.HiddenInput, initial=uuid.uuid4)


def book(form: CreditsForm, *, account: Account, by: str) -> tuple[int, bool] | None:
    """Book a valid form: the amount in nano-USD, and whether it is new.

    None, and an error on the form, when the same form was used for something else before.
    """
    said = form.cleaned_data
    amount_nano: int = said["amount"]
    entry, new = add_credits(
        account=account,
        amount_nano=amount_nano,
        source=_SOURCE,
        source_ref=str(said["ref"]),
        kind=LedgerEntry.Kind(said["kind"]),
        note=f"{said['reason']} (by {by})",
    )
    if entry.account_id != account.pk or entry.amount_nano != amount_nano:
        form.add_error(None, "This form was used for another payment. Open it again.")
        return None
    return amount_nano, new
