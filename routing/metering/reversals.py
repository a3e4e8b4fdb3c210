"""Giving a charge back. The entry of the charge stays; a second entry corrects it."""

from datetime import UTC, datetime
from functools import reduce
from operator import or_

from django.db import transaction
from django.db.models import F, Q, Sum

from accounts.models import Account, LedgerEntry, SpendCounter
from accounts.services.past_spending import (
    ChargeScope,
    build_django_reader,
    find_budget_counters,
)
from accounts.spending import list_windows
from routing.metering.models import Generation

SOURCE = "reversal"


class NotCharged(Exception):
    """No charge of that generation is in the books."""


class RecordGone(Exception):
    """The charge is older than what is known of the day that it counted in."""


class MoreThanCharged(Exception):
    """The amount is more than what is left of the charge."""


def reverse_usage(
    *, generation_id: str, amount_nano: int, source_ref: str, note: str = ""
) -> tuple[LedgerEntry, bool]:
    """Lower an account's usage by some or all of one charge: the entry, and whether it is new.

    The counters of key and budgets go down where the charge had counted. Two calls with one
    `source_ref` count once. Raises `NotCharged`, `RecordGone` and `MoreThanCharged`.
    """
    assert amount_nano > 0
    with transaction.atomic():
        charge = LedgerEntry.objects.filter(generation_id=generation_id, kind="usage").first()
        generation = Generation.objects.filter(pk=generation_id).first()
        if charge is None:
            raise NotCharged(generation_id)
        # Pinned at admission, as the charge's were. The record may be gone, and entries of the
        # first versions bear no day.
        day = charge.day if generation is None else generation.created_at.date()
        if day is None:
            raise RecordGone(generation_id)
        # The row that the ledger writer locks first: nobody touches its counters meanwhile.
        Account.objects.select_for_update().get(pk=charge.account_id)
        entry_before = LedgerEntry.objects.filter(source=SOURCE, source_ref=source_ref).first()
        if entry_before is not None:
            return entry_before, False
        kinds = "usage", "byok_fee", "usage_reversal"
        mine = LedgerEntry.objects.filter(generation_id=generation_id, kind__in=kinds)
        total_nano: int = mine.aggregate(left=Sum("amount_nano"))["left"]
        if amount_nano > total_nano:
            raise MoreThanCharged(generation_id)
        Account.objects.filter(pk=charge.account_id).update(
            total_usage_nano=F("total_usage_nano") - amount_nano
        )
        windows = list_windows(day)
        of_key = reduce(or_, (Q(window=window, window_start=start) for window, start in windows))
        key, workspace = charge.api_key_id, charge.workspace_id
        assert key is not None
        assert workspace is not None
        less = F("spent_nano") - amount_nano
        lowered = SpendCounter.objects.filter(
            of_key, scope=SpendCounter.Scope.KEY, scope_id=str(key)
        ).update(spent_nano=less)
        assert lowered == len(windows)
        budgets = find_budget_counters(
            build_django_reader(), ChargeScope(charge.account_id, workspace, key, windows)
        )
        SpendCounter.objects.filter(pk__in=budgets).update(spent_nano=less)
        entry = LedgerEntry.objects.create(
            account_id=charge.account_id,
            workspace_id=charge.workspace_id,
            api_key_id=charge.api_key_id,
            kind=LedgerEntry.Kind.USAGE_REVERSAL,
            amount_nano=-amount_nano,
            generation_id=generation_id,
            day=day,
            source=SOURCE,
            source_ref=source_ref,
            note=note,
            created_at=datetime.now(UTC),
        )
    return entry, True
