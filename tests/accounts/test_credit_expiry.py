"""Credits expire oldest first, exactly, and once."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection, transaction
from hypothesis import given, settings
from hypothesis import strategies as st
from pytest_django import Settings

from accounts import tasks
from accounts.models import Account, LedgerEntry
from accounts.models.ledger import CREDIT_KINDS
from accounts.services.accounts import open_account
from accounts.services.credit_expiry import expire_credits
from tests.support.callers import at_a_time

pytestmark = [pytest.mark.django_db, pytest.mark.both]
NOW = datetime(2026, 7, 1, 12, tzinfo=UTC)
DAYS = 365
_KEEPS: Any = settings(max_examples=40, deadline=None)


def book(account: Account, kind: str, amount: int, days_ago: float, ref: str) -> None:
    """An entry as it would stand in the books, totals included."""
    LedgerEntry.objects.create(
        account=account,
        kind=kind,
        amount_nano=amount,
        source="test",
        source_ref=f"{account.pk}{ref}",
        created_at=NOW - timedelta(days=days_ago),
    )
    account.refresh_from_db()
    if kind in CREDIT_KINDS:
        account.total_credits_nano += amount
    else:
        account.total_usage_nano += amount
    account.save()


def expired(account: Account) -> int:
    entries = LedgerEntry.objects.filter(account=account, kind="expiry")
    return -sum(entry.amount_nano for entry in entries)


def expire(days: int = DAYS, now: datetime = NOW) -> int:
    return expire_credits(now=now, days=days)


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
def test_what_expires_is_what_is_left_of_the_old_lots(
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
        assert expired(account) == left_of_old_lots(lots, used + refunded + held)
        assert again == 0
        assert first == (expired(account) > 0)
        assert audit_is_clean()
        transaction.set_rollback(True)


def audit_is_clean() -> bool:
    """Totals as the entries say, leaving holds out: there are none behind these."""
    from django.db.models import Sum

    for account in Account.objects.all():
        entries = account.entries.filter(kind__in=CREDIT_KINDS)
        if (entries.aggregate(s=Sum("amount_nano"))["s"] or 0) != account.total_credits_nano:
            return False
    return True


def test_what_a_request_holds_expires_once_it_is_free(account: Account) -> None:
    book(account, "purchase", 10, 400, "old")
    Account.objects.update(held_nano=4)

    expire()
    assert expired(account) == 6
    Account.objects.update(held_nano=0)
    expire(now=NOW + timedelta(hours=1))

    assert expired(account) == 10


def test_credits_of_the_last_moment_stay(account: Account) -> None:
    book(account, "purchase", 10, DAYS - 0.0001, "nearly")
    book(account, "purchase", 5, DAYS, "just")

    expire()

    assert expired(account) == 5


def test_many_accounts_expire_in_batches(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("accounts.services.credit_expiry._BATCH", 2)
    for number in range(5):
        book(open_account(name=f"a{number}"), "purchase", 1, 400, str(number))

    assert expire() == 5
    assert LedgerEntry.objects.filter(kind="expiry").count() == 5


def test_the_task_does_nothing_while_credits_never_expire(
    account: Account, settings: Settings
) -> None:
    book(account, "purchase", 10, 4000, "old")

    assert tasks.expire_credits() == 0
    settings.CREDIT_EXPIRY_DAYS = 365
    assert tasks.expire_credits() == 1
    assert expired(account) == 10


@pytest.mark.django_db(transaction=True)
def test_the_books_agree_afterwards(account: Account) -> None:
    book(account, "purchase", 10, 400, "old")
    expire()

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
    assert expired(account) == 10
