"""Events about budgets of end users. A workspace may have any number of them: whoever has no limit
of his own shares a hundred events a day with the others, and one more says that there were more.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Final
from uuid import UUID

from accounts.events.outbox import NewEvent, find_new_events, record_new_events
from accounts.models import Event, SpendCounter, Workspace
from accounts.services.books.spent_limits import (
    SpentLimit,
    build_crossings,
    describe_remedy,
    list_open_limits,
    select_half_spent,
)
from accounts.spending import ERASED_USER, format_end_user_scope_id, read_end_user_budget

EVENTS_A_DAY: Final = 100


def record_end_user_spending(*, now: datetime) -> int:
    """Record which budgets of end users crossed a level; how many events."""
    chosen: list[NewEvent] = []
    shared: defaultdict[UUID | None, list[NewEvent]] = defaultdict(list)
    for limit in list_open_limits(_list_budgets, now):
        events = chosen if limit.details["has_own_limit"] else shared[limit.workspace_id]
        events.extend(build_crossings(limit, now))
    for pk, workspace in Workspace.objects.in_bulk(list(shared)).items():
        chosen.extend(_choose_events(workspace, shared[pk], now))
    return record_new_events(chosen, at=now)


def _list_budgets(at: datetime) -> Iterator[SpentLimit]:
    found = Workspace.objects.filter(end_user_budget__isnull=False)
    workspaces = {workspace.pk.hex: workspace for workspace in found}
    if not workspaces:
        return
    budgets = {name: read_end_user_budget(each) for name, each in workspaces.items()}
    own = {
        format_end_user_scope_id(name, user_hash)
        for name, budget in budgets.items()
        if budget is not None
        for user_hash in budget.limits
    }
    for counter in select_half_spent(SpendCounter.Scope.END_USER, at).iterator():
        name, _, user = counter.scope_id.partition(":")
        budget = budgets.get(name)
        if budget is None or budget.window != counter.window or user.startswith(ERASED_USER):
            continue
        workspace = workspaces[name]
        assert counter.limit_nano is not None
        yield SpentLimit(
            "budget.threshold",
            f"end_user:{counter.scope_id}",
            f'End user {user[:12]} of workspace "{workspace.name}"',
            "budget",
            counter.window,
            counter.window_start,
            counter.limit_nano,
            counter.counted_nano,
            describe_remedy(f"PATCH /api/v1/workspaces/{workspace.pk}"),
            workspace.account_id,
            workspace.pk,
            is_enforced=True,
            changed_at=workspace.updated_at,
            # Counters have room for so much of the hash.
            details={
                "scope": "end_user",
                "user_hash": user,
                "has_own_limit": counter.scope_id in own,
            },
        )


def _choose_events(
    workspace: Workspace, events: Sequence[NewEvent], now: datetime
) -> Iterable[NewEvent]:
    """Those that there is room for today, and what says that there are more."""
    today = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    more = NewEvent(
        "budget.threshold",
        f"budget.threshold:end_users:{workspace.pk.hex}:{today:%Y-%m-%d}",
        f'More end users of workspace "{workspace.name}" spend their budgets than are told today',
        f"{EVENTS_A_DAY} events of {today:%Y-%m-%d} (UTC) were about end users without a limit of "
        "their own. Analytics by `external_user` show what each of them spent.",
        workspace.account_id,
        workspace.pk,
        {"scope": "end_users"},
    )
    if Event.objects.filter(key=more.key).exists():
        return ()
    recorded = Event.objects.filter(
        account_id=workspace.account_id,
        workspace_id=workspace.pk,
        at__gte=today,
        data__has_own_limit=False,
    )
    room = max(0, EVENTS_A_DAY - recorded.count())
    # The highest levels, which may stop requests, come before the many that only warn.
    new = sorted(find_new_events(events), key=lambda each: -each.data["level_percent"])
    return new if len(new) <= room else [*new[:room], more]
