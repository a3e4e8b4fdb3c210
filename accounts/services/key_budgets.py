"""What a key may spend, as its holder is told: its usage and all budgets that it is held to, in the
order in which they refuse (management reference 8.4 and 9.2)."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any, Literal, NamedTuple
from uuid import UUID

from accounts.models import ApiKey
from accounts.services.counted import read_key_spending
from accounts.services.key_limits import KeyUsage
from accounts.spending import WINDOW_WORDS, SpendScope, parse_holder
from accounts.windows import LIMITED_WINDOW, find_window_end, find_window_starts

BudgetScope = Literal[
    "workspace_default_member",
    "workspace_default_key",
    "member",
    "api_key",
    "workspace",
    "key_limit",
]


class BudgetStanding(NamedTuple):
    """A budget and how much of it is spent, in nano-USD. `window` is one of `WINDOW_WORDS`;
    `resets_at` is None where it never does. One of the two ids says what it is of, or none."""

    scope: BudgetScope
    window: str
    limit_nano: int
    spent_nano: int
    resets_at: datetime | None
    counts_byok: bool
    guardrail_id: UUID | None = None
    budget_id: UUID | None = None

    @property
    def left_nano(self) -> int:
        """Below zero where the last answer cost more than was left."""
        return self.limit_nano - self.spent_nano


def read_budget_standings(
    key: ApiKey,
    budgets: Sequence[SpendScope],
    budget_ids: Mapping[str, UUID | None],
    *,
    at: datetime,
) -> tuple[KeyUsage, list[BudgetStanding]]:
    """What the key spent by `at`, and its budgets, in one query. `budget_ids` are those of its
    workspace's by interval."""
    usage, counted = read_key_spending(key, budgets, at=at)
    standings = [_build_standing(scope, counted[scope], budget_ids, at) for scope in budgets]
    return usage, [*standings, *_yield_key_limit(key, usage, at)]


def _build_standing(
    scope: SpendScope, spent_nano: int, budget_ids: Mapping[str, UUID | None], at: datetime
) -> BudgetStanding:
    whose: dict[str, Any]
    if scope.scope == "workspace":
        word: BudgetScope = "workspace"
        whose = {"budget_id": budget_ids.get(WINDOW_WORDS[scope.window])}
    else:
        word = _name_scope(scope)
        whose = {"guardrail_id": UUID(scope.scope_id.partition(":")[0])}
    return BudgetStanding(
        word,
        scope.window,
        scope.limit_nano,
        spent_nano,
        _find_reset(scope.window, at),
        scope.counts_byok,
        **whose,
    )


def _name_scope(scope: SpendScope) -> BudgetScope:
    is_key = parse_holder(scope.scope_id)[0] == "k"
    if scope.workspace:
        return "workspace_default_key" if is_key else "workspace_default_member"
    return "api_key" if is_key else "member"


def _yield_key_limit(key: ApiKey, usage: KeyUsage, at: datetime) -> Iterator[BudgetStanding]:
    """The key's own limit, which looks like one more."""
    if key.limit_nano is not None:
        window = LIMITED_WINDOW[key.limit_reset]
        yield BudgetStanding(
            "key_limit",
            window,
            key.limit_nano,
            usage.counted_nano(key),
            _find_reset(window, at),
            key.include_byok_in_limit,
        )


def _find_reset(window: str, at: datetime) -> datetime | None:
    end: date | None = find_window_end(window, find_window_starts(at)[window])
    return None if end is None else datetime(end.year, end.month, end.day, tzinfo=UTC)
