"""The audit: every total recomputed from entries and holds alone."""

from dataclasses import dataclass
from datetime import datetime

from django.db import connection, transaction
from django.db.models import Count, Q, Sum

from accounts.models import Account, Hold, LedgerEntry, SpendCounter
from accounts.models.ledger import CREDIT_KINDS, USAGE_KINDS


@dataclass(frozen=True, slots=True)
class Audit:
    """`mismatches` are sentences, one per wrong total."""

    accounts: int
    mismatches: list[str]
    open_holds: int
    held_nano: int
    expired_holds: int


def audit(*, now: datetime) -> Audit:
    """Read the books at one moment and compare."""
    with transaction.atomic():
        _freeze()
        mismatches = [*_accounts(), *_counters()]
        holds = Hold.objects.aggregate(n=Count("pk"), held=Sum("amount_nano"))
        return Audit(
            accounts=Account.objects.count(),
            mismatches=mismatches,
            open_holds=holds["n"],
            held_nano=holds["held"] or 0,
            expired_holds=Hold.objects.filter(lease_expires_at__lt=now).count(),
        )


def _freeze() -> None:
    """One snapshot for all reads; SQLite's immediate transaction has one already."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")


def _accounts() -> list[str]:
    sums = {
        row["account_id"]: (row["credits"] or 0, row["usage"] or 0)
        for row in LedgerEntry.objects.values("account_id").annotate(
            credits=Sum("amount_nano", filter=Q(kind__in=CREDIT_KINDS)),
            usage=Sum("amount_nano", filter=Q(kind__in=USAGE_KINDS)),
        )
    }
    held = dict(Hold.objects.values_list("account_id").annotate(Sum("amount_nano")))
    found = []
    for account in Account.objects.iterator():
        bought, used = sums.get(account.pk, (0, 0))
        for name, told, counted in (
            ("total_credits", account.total_credits_nano, bought),
            ("total_usage", account.total_usage_nano, used),
            ("held", account.held_nano, held.get(account.pk, 0)),
        ):
            if told != counted:
                found.append(f"account {account.pk}: {name} says {told}, entries say {counted}")
    return found


def _counters() -> list[str]:
    """Each charge counts in one counter of every window, so that over all starts of a window a
    key's counters sum up to its entries. What a counter holds is the sum of its holds."""
    spent = {
        str(key): amount_nano
        for key, amount_nano in LedgerEntry.objects.filter(
            kind__in=USAGE_KINDS, api_key__isnull=False
        )
        .values_list("api_key_id")
        .annotate(Sum("amount_nano"))
    }
    held: dict[int, int] = {}
    for ids, amount_nano in Hold.objects.values_list("counter_ids", "amount_nano"):
        for counter in ids.split(","):
            held[int(counter)] = held.get(int(counter), 0) + amount_nano
    found = []
    told: dict[tuple[str, str], int] = {}
    for row in SpendCounter.objects.iterator():
        counted = held.pop(row.pk, 0)
        if row.held_nano != counted:
            found.append(f"counter {row}: held says {row.held_nano}, holds say {counted}")
        place = (row.scope_id, row.window)
        told[place] = told.get(place, 0) + row.spent_nano
    found += [f"counter {pk} is gone, holds say {nano}" for pk, nano in held.items()]
    for key in sorted({*spent, *(scope_id for scope_id, _ in told)}):
        for window in SpendCounter.Window.values:
            says, counted = told.get((key, window), 0), spent.get(key, 0)
            if says != counted:
                found.append(f"key {key}: {window} spent says {says}, entries say {counted}")
    return found
