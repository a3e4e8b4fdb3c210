"""What a key may spend, as its holder is told: its usage and all budgets that it is held to, in the
order in which they refuse (management reference 8.4 and 9.2)."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any, Literal, NamedTuple
from uuid import UUID

from accounts.models import ApiKey
from accounts.services.counted import spending_of
from accounts.services.key_limits import Usage
from accounts.spending import WINDOW_WORDS, SpendScope, holder_of
from accounts.windows import LIMITED_WINDOW, window_end, window_starts

BudgetScope = Literal[
    "workspace_default_member",
    "workspace_default_key",
    "member",
    "api_key",
    "workspace",
    "key_limit",
]


class Standing(NamedTuple):
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


def standing_of(
    key: ApiKey,
    budgets: Sequence[SpendScope],
    budget_ids: Mapping[str, UUID | None],
    *,
    at: datetime,
) -> tuple[Usage, list[Standing]]:
    """What the key spent by `at`, and its budgets, in one query. `budget_ids` are those of its
    workspace's by interval."""
    usage, counted = spending_of(key, budgets, at=at)
    standings = [_standing(scope, counted[scope], budget_ids, at) for scope in budgets]
    return usage, [*standings, *_of_key(key, usage, at)]


def _standing(
    scope: SpendScope, spent_nano: int, budget_ids: Mapping[str, UUID | None], at: datetime
) -> Standing:
    whose: dict[str, Any]
    if scope.scope == "workspace":
        word: BudgetScope = "workspace"
        whose = {"budget_id": budget_ids.get(WINDOW_WORDS[scope.window])}
    else:
        word = _word(scope)
        whose = {"guardrail_id": UUID(scope.scope_id.partition(":")[0])}
    return Standing(
        word,
        scope.window,
        scope.limit_nano,
        spent_nano,
        _resets_at(scope.window, at),
        scope.counts_byok,
        **whose,
    )


def _word(scope: SpendScope) -> BudgetScope:
    is_key = holder_of(scope.scope_id)[0] == "k"
    if scope.workspace:
        return "workspace_default_key" if is_key else "workspace_default_member"
    return "api_key" if is_key else "member"


def _of_key(key: ApiKey, usage: Usage, at: datetime) -> Iterator[Standing]:
    """The key's own limit, which looks like one more."""
    if key.limit_nano is not None:
        window = LIMITED_WINDOW[key.limit_reset]
        yield Standing(
            "key_limit",
            window,
            key.limit_nano,
            usage.counted_nano(key),
            _resets_at(window, at),
            key.include_byok_in_limit,
        )


def _resets_at(window: str, at: datetime) -> datetime | None:
    end: date | None = window_end(window, window_starts(at)[window])
    return None if end is None else datetime(end.year, end.month, end.day, tzinfo=UTC)
