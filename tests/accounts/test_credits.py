"""Every movement of credits counts once, nothing moves that is not there, and credits expire
oldest first."""

import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection, transaction
from django.db.models import F, Q, Sum
from hypothesis import given, settings
from hypothesis import strategies as st
from pytest_django import Settings

from accounts import tasks
from accounts.models import Account, AuditRecord, LedgerEntry, PurchaseFee
from accounts.models.ledger import CREDIT_KINDS
from accounts.services.books.credits import (
    InsufficientBalance,
    MovementConflict,
    add_credits,
    calculate_fee_nano,
    expire_old_credits,
    take_credits,
    take_payment,
    transfer_credits,
)
from accounts.services.organization import open_account
from accounts.services.records import command_actor
from tests.support.callers import at_a_time

pytestmark = [pytest.mark.django_db, pytest.mark.both]
USD = 10**9


def credits_of(account: Account) -> int:
    account.refresh_from_db()
    return account.total_credits_nano


def pay(account: Account, usd: float = 100, ref: str = "p1", **more: Any) -> LedgerEntry:
    nano = int(usd * USD)
    return take_payment(account=account, paid_nano=nano, source="s", source_ref=ref, **more)[0]


def test_a_payment_counts_once_and_its_fee_is_kept(account: Account, settings: Settings) -> None:
    settings.CREDIT_FEE_RATE = 0.055
    entry = pay(account, by=command_actor("test"))
    settings.CREDIT_FEE_RATE = 0.1
    again, new = take_payment(account=account, paid_nano=100 * USD, source="s", source_ref="p1")

    fee = PurchaseFee.objects.get()
    assert (fee.entry, fee.paid_nano, fee.fee_nano) == (entry, 100 * USD, 5_500_000_000)
    assert (again, new) == (entry, False)
    assert (entry.kind, entry.amount_nano) == ("purchase", 94_500_000_000)
    assert credits_of(account) == 94_500_000_000
    told = AuditRecord.objects.get(object_type="ledger_entry", object_id=str(entry.pk))
    assert told.after is not None
    assert (told.after["paid_usd"], told.after["fee_usd"]) == ("100", "5.5")


def test_a_reference_names_one_movement(account: Account) -> None:
    other = open_account(name="other")
    pay(account)
    grant: dict[str, Any] = {"account": account, "amount_nano": 100 * USD, "kind": "grant"}

    with pytest.raises(MovementConflict):
        pay(account, 101)
    with pytest.raises(MovementConflict):
        pay(other, 100)
    with pytest.raises(MovementConflict):
        add_credits(**grant, source="s", source_ref="p1")
    assert (credits_of(account), credits_of(other)) == (100 * USD, 0)
    assert LedgerEntry.objects.count() == 1
    assert not PurchaseFee.objects.exists()


@given(paid_nano=st.integers(1, 10**18), rate=st.sampled_from([0.0, 0.001, 0.05, 0.055, 0.5]))
def test_something_is_left_of_every_payment(paid_nano: int, rate: float) -> None:
    from django.test import override_settings

    with override_settings(CREDIT_FEE_RATE=rate):
        kept = calculate_fee_nano(paid_nano)
    assert 0 <= kept < paid_nano
    assert abs(kept * 1000 - paid_nano * round(rate * 1000)) <= 500


def test_a_refund_takes_what_is_left_and_a_chargeback_may_go_below_zero(account: Account) -> None:
    pay(account, 10)
    Account.objects.update(total_usage_nano=3 * USD, held_nano=2 * USD)
    refund: dict[str, Any] = {"account": account, "source": "s"}

    with pytest.raises(InsufficientBalance):
        take_credits(**refund, amount_nano=5 * USD + 1, source_ref="r1")
    entry, new = take_credits(**refund, amount_nano=5 * USD, source_ref="r2")
    _, again = take_credits(**refund, amount_nano=5 * USD, source_ref="r2")

    assert (entry.kind, entry.amount_nano, new, again) == ("refund", -5 * USD, True, False)
    assert credits_of(account) == 5 * USD
    take_credits(**refund, amount_nano=6 * USD, source_ref="r3", below_zero=True)
    account.refresh_from_db()
    assert account.balance_nano == -4 * USD


def test_a_transfer_is_two_entries_or_none(account: Account) -> None:
    other = open_account(name="other")
    pay(account, 10)
    ref = str(uuid.uuid4())
    move: dict[str, Any] = {"giver": account, "taker": other, "source_ref": ref}

    with pytest.raises(InsufficientBalance):
        transfer_credits(**move, amount_nano=11 * USD)
    assert transfer_credits(**move, amount_nano=4 * USD, note="moved")
    assert not transfer_credits(**move, amount_nano=4 * USD)

    assert (credits_of(account), credits_of(other)) == (6 * USD, 4 * USD)
    told = LedgerEntry.objects.filter(source="transfer").order_by("pk")
    moved = [(entry.kind, entry.amount_nano) for entry in told]
    assert moved == [("transfer_out", -4 * USD), ("transfer_in", 4 * USD)]


