"""Credits that nobody used in time (management reference 8.1).

Money is spent oldest first. So what is left of credits up to a moment is what the balance has
beyond all that came in since; what running requests hold is about to be spent, and is left alone.
"""

import logging
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from django.db import transaction
from django.db.models import BigIntegerField, F, OuterRef, QuerySet, Subquery, Sum, Value
from django.db.models.functions import Coalesce

from accounts.models import Account, LedgerEntry
from accounts.services.credits import take_credits

log = logging.getLogger("gateway.ledger")
_INFLOWS: Final = ("purchase", "grant", "transfer_in")
_BATCH: Final = 500


def expire_old_credits(*, now: datetime, days: int) -> int:
    """Book what is left of credits older than `days`. Returns how many accounts it was booked for.

    Each account's is a transaction of its own, told apart by the moment: nothing counts twice.
    """
    assert days > 0
    before = now - timedelta(days=days)
    booked, last = 0, None
    while accounts := _list_accounts_to_expire(before, last):
        booked += sum(_expire_account(account_id, before) for account_id in accounts)
        last = accounts[-1]
    return booked


def _list_accounts_to_expire(before: datetime, after: UUID | None) -> list[UUID]:
    """A batch of accounts that have something to expire, in primary-key order."""
    accounts = Account.objects.filter(total_credits_nano__gt=F("total_usage_nano"))
    if after is not None:
        accounts = accounts.filter(pk__gt=after)
    left_nano = F("total_credits_nano") - F("total_usage_nano") - F("held_nano")
    found = (
        accounts.annotate(young_nano=_sum_inflows(before, OuterRef("pk")))
        .filter(young_nano__lt=left_nano)
        .order_by("pk")
        .values_list("pk", flat=True)
    )
    return list(found[:_BATCH])


def _sum_inflows(before: datetime, account: OuterRef) -> Coalesce:
    came_in = _select_inflows(before).filter(account=account).order_by().values("account")
    total = came_in.annotate(total=Sum("amount_nano")).values("total")
    return Coalesce(Subquery(total, output_field=BigIntegerField()), Value(0))


def _select_inflows(before: datetime) -> QuerySet[LedgerEntry]:
    return LedgerEntry.objects.filter(kind__in=_INFLOWS, created_at__gt=before)


def _expire_account(account_id: UUID, before: datetime) -> bool:
    with transaction.atomic():
        # The ledger writer and every door for credits take this row first as well.
        account = Account.objects.select_for_update(no_key=True).get(pk=account_id)
        young = (
            _select_inflows(before).filter(account=account_id).aggregate(total=Sum("amount_nano"))
        )
        old_nano = account.balance_nano - account.held_nano - int(young["total"] or 0)
        if old_nano <= 0:
            return False
        source_ref = f"{account_id}:{before.isoformat()}"
        if LedgerEntry.objects.filter(source="expiry", source_ref=source_ref).exists():
            return False
        take_credits(
            account=account,
            amount_nano=old_nano,
            source="expiry",
            source_ref=source_ref,
            kind=LedgerEntry.Kind.EXPIRY,
            note=f"What was left of credits up to {before:%Y-%m-%d %H:%M:%S} UTC",
        )
    log.info("Expired %s nano-USD of account %s", old_nano, account_id)
    return True
