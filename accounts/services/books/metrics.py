"""Metrics of the books: read from the database when somebody scrapes."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Final

from django.db.models import Count, Exists, F, OuterRef, Q, Sum

from accounts.models import Account, Hold, LastAudit, LedgerEntry
from gateway.database.db import Lane, run_queries
from gateway.metrics.families import ScrapedGauge
from gateway.metrics.scrape import Reading

_USD_NANO: Final = 10**9
# Less than this share of what an account bought is nearly nothing.
_NEARLY_GONE: Final = 10
_ACCOUNTS_MAX: Final = 20
# An account that was given up long ago would stay on that list for good.
_ACTIVE_WITHIN: Final = timedelta(days=30)

AUDIT_AT: Final = ScrapedGauge(
    "gateway_ledger_audit_timestamp_seconds",
    "When the schedule last audited the books, in seconds since 1970.",
)
AUDIT_MISMATCHES: Final = ScrapedGauge(
    "gateway_ledger_audit_mismatches",
    "Totals that differed from entries and holds at the last audit.",
)
HOLDS: Final = ScrapedGauge("gateway_holds_open", "Requests that money is held for.")
HELD: Final = ScrapedGauge("gateway_held_usd", "Money that is held for them, in USD.")
HOLDS_EXPIRED: Final = ScrapedGauge(
    "gateway_holds_expired", "Holds past their lease, which the next sweep should free."
)
LOW_CREDIT: Final = ScrapedGauge(
    "gateway_account_low_credit_usd",
    "What is left to accounts that have less than a tenth of what they bought, in USD; it may be "
    "nothing or a debt. It lists the 20 that have least, of those with entries in the last 30 "
    "days.",
    "account",
)


def record_audit(mismatches: int, *, at: datetime) -> None:
    """Keep the result of an audit for the next scrape."""
    LastAudit.objects.update_or_create(pk=1, defaults={"at": at, "mismatches": mismatches})


def read_books() -> list[Reading]:
    """The source of the books' metrics (`gateway.metrics.scrape`)."""
    return run_queries(Lane.OPERATOR, lambda: list(_read_books()))


def _read_books() -> Iterator[Reading]:
    holds = Hold.objects.aggregate(
        n=Count("pk"),
        held=Sum("amount_nano"),
        expired=Count("pk", filter=Q(lease_expires_at__lt=datetime.now(UTC))),
    )
    yield Reading(HOLDS, holds["n"])
    yield Reading(HELD, (holds["held"] or 0) / _USD_NANO)
    yield Reading(HOLDS_EXPIRED, holds["expired"])
    left = F("total_credits_nano") - F("total_usage_nano") - F("held_nano")
    audit = LastAudit.objects.first()
    if audit is not None:
        yield Reading(AUDIT_AT, audit.at.timestamp())
        yield Reading(AUDIT_MISMATCHES, audit.mismatches)
    recent = LedgerEntry.objects.filter(
        account=OuterRef("pk"), created_at__gte=datetime.now(UTC) - _ACTIVE_WITHIN
    )
    low = (
        Account.objects.filter(total_credits_nano__gt=0)
        .annotate(left_nano=left)
        .filter(left_nano__lt=F("total_credits_nano") / _NEARLY_GONE)
        .filter(Exists(recent))
        .order_by("left_nano")[:_ACCOUNTS_MAX]
    )
    for pk, left_nano in low.values_list("pk", "left_nano"):
        yield Reading(LOW_CREDIT, left_nano / _USD_NANO, (str(pk),))
