"""What the books show to whoever scrapes."""

from datetime import UTC, datetime, timedelta

import pytest

from accounts.models import Account, ApiKey, Hold, LedgerEntry, Workspace
from accounts.services.books.metrics import (
    AUDIT_AT,
    AUDIT_MISMATCHES,
    HELD,
    HOLDS,
    HOLDS_EXPIRED,
    LOW_CREDIT,
    read_books,
    record_audit,
)

USD = 10**9


def make_account(name: str, *, bought: int, used: int, days: int = 1) -> Account:
    """One whose newest entry of the ledger is that old."""
    account = Account.objects.create(
        name=name, total_credits_nano=bought * USD, total_usage_nano=used * USD
    )
    LedgerEntry.objects.create(
        account=account,
        kind="usage",
        amount_nano=used * USD,
        source="test",
        source_ref=name,
        created_at=datetime.now(UTC) - timedelta(days=days),
    )
    return account


@pytest.mark.both
@pytest.mark.django_db
def test_holds_and_accounts_with_little_left_are_shown() -> None:
    account = make_account("low", bought=100, used=95)
    make_account("well", bought=100, used=10)
    empty = make_account("empty", bought=100, used=100)
    make_account("gone", bought=100, used=100, days=31)
    make_account("new", bought=0, used=0)
    workspace = Workspace.objects.create(account=account, name="main", slug="main")
    key = ApiKey.objects.create(account=account, workspace=workspace, name="key", hash="hash")
    now = datetime.now(UTC)
    for number, lease in enumerate((timedelta(minutes=5), timedelta(minutes=-5))):
        Hold.objects.create(
            generation_id=f"gen-{number}",
            account=account,
            api_key=key,
            workspace=workspace,
            amount_nano=USD // 2,
            created_at=now,
            lease_expires_at=now + lease,
        )

    record_audit(1, at=now - timedelta(minutes=15))
    record_audit(2, at=now)

    found = {(each.family, each.values): each.value for each in read_books()}

    assert found == {
        (AUDIT_AT, ()): now.timestamp(),
        (AUDIT_MISMATCHES, ()): 2,
        (HOLDS, ()): 2,
        (HELD, ()): 1.0,
        (HOLDS_EXPIRED, ()): 1,
        (LOW_CREDIT, (str(account.pk),)): 5.0,
        (LOW_CREDIT, (str(empty.pk),)): 0.0,
    }
