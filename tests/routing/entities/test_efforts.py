"""Which effort a model is asked for."""

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.entities.efforts import (
    BUDGET_RATIOS,
    LEVELS,
    Effort,
    EffortRules,
    effort_for_budget,
    fit_effort,
)

efforts = st.sampled_from(get_args(Effort))
rules = st.builds(EffortRules, st.frozensets(efforts), st.booleans())


@given(efforts, rules)
def test_what_is_asked_for_is_what_the_model_takes(effort: Effort, rules: EffortRules) -> None:
    fitted = fit_effort(effort, rules)
    levels = rules.supported - {"none"}
    if fitted == "none":
        assert not rules.mandatory
        assert effort == "none" or rules.supported == {"none"}
    elif levels:
        assert fitted in levels
    if effort in levels or (effort == "none" and not rules.mandatory):
        assert fitted == effort
    assert fit_effort(fitted, rules) == fitted


@given(st.sampled_from(LEVELS), rules)
def test_no_other_effort_is_nearer(effort: Effort, rules: EffortRules) -> None:
    def distance(level: Effort) -> tuple[int, int]:
        """Of two equally near the lower."""
        return abs(LEVELS.index(level) - LEVELS.index(effort)), LEVELS.index(level)

    fitted = fit_effort(effort, rules)
    others = [level for level in LEVELS if level in rules.supported]
    assert all(distance(fitted) <= distance(level) for level in others)


@pytest.mark.parametrize(
    ("supported", "mandatory", "effort", "fitted"),
    [
        ("high medium low", False, "max", "high"),
        ("high medium low", False, "minimal", "low"),
        ("high low", False, "medium", "low"),
        ("max high", False, "xhigh", "high"),
        ("high low none", False, "none", "none"),
        ("high low", False, "none", "none"),
        ("high low none", True, "none", "low"),
        ("", True, "none", "minimal"),
        ("", True, "max", "max"),
        ("none", False, "high", "none"),
    ],
)
def test_examples(supported: str, mandatory: bool, effort: Effort, fitted: str) -> None:
    assert fit_effort(effort, EffortRules(frozenset(supported.split()), mandatory)) == fitted


@pytest.mark.parametrize(
    ("budget", "limit", "effort"),
    [(0, 100, "none"), (5, None, "medium"), (12, 100, "minimal"), (50, 100, "medium")],
)
def test_a_budget_becomes_the_nearest_effort(budget: int, limit: int | None, effort: str) -> None:
    assert effort_for_budget(budget, limit) == effort
    assert effort_for_budget(10**40, 1) in BUDGET_RATIOS
