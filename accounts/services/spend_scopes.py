"""Ending and changing budgets, so that they hold from the commit on, and what is left of old ones.

A change of a limit calls `outdate_limits` first: from the commit on, no hold is placed under
older limits. It locks the account's row, so what is read after it stays true until then.
"""

import logging
from collections.abc import Collection, Iterable
from datetime import datetime, timedelta
from functools import partial
from typing import Final, cast
from uuid import UUID

from django.db import transaction
from django.db.models import F, Q

from accounts.models import Account, Event, SpendCounter, Workspace
from accounts.spending import (
    ERASED_USER,
    OF_REQUESTS,
    ScopeKind,
    SpendScope,
    WindowName,
    format_end_user_scope_id,
    format_guardrail_scope_id,
)

log = logging.getLogger("accounts.limits")


def end_budgets(account_id: UUID, scopes: Collection[SpendScope]) -> None:
    """No limit any more on what these scopes spend (their `limit_nano` says nothing here).

    Call it in the transaction of the change, before other rows than the account's are locked. It
    locks that row first, as the ledger writer does.
    """
    outdate_limits(account_id)
    for kind, window in {(each.scope, each.window) for each in scopes}:
        ids = [each.scope_id for each in scopes if (each.scope, each.window) == (kind, window)]
        counters = SpendCounter.objects.filter(scope=kind, scope_id__in=ids, window=window)
        counters.update(limit_nano=None)


def build_scope(counter: SpendCounter) -> SpendScope:
    """The budget that a limited counter belongs to, as it is now."""
    assert counter.limit_nano is not None
    confined = counter.workspace_id if counter.scope == SpendCounter.Scope.GUARDRAIL else None
    return SpendScope(
        cast(ScopeKind, counter.scope),
        counter.scope_id,
        cast(WindowName, counter.window),
        counter.limit_nano,
        counter.counts_byok,
        confined.hex if confined else "",
    )


def outdate_limits(account_id: UUID) -> None:
    """Lock the account's row; from the commit on, no hold is placed or raised by who knows older
    limits.

    A new or changed budget asks for no more than that. The ledger writer makes or mends its counter
    when it next meets the new limit, and lets requests under way hold on it. Call it in the
    transaction of the change, and before other rows are locked.
    """
    assert transaction.get_connection().in_atomic_block, "limits change with what they are of"
    Account.objects.filter(pk=account_id).update(limits_version=F("limits_version") + 1)
    log_limits_change(account_id)


def log_limits_change(account_id: UUID) -> None:
    """Log it once the change is committed."""
    fields = {"account_id": str(account_id)}
    message = "Limits of account %s changed"
    transaction.on_commit(partial(log.info, message, account_id, extra=fields))


def end_guardrail_budget(guardrail_id: UUID) -> None:
    """Nobody is held to the guardrail's budget as it was."""
    _clear_limits(Q(scope_id__startswith=f"{guardrail_id.hex}:"))


def end_holder_budgets(pairs: Iterable[tuple[UUID, dict[str, int]]]) -> None:
    """These holders are not held any more to the budgets of these guardrails."""
    ids = [format_guardrail_scope_id(guardrail, **holder) for guardrail, holder in pairs]
    if ids:
        _clear_limits(Q(scope_id__in=ids))


def end_member_budgets(account_id: UUID, user: int | None) -> None:
    """No guardrail's budget any more for all that a user's keys spend in the account, until the
    ledger writer meets it again."""
    if user is not None:
        _clear_limits(Q(account=account_id, scope_id__endswith=f":u:{user}"))


def _clear_limits(whose: Q) -> None:
    counters = SpendCounter.objects.filter(whose, scope="guardrail", limit_nano__isnull=False)
    counters.update(limit_nano=None)


# Longer than the longest window, and than any request that began in it.
_KEPT: Final = timedelta(days=70)
_AT_ONCE: Final = 5_000


def delete_old_counters(now: datetime) -> int:
    """Delete the counters of windows that are long over, in portions; how many. Nothing sums them
    up: charges stand in the ledger."""
    old = SpendCounter.objects.filter(
        scope__in=OF_REQUESTS, window_start__lt=(now - _KEPT).date(), held_nano=0
    ).exclude(window=SpendCounter.Window.TOTAL)
    total = 0
    while pks := list(old.values_list("pk", flat=True)[:_AT_ONCE]):
        total += SpendCounter.objects.filter(pk__in=pks).delete()[0]
    return total


def erase_end_user_budget(account_id: UUID, user_hash: str) -> None:
    """Forget a limit of his own, events that name him, and what names him on counters. Their rows
    stay, because requests under way count on them."""
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
            counter.scope_id = f"{places[counter.scope_id]}:{ERASED_USER}{counter.pk}"
        SpendCounter.objects.bulk_update(counters, ["scope_id"])
        of_users = Event.objects.filter(
            account=account_id, key__startswith="budget.threshold:end_user:"
        )
        of_users.filter(key__contains=f":{user_hash[:31]}:").delete()
