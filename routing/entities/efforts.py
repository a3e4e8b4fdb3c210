"""Reasoning efforts and the token budgets they stand for."""

from typing import Final, Literal, NamedTuple

Effort = Literal["max", "xhigh", "high", "medium", "low", "minimal", "none"]

# Share of the output cap that an effort may spend on reasoning.
BUDGET_RATIOS: Final[dict[Effort, float]] = {
    "xhigh": 0.95,
    "max": 0.95,
    "high": 0.8,
    "medium": 0.5,
    "low": 0.2,
    "minimal": 0.1,
    "none": 0.0,
}
# Lowest first; "none" is no effort but the lack of one.
LEVELS: Final[tuple[Effort, ...]] = ("minimal", "low", "medium", "high", "xhigh", "max")


class EffortRules(NamedTuple):
    """A model's rules for reasoning. `supported` is empty if it takes every effort."""

    supported: frozenset[str]
    mandatory: bool


def effort_for_budget(budget: int, output_tokens_max: int | None) -> Effort:
    """The effort nearest to a token budget, for upstreams that know no budgets."""
    if budget <= 0:
        return "none"
    if not output_tokens_max:
        return "medium"
    share = budget / output_tokens_max
    levels = [level for level in BUDGET_RATIOS if level != "none"]
    return min(levels, key=lambda level: abs(BUDGET_RATIOS[level] - share))


def fit_effort(effort: Effort, rules: EffortRules) -> Effort:
    """The nearest effort that the model takes; of two equally near the lower, which costs less.
    The effort "none" is kept unless reasoning is mandatory; then it becomes the lowest effort."""
    levels = [level for level in LEVELS if level in rules.supported]
    if effort == "none":
        return (levels or LEVELS)[0] if rules.mandatory else "none"
    if not levels:
        return "none" if rules.supported and not rules.mandatory else effort
    rank = LEVELS.index(effort)
    return min(levels, key=lambda level: abs(LEVELS.index(level) - rank))