NOW = datetime(2026, 7, 1, 12, tzinfo=UTC)
DAYS = 365
_KEEPS: Any = settings(max_examples=40, deadline=None)


def book(account: Account, kind: str, amount: int, days_ago: float, ref: str) -> None:
    """An entry as it would stand in the books, totals included."""
    booked = {"kind": kind, "amount_nano": amount, "created_at": NOW - timedelta(days=days_ago)}
    source = {"source": "test", "source_ref": f"{account.pk}{ref}"}
    LedgerEntry.objects.create(account=account, **booked, **source)
    total = "total_credits_nano" if kind in CREDIT_KINDS else "total_usage_nano"
    Account.objects.filter(pk=account.pk).update(**{total: F(total) + amount})


def sum_expired(account: Account) -> int:
    entries = LedgerEntry.objects.filter(account=account, kind="expiry")
    return -sum(entry.amount_nano for entry in entries)


def expire(days: int = DAYS, now: datetime = NOW) -> int:
    return expire_old_credits(now=now, days=days)


def left_of_old_lots(lots: list[tuple[int, bool]], spent: int) -> int:
    """The model: lots oldest first, each with whether it is old; spending empties the oldest."""
    left = 0
    for amount, is_old in lots:
        taken = min(amount, spent)
        spent -= taken
        left += (amount - taken) if is_old else 0
    return left


@_KEEPS
@given(
    old=st.lists(st.integers(1, 50), max_size=4),
    young=st.lists(st.integers(1, 50), max_size=4),
    used=st.integers(0, 250),
    refunded=st.integers(0, 60),
    held=st.integers(0, 60),
)
def test_what_is_left_of_old_lots_expires(
    old: list[int], young: list[int], used: int, refunded: int, held: int
) -> None:
    with transaction.atomic():
        account = open_account(name="lots")
        for number, amount in enumerate(old):
            book(account, "purchase", amount, 400 - number, f"old{number}")
        for number, amount in enumerate(young):
            book(account, "grant", amount, 100 - number, f"young{number}")
        book(account, "usage", used, 50, "used")
        book(account, "refund", -refunded, 20, "refunded")
        Account.objects.filter(pk=account.pk).update(held_nano=held)

        first, again = expire(), expire()

        lots = [(amount, True) for amount in old] + [(amount, False) for amount in young]
        assert sum_expired(account) == left_of_old_lots(lots, used + refunded + held)
        assert again == 0
        assert first == (sum_expired(account) > 0)
        assert audit_is_clean()
        transaction.set_rollback(True)


def audit_is_clean() -> bool:
    """Totals as the entries say, leaving holds out: there are none behind these."""
    of_credits = Sum("entries__amount_nano", filter=Q(entries__kind__in=CREDIT_KINDS), default=0)
    return not Account.objects.annotate(s=of_credits).exclude(s=F("total_credits_nano")).exists()


def test_what_a_request_holds_expires_once_it_is_free(account: Account) -> None:
    book(account, "purchase", 10, DAYS, "just")
    book(account, "purchase", 5, DAYS - 0.0001, "nearly")
    Account.objects.update(held_nano=4)

    expire()
    assert sum_expired(account) == 6
    Account.objects.update(held_nano=0)
    expire(now=NOW + timedelta(hours=1))
    assert sum_expired(account) == 15


def test_many_accounts_expire_in_batches(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("accounts.services.books.credits._BATCH", 2)
    for number in range(5):
        book(open_account(name=f"a{number}"), "purchase", 1, 400, str(number))
    assert expire() == 5
    assert LedgerEntry.objects.filter(kind="expiry").count() == 5


@pytest.mark.django_db(transaction=True)
def test_the_task_expires_nothing_unless_it_is_said(account: Account, settings: Settings) -> None:
    book(account, "purchase", 10, 4000, "old")

    assert tasks.expire_credits() == 0
    settings.CREDIT_EXPIRY_DAYS = 365
    assert tasks.expire_credits() == 1
    assert sum_expired(account) == 10
    call_command("audit_ledger")


@pytest.mark.django_db(transaction=True)
def test_four_runs_at_once_expire_once(account: Account) -> None:
    book(account, "purchase", 10, 400, "old")

    def run(_: int) -> int:
        try:
            return expire()
        finally:
            connection.close()

    assert sum(at_a_time(4, 4, run)) == 1
    assert sum_expired(account) == 10
