"""Beginning, changing and ending budgets, so that they hold from the commit on."""

from collections.abc import Collection
from datetime import date, datetime
from typing import cast
from uuid import UUID

from django.db import transaction
from django.db.models import F, Q

from accounts.models import Account, SpendCounter
from accounts.services.open_holds import OpenHolds
from accounts.services.past_spending import PastSpending, django_reader
from accounts.spending import ScopeKind, SpendScope, WindowName
from accounts.windows import window_starts


def open_scopes(account_id: UUID, scopes: Collection[SpendScope], at: datetime) -> None:
    """Put limits on what these scopes spend, new or changed.

    Call it in the transaction of the change, and before other rows are locked than the account's:
    it locks that first, as the ledger writer does. Requests under way count from here on. Two
    queries, where none of them is under way: the ledger writer makes a counter, or puts it right,
    when it next meets the scope with its new limit.
    """
    del at  # What is under way counts in the windows it began in.
    outdate_limits(account_id)
    adopt_holds(account_id, scopes)


def adopt_holds(account_id: UUID, scopes: Collection[SpendScope]) -> None:
    """Let the holds of now count against these. The limits are outdated by now."""
    holds = OpenHolds(account_id)
    past = PastSpending(django_reader(), account_id)
    for scope in scopes:
        _open(account_id, scope, past, holds)
    holds.save()


def close_scopes(account_id: UUID, scopes: Collection[SpendScope]) -> None:
    """No limit any more on what these scopes spend (their `limit_nano` says nothing here).

    To be called as `open_scopes` is.
    """
    outdate_limits(account_id)
    for kind, window in {(each.scope, each.window) for each in scopes}:
        ids = [each.scope_id for each in scopes if (each.scope, each.window) == (kind, window)]
        counters = SpendCounter.objects.filter(scope=kind, scope_id__in=ids, window=window)
        counters.update(limit_nano=None)


def scope_of(counter: SpendCounter) -> SpendScope:
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


def spent_in(scopes: Collection[SpendScope], *, at: datetime) -> dict[SpendScope, int]:
    """What counts against each limit in the window of `at`, in nano-USD, without what is held."""
    starts = window_starts(at)
    wanted = Q()
    for each in scopes:
        wanted |= Q(
            scope=each.scope,
            scope_id=each.scope_id,
            window=each.window,
            window_start=starts[each.window],
        )
    rows = SpendCounter.objects.filter(wanted) if scopes else ()
    counted = {(row.scope, row.scope_id, row.window): row.counted_nano for row in rows}
    return {each: counted.get(each[:3], 0) for each in scopes}


def outdate_limits(account_id: UUID) -> None:
    """Lock the account's row; from the commit on, no hold is placed by who knows older limits."""
    assert transaction.get_connection().in_atomic_block, "limits change with what they are of"
    Account.objects.filter(pk=account_id).update(limits_version=F("limits_version") + 1)


def _open(account_id: UUID, scope: SpendScope, past: PastSpending, holds: OpenHolds) -> None:
    """A counter for each window that requests under way are counted in."""
    mine = holds.of(scope)
    for start in {window_starts(hold.created_at)[scope.window] for hold in mine}:
        here = [hold for hold in mine if window_starts(hold.created_at)[scope.window] == start]
        holds.adopt(_counter(account_id, scope, start, past).pk, here)


def _counter(account_id: UUID, scope: SpendScope, start: date, past: PastSpending) -> SpendCounter:
    """The counter with the limit on it and what was spent."""
    spent_nano, byok_nano = past.of(scope, start)
    workspace = scope.scope_id if scope.scope == "workspace" else scope.workspace
    counter, _ = SpendCounter.objects.update_or_create(
        scope=scope.scope,
        scope_id=scope.scope_id,
        window=scope.window,
        window_start=start,
        defaults={
            "spent_nano": spent_nano,
            "byok_spent_nano": byok_nano,
            "limit_nano": scope.limit_nano,
            "counts_byok": scope.counts_byok,
            "account_id": account_id,
            "workspace_id": UUID(workspace) if workspace else None,
        },
    )
    return counter
