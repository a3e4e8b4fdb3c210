"""Every movement of credits counts once, and nothing moves that is not there."""

import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest_django import Settings

from accounts.models import Account, AuditRecord, LedgerEntry, PurchaseFee
from accounts.services.accounts import open_account
from accounts.services.credits import (
    AnotherMovement,
    NotThatMuch,
    add_credits,
    fee_nano,
    take_credits,
    take_payment,
    transfer_credits,
)
from accounts.services.records import by_command

pytestmark = [pytest.mark.django_db, pytest.mark.both]
USD = 10**9


def credits_of(account: Account) -> int:
    account.refresh_from_db()
    return account.total_credits_nano


def paid(account: Account, usd: float = 100, ref: str = "p1", **more: Any) -> LedgerEntry:
    nano = int(usd * USD)
    return take_payment(account=account, paid_nano=nano, source="s", source_ref=ref, **more)[0]


def test_a_payment_without_a_fee_is_credited_whole(account: Account) -> None:
    entry = paid(account)

    assert (entry.kind, entry.amount_nano) == ("purchase", 100 * USD)
    assert not PurchaseFee.objects.exists()
    assert credits_of(account) == 100 * USD


def test_the_fee_is_kept_and_written_down(account: Account, settings: Settings) -> None:
    settings.CREDIT_FEE_RATE = 0.055
    entry = paid(account, by=by_command("test"))

    fee = PurchaseFee.objects.get()
    assert (fee.entry, fee.paid_nano, fee.fee_nano) == (entry, 100 * USD, 5_500_000_000)
    assert entry.amount_nano == credits_of(account) == 94_500_000_000
    told = AuditRecord.objects.get(object_type="ledger_entry", object_id=str(entry.pk))
    assert told.after is not None
    assert told.after["paid_usd"] == "100"
    assert told.after["fee_usd"] == "5.5"


def test_a_payment_told_again_counts_once_though_the_fee_has_changed(
    account: Account, settings: Settings
) -> None:
    settings.CREDIT_FEE_RATE = 0.055
    paid(account)
    settings.CREDIT_FEE_RATE = 0.1

    entry, new = take_payment(account=account, paid_nano=100 * USD, source="s", source_ref="p1")

    assert not new
    assert credits_of(account) == entry.amount_nano == 94_500_000_000


def test_a_reference_names_one_movement(account: Account) -> None:
    other = open_account(name="other")
    paid(account)

    with pytest.raises(AnotherMovement):
        paid(account, 101)
    with pytest.raises(AnotherMovement):
        paid(other, 100)
    with pytest.raises(AnotherMovement):
        add_credits(
            account=account,
            amount_nano=100 * USD,
            source="s",
            source_ref="p1",
            kind=LedgerEntry.Kind.GRANT,
        )
    assert (credits_of(account), credits_of(other)) == (100 * USD, 0)
    assert LedgerEntry.objects.count() == 1


@given(paid_nano=st.integers(1, 10**18), rate=st.sampled_from([0.0, 0.001, 0.05, 0.055, 0.5]))
def test_something_is_left_of_every_payment(paid_nano: int, rate: float) -> None:
    from django.test import override_settings

    with override_settings(CREDIT_FEE_RATE=rate):
        kept = fee_nano(paid_nano)

    assert 0 <= kept < paid_nano
    assert abs(kept * 1000 - paid_nano * round(rate * 1000)) <= 500


def test_a_refund_takes_what_is_left_and_no_more(account: Account) -> None:
    paid(account, 10)
    Account.objects.update(total_usage_nano=3 * USD, held_nano=2 * USD)
    refund: dict[str, Any] = {"account": account, "source": "s"}

    with pytest.raises(NotThatMuch):
        take_credits(**refund, amount_nano=5 * USD + 1, source_ref="r1")
    entry, new = take_credits(**refund, amount_nano=5 * USD, source_ref="r2")
    _, again = take_credits(**refund, amount_nano=5 * USD, source_ref="r2")

    assert (entry.kind, entry.amount_nano, new, again) == ("refund", -5 * USD, True, False)
    assert credits_of(account) == 5 * USD


def test_a_chargeback_may_go_below_zero(account: Account) -> None:
    paid(account, 1)
    Account.objects.update(total_usage_nano=1 * USD)

    take_credits(account=account, amount_nano=USD, source="s", source_ref="r", below_zero=True)

    account.refresh_from_db()
    assert account.balance_nano == -USD


def test_a_transfer_is_two_entries_or_none(account: Account) -> None:
    other = open_account(name="other")
    paid(account, 10)
    ref = str(uuid.uuid4())
    move: dict[str, Any] = {"giver": account, "taker": other, "source_ref": ref}

    with pytest.raises(NotThatMuch):
        transfer_credits(**move, amount_nano=11 * USD)
    assert transfer_credits(**move, amount_nano=4 * USD, note="moved")
    assert not transfer_credits(**move, amount_nano=4 * USD)

    assert (credits_of(account), credits_of(other)) == (6 * USD, 4 * USD)
    told = LedgerEntry.objects.filter(source="transfer").order_by("pk")
    assert [(e.kind, e.amount_nano) for e in told] == [
        ("transfer_out", -4 * USD),
        ("transfer_in", 4 * USD),
    ]
