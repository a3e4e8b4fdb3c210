"""What is left of budgets of end users: counters of windows that are over, and of users who are
erased."""

from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from django.db import transaction

from accounts.models import SpendCounter, Workspace
from accounts.services.spend_scopes import outdate_limits
from accounts.spending import format_end_user_scope_id

# Longer than the longest window, and than any request that began in it.
_KEPT: Final = timedelta(days=70)
_AT_ONCE: Final = 5_000


def delete_old_counters(now: datetime) -> int:
    """Delete the counters of windows that are long over, in portions; how many. Nothing sums them
    up: charges stand in the ledger."""
    old = SpendCounter.objects.filter(
        scope=SpendCounter.Scope.END_USER, window_start__lt=(now - _KEPT).date(), held_nano=0
    ).exclude(window=SpendCounter.Window.TOTAL)
    total = 0
    while pks := list(old.values_list("pk", flat=True)[:_AT_ONCE]):
        total += SpendCounter.objects.filter(pk__in=pks).delete()[0]
    return total


def erase_end_user_budget(account_id: UUID, user_hash: str) -> None:
    """Forget a limit of his own, and what names him on counters. Their rows stay, because requests
    under way count on them."""
    with transaction.atomic():
        outdate_limits(account_id)
        places: dict[str, str] = {}
        for workspace in Workspace.everything.filter(account=account_id):
            budget = workspace.end_user_budget
            if budget is not None and budget["limits"].pop(user_hash, "") != "":
                workspace.save(update_fields=["end_user_budget"])
            places[format_end_user_scope_id(workspace.pk.hex, user_hash)] = workspace.pk.hex
        counters = list(SpendCounter.objects.filter(scope="end_user", scope_id__in=places))
        for counter in counters:
            counter.scope_id = f"{places[counter.scope_id]}:erased-{counter.pk}"
        SpendCounter.objects.bulk_update(counters, ["scope_id"])
