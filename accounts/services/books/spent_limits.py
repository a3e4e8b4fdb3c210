"""Events about budgets and limits of keys: a schedule looks at what is committed.

The key of an event names a crossing, so that each is recorded once, whoever looks and how often.
Nothing of this is on the way of a request.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Final, NamedTuple, TypeVar
from uuid import UUID

from django.db.models import Case, F, Q, QuerySet, Value, When

from accounts.events.kinds import EventKind
from accounts.events.outbox import NewEvent, record_new_events
from accounts.models import (
    ApiKey,
    Guardrail,
    SpendCounter,
    User,
    Workspace,
    WorkspaceBudget,
)
from accounts.money import format_dollars
from accounts.services.budgets import read_spending_of_many
from accounts.services.key_limits import read_usages
from accounts.spending import (
    LIMITED_WINDOW,
    UNREACHABLE_NANO,
    WINDOW_OF_WORD,
    WINDOW_WORDS,
    build_workspace_scopes,
    find_window_end,
    find_window_starts,
    parse_holder,
    read_tag_budgets,
)
from gateway.http.jsonio import JsonObject, format_usd

LEVELS_PERCENT: Final = (50, 80, 100)
# Longer than requests take, and than a worker is away while it is replaced.
_WINDOW_LAG: Final = timedelta(hours=1)
# Each asks in one statement with a piece for each budget.
_BUDGETS_AT_ONCE: Final = 100
_KEYS_AT_ONCE: Final = 500
_T = TypeVar("_T")


class SpentLimit(NamedTuple):
    """A limit and what counts against it in its window. `subject` names whose it is in keys,
    `whose` in words; `remedy` says who can raise it."""

    kind: EventKind
    subject: str
    whose: str
    what: str
    window: str
    start: date
    limit_nano: int
    spent_nano: int
    remedy: str
    account_id: UUID
    workspace_id: UUID | None
    is_enforced: bool
    changed_at: datetime | None
    details: JsonObject

    def was_held_until_its_end(self, now: datetime) -> bool:
        """Whether its window is over, and nobody changed the limit since."""
        end = find_window_end(self.window, self.start)
        if end is None or end > now.date():
            return False
        return self.changed_at is None or self.changed_at.astimezone(UTC).date() < end


def record_spending(*, now: datetime) -> int:
    """Record which budgets and limits of keys crossed a level; how many events."""
    limits = list_open_limits(_list_limits, now)
    events = [event for limit in limits for event in build_crossings(limit, now)]
    return record_new_events(events, at=now)


def list_open_limits(
    list_limits: Callable[[datetime], Iterable[SpentLimit]], now: datetime
) -> Iterator[SpentLimit]:
    """The limits in the windows that `now` is in. For a while after its end a window is looked at
    too: what began in its last seconds is charged later."""
    yield from list_limits(now)
    before = now - _WINDOW_LAG
    if find_window_starts(before) != find_window_starts(now):
        for limit in list_limits(before):
            if limit.was_held_until_its_end(now):
                yield limit


def _list_limits(at: datetime) -> Iterator[SpentLimit]:
    """All of them, in the windows that `at` is in."""
    yield from _list_workspace_budgets(at)
    yield from _list_guardrail_budgets(at)
    yield from _list_tag_budgets(at)
    yield from _list_key_limits(at)


def _list_workspace_budgets(now: datetime) -> Iterator[SpentLimit]:
    rows = WorkspaceBudget.objects.filter(workspace__deleted_at__isnull=True)
    starts = find_window_starts(now)
    for part in _split(list(rows.select_related("workspace")), _BUDGETS_AT_ONCE):
        budgets = [
            (row.workspace.account_id, build_workspace_scopes(row.workspace, [row])[0])
            for row in part
        ]
        for row, spent_nano in zip(part, read_spending_of_many(budgets, at=now), strict=True):
            window = WINDOW_OF_WORD[row.interval]
            path = f"PUT /api/v1/workspaces/{row.workspace_id}/budgets/{row.interval}"
            yield SpentLimit(
                "budget.threshold",
                f"workspace:{row.workspace_id}",
                f'Workspace "{row.workspace.name}"',
                "budget",
                window,
                starts[window],
                row.limit_nano,
                spent_nano,
                describe_remedy(path),
                row.workspace.account_id,
                row.workspace_id,
                row.enforcement == "block",
                row.updated_at,
                {"scope": "workspace"},
            )


def _list_guardrail_budgets(now: datetime) -> Iterator[SpentLimit]:
    counters = [
        *select_half_spent(SpendCounter.Scope.GUARDRAIL, now),
        *_select_current(SpendCounter.Scope.GUARDRAIL, now).filter(limit_nano=UNREACHABLE_NANO),
    ]
    ids = {UUID(counter.scope_id.partition(":")[0]) for counter in counters}
    guardrails = Guardrail.objects.select_related("workspace").in_bulk(ids)
    holders = [parse_holder(counter.scope_id) for counter in counters]
    keys = ApiKey.objects.in_bulk([number for kind, number in holders if kind == "k"])
    users = User.objects.in_bulk([number for kind, number in holders if kind == "u"])
    for counter, (kind, number) in zip(counters, holders, strict=True):
        guardrail = guardrails.get(UUID(counter.scope_id.partition(":")[0]))
        holder = keys.get(number) if kind == "k" else users.get(number)
        if guardrail is None or holder is None or counter.account_id is None:
            continue
        if guardrail.limit_nano is None:
            continue
        name = f'API key "{holder.name}"' if isinstance(holder, ApiKey) else holder.username
        yield SpentLimit(
            "budget.threshold",
            f"guardrail:{counter.scope_id}",
            name,
            f'budget of guardrail "{guardrail.name}"',
            counter.window,
            counter.window_start,
            guardrail.limit_nano,
            counter.counted_nano,
            describe_remedy(f"PATCH /api/v1/guardrails/{guardrail.pk}"),
            counter.account_id,
            guardrail.workspace_id,
            guardrail.budget_enforcement == "block",
            guardrail.updated_at,
            {"scope": "guardrail", "guardrail_id": str(guardrail.pk)},
        )


def _list_tag_budgets(now: datetime) -> Iterator[SpentLimit]:
    """Budgets of one value. Where each value has one, counters do not say whose they are."""
    starts = find_window_starts(now)
    for workspace in Workspace.objects.filter(tag_budgets__isnull=False).iterator():
        named = [
            budget.build_scope(budget.value)
            for budget in read_tag_budgets(workspace)
            if budget.value is not None
        ]
        ids = {scope.scope_id for scope in named}
        counters = {
            (counter.scope_id, counter.window): counter
            for counter in _select_current(SpendCounter.Scope.TAG, now).filter(scope_id__in=ids)
        }
        for scope in named:
            counter = counters.get((scope.scope_id, scope.window))
            if counter is None:
                continue
            yield SpentLimit(
                "budget.threshold",
                f"tag:{scope.scope_id}",
                f'Tag "{scope.tag}" of workspace "{workspace.name}"',
                "budget",
                scope.window,
                starts[scope.window],
                scope.limit_nano,
                counter.counted_nano,
                describe_remedy(f"PATCH /api/v1/workspaces/{workspace.pk}"),
                workspace.account_id,
                workspace.pk,
                scope.is_enforced,
                workspace.updated_at,
                {"scope": "tag", "tag": scope.tag},
            )


def _list_key_limits(now: datetime) -> Iterator[SpentLimit]:
    ids = [int(each.scope_id) for each in select_half_spent(SpendCounter.Scope.KEY, now)]
    # Their counters have no limit.
    warning = ApiKey.objects.living().filter(limit_enforcement="warn", limit_nano__gt=0)
    ids += warning.values_list("pk", flat=True)
    starts = find_window_starts(now)
    for part in _split(ids, _KEYS_AT_ONCE):
        keys = list(ApiKey.objects.living().filter(pk__in=part, limit_nano__gt=0))
        usages = read_usages(keys=keys, at=now)
        for key in keys:
            assert key.limit_nano is not None
            window = LIMITED_WINDOW[key.limit_reset]
            yield SpentLimit(
                "key.limit_threshold",
                f"key:{key.pk}",
                f'API key "{key.name}" ({key.label})',
                "limit",
                window,
                starts[window],
                key.limit_nano,
                usages[key.pk].counted_nano(key),
                describe_remedy(f"PATCH /api/v1/keys/{key.hash}"),
                key.account_id,
                key.workspace_id,
                key.enforced_limit_nano is not None,
                key.updated_at,
                {"key_name": key.name, "key_label": key.label},
            )


def _select_current(scope: str, at: datetime) -> QuerySet[SpendCounter]:
    """The counters of the windows that `at` is in."""
    current = Q()
    for window, start in find_window_starts(at).items():
        current |= Q(window=window, window_start=start)
    return SpendCounter.objects.filter(current, scope=scope)


def select_half_spent(scope: str, at: datetime) -> QuerySet[SpendCounter]:
    """The limited counters of the windows that `at` is in of which half is spent, the lowest
    level."""
    byok = Case(When(counts_byok=True, then=F("byok_spent_nano")), default=Value(0))
    counted = _select_current(scope, at).annotate(so_far_nano=F("spent_nano") + byok)
    # No product, which a large amount would make too large for the database.
    return counted.filter(limit_nano__gt=0, so_far_nano__gte=F("limit_nano") / 2)


def build_crossings(spent: SpentLimit, now: datetime) -> Iterator[NewEvent]:
    limit, used = format_dollars(spent.limit_nano), format_dollars(spent.spent_nano)
    word = WINDOW_WORDS[spent.window]  # type: ignore[index]  # Counters hold its keys.
    end = find_window_end(spent.window, spent.start)
    is_over = end is not None and end <= now.date()
    verb = "began" if is_over else "begins"
    resets = "" if end is None else f" It {verb} anew on {end:%Y-%m-%d} (UTC)."
    for level in LEVELS_PERCENT:
        if spent.spent_nano * 100 < level * spent.limit_nano:
            return
        is_spent = level == LEVELS_PERCENT[-1] and not is_over
        effect = _EFFECTS[spent.is_enforced] if is_spent else ""
        yield NewEvent(
            spent.kind,
            f"{spent.kind}:{spent.subject}:{spent.window}:{spent.start}:{level}:{spent.limit_nano}",
            f"{spent.whose} has spent {level} % of its {word} {spent.what}",
            f"{spent.whose} has spent {used} of its {word} {spent.what} of {limit}.{effect}{resets}"
            f" {spent.remedy}",
            spent.account_id,
            spent.workspace_id,
            {
                **spent.details,
                "level_percent": level,
                "limit_usd": format_usd(spent.limit_nano),
                "spent_usd": format_usd(spent.spent_nano),
                "window": word,
                "window_start": str(spent.start),
                "enforcement": "block" if spent.is_enforced else "warn",
            },
        )


_EFFECTS: Final = {
    True: " Requests that cost something are refused from now on.",
    False: " It only warns: requests go on.",
}


def describe_remedy(path: str) -> str:
    return f"A management key of the account can raise it with {path}."


def _split(values: Sequence[_T], size: int) -> Iterator[list[_T]]:
    for begin in range(0, len(values), size):
        yield list(values[begin : begin + size])
