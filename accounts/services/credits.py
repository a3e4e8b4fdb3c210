"""Money that comes in."""

from datetime import UTC, datetime

from django.db import transaction
from django.db.models import F

from accounts.models import Account, LedgerEntry


def add_credits(
    *,
    account: Account,
    amount_nano: int,
    source: str,
    source_ref: str,
    kind: LedgerEntry.Kind = LedgerEntry.Kind.PURCHASE,
    note: str = "",
) -> tuple[LedgerEntry, bool]:
    """Record money that came in: the entry, and whether it is new.

    Told twice about one payment (same source and ref), it counts once.
    """
    assert amount_nano > 0
    with transaction.atomic():
        entry, new = LedgerEntry.objects.get_or_create(
            source=source,
            source_ref=source_ref,
            defaults={
                "account": account,
                "kind": kind,
                "amount_nano": amount_nano,
                "created_at": datetime.now(UTC),
                "note": note,
            },
        )
        if new:
            Account.objects.filter(pk=account.pk).update(
                total_credits_nano=F("total_credits_nano") + amount_nano
            )
    return entry, new
