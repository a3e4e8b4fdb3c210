"""Money moved behind the API's back, so that the books still agree."""

import secrets
from datetime import UTC, datetime


def book_usage(
    account_id: str, *, amount_nano: int | None = None, until_balance_nano: int = 0
) -> None:
    """A usage entry of that amount, or of what brings the account to the balance."""
    from accounts.models import Account, LedgerEntry

    account = Account.objects.get(pk=account_id)
    if amount_nano is None:
        amount_nano = account.balance_nano - until_balance_nano
    account.total_usage_nano += amount_nano
    account.save(update_fields=["total_usage_nano"])
    LedgerEntry.objects.create(
        account=account,
        kind=LedgerEntry.Kind.USAGE,
        amount_nano=amount_nano,
        source="test",
        source_ref=secrets.token_hex(8),
        created_at=datetime.now(UTC),
    )
