"""Money moved behind the API's back, so that the books still agree."""

import secrets
from datetime import UTC, datetime
from typing import Any


def book_usage(
    account_id: Any, *, amount_nano: int | None = None, until_balance_nano: int = 0, **more: Any
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
        **{"created_at": datetime.now(UTC), **more},
    )


def book_spending(api_key: str, *, amount_nano: int) -> None:
    """What a key spent today in one call, as the ledger writer would have booked it."""
    from accounts.keystring import hash_key
    from accounts.models import ApiKey, SpendCounter
    from accounts.spending import LIMITED_WINDOW, find_window_starts

    key, now = ApiKey.objects.get(hash=hash_key(api_key)), datetime.now(UTC)
    entry: dict[str, Any] = {"workspace_id": key.workspace_id, "api_key": key}
    entry |= {"day": now.date(), "created_at": now}
    book_usage(key.account_id, amount_nano=amount_nano, **entry)
    for window, start in find_window_starts(now).items():
        place: dict[str, Any] = {"window": window, "window_start": start}
        limit_nano = key.limit_nano if window == LIMITED_WINDOW[key.limit_reset] else None
        row, _ = SpendCounter.objects.get_or_create(
            scope="key", scope_id=str(key.pk), **place, defaults={"limit_nano": limit_nano}
        )
        row.spent_nano += amount_nano
        row.save(update_fields=["spent_nano"])
