"""Reasoning budgets in tokens (inference reference 1.5)."""

from typing import Final

from routing.entities.efforts import BUDGET_RATIOS, Effort

BUDGET_TOKENS_MIN: Final = 1024
BUDGET_TOKENS_MAX: Final = 128_000


def budget_for_effort(effort: Effort, output_tokens_max: int) -> int | None:
    """The token budget of an effort other than "none", strictly below the output cap; None where
    the cap has no room for the smallest."""
    # A cap as large as this changes nothing any more, and one past a double would be an error.
    cap = min(output_tokens_max, 20 * BUDGET_TOKENS_MAX)
    return budget_below(output_tokens_max, min(int(cap * BUDGET_RATIOS[effort]), BUDGET_TOKENS_MAX))


def budget_below(output_tokens_max: int, wanted: int) -> int | None:
    """A wanted budget as far as the output cap has room for it, None where not even for the
    smallest."""
    budget = min(max(wanted, BUDGET_TOKENS_MIN), output_tokens_max - 1)
    return budget if budget >= BUDGET_TOKENS_MIN else None
