"""`select` against the reference's own words, over random catalogues and requests."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given, settings

from routing.selection.select import select
from routing.selection.types import EndpointState, Plan, Policy, Requirements
from tests.routing.selection.cases import ON_MANY, cases
from tests.routing.selection.oracle import Verdict, judge
from tests.routing.selection.oracle_steps import (
    ABSENT,
    MAX_TOKENS,
    NOT_A_FALLBACK,
    SOFT,
    Case,
    is_candidate,
    keys,
    steps,
)

# Of these steps the reference gives no name, or leaves to the gateway which of two it names.
NAMELESS = {ABSENT, SOFT, NOT_A_FALLBACK}


def make_plan(case: Case) -> Plan:
    return select(case.models, case.ask, case.policy, case.state, random=lambda: case.chance)


def check_agreement(case: Case) -> None:
    plan, verdict = make_plan(case), judge(case)
    assert [each.pk for each in plan.order] == verdict.order
    assert plan.failed_step == verdict.failed_step
    check_considered(plan, verdict)
    check_removed(plan, verdict)
    check_weights(plan, verdict)
    capped = {pk: cap for pk, cap in plan.output_caps.items() if pk in verdict.order}
    assert capped == {pk: verdict.output_caps[pk] for pk in verdict.order if verdict.output_caps}
    probes = case.state.health.half_open & set(verdict.order[:1]) - case.state.byok.keys()
    assert plan.probe == next(iter(probes), None)


def check_considered(plan: Plan, verdict: Verdict) -> None:
    """Whom the soft preference drops may be counted among them or not."""
    dropped = {pk for pk, step in verdict.removed.items() if step == SOFT}
    considered = {each.pk for each in plan.considered}
    assert verdict.considered - dropped <= considered <= verdict.considered


def check_removed(plan: Plan, verdict: Verdict) -> None:
    """Each under its step; what the reference gives no name has one of its own."""
    told = {removed.endpoint.pk: removed.step for removed in plan.removed}
    assert told.keys() == verdict.removed.keys()
    for pk, step in verdict.removed.items():
        if step not in NAMELESS:
            assert told[pk] == step
        assert told[pk]


def check_weights(plan: Plan, verdict: Verdict) -> None:
    """Whoever can be drawn has a weight, in the right proportion to the others of the group."""
    # Where one is alone there is nothing to draw.
    groups = [group for group in verdict.drawn if len(group) > 1]
    drawn = {pk for group in groups for pk in group}
    alone = {pk for group in verdict.drawn for pk in group} - drawn
    assert {pk for pk, weight in plan.weights.items() if weight} - alone == drawn
    for group in groups:
        assert shares({pk: plan.weights[pk] for pk in group}) == pytest.approx(shares(group))


def shares(weights: "dict[int, float] | dict[int, Fraction]") -> dict[int, float]:
    total = float(sum(weights.values()))
    return {pk: float(weight) / total for pk, weight in weights.items()}


@pytest.mark.thorough
@pytest.mark.timeout(300)
@pytest.mark.nightly
def test_the_cases_reach_every_step_and_every_rule() -> None:
    """Or agreement would say little."""
    met: Counter[str] = Counter()

    @settings(ON_MANY, derandomize=True, max_examples=2500)
    @given(cases())
    def look(case: Case) -> None:
        verdict = judge(case)
        met.update(set(verdict.removed.values()))
        met.update(f"alone in {step}" for step in {verdict.failed_step} - {None})
        met.update(features(case, verdict))

    look()
    every = {step for step, _ in steps(judged_by_nobody())} | NAMELESS | FEATURES
    assert every <= met.keys(), every - met.keys()


FEATURES = {"drawn", "probe", "sticky first", "own credential", "interleaved", "lower cap"}


def features(case: Case, verdict: Verdict) -> Iterable[str]:
    """What makes a case more than a list of endpoints by price."""
    models = {each.pk: model.id for model in case.models for each in model.endpoints}
    order = [models[pk] for pk in verdict.order]
    told = {
        "drawn": any(len(group) > 1 for group in verdict.drawn),
        "probe": bool(case.state.health.half_open & set(verdict.order[:1])),
        "sticky first": verdict.order[:1] == [case.state.sticky],
        "own credential": bool(case.state.byok.keys() & verdict.order),
        "interleaved": order != sorted(order),
        "lower cap": bool(verdict.output_caps),
    }
    return [name for name, is_so in told.items() if is_so]


def judged_by_nobody() -> Case:
    return Case([], Requirements(kinds=frozenset()), Policy(), EndpointState(), 0.0)


# --- What must hold whatever the oracle thinks ----------------------------------------------------


def list_excluded(case: Case) -> set[int]:
    """Whom a filter excludes by itself, whoever else is there."""
    every = [(model, each) for model in case.models for each in model.endpoints]
    pairs = [pair for pair in every if is_candidate(pair, case.ask)]
    found = {each.pk for _, each in every} - keys(pairs)
    for step, keeps in steps(case):
        if step != MAX_TOKENS:  # It may lower the cap instead.
            found |= {pair[1].pk for pair in pairs if not keeps([pair])(pair)}
    return found


def check_what_always_holds(case: Case) -> None:
    plan = make_plan(case)
    told = Counter([each.pk for each in plan.order])
    assert not list_excluded(case) & told.keys()
    told.update(removed.endpoint.pk for removed in plan.removed)
    assert told == {each.pk: 1 for model in case.models for each in model.endpoints}
    # A list of models is as good as a tuple of them.
    assert make_plan(case) == make_plan(replace(case, models=tuple(case.models))) == plan


@given(cases())
@ON_MANY
def test_selection_agrees_with_the_reference(case: Case) -> None:
    check_agreement(case)
    check_what_always_holds(case)


@pytest.mark.nightly
@pytest.mark.timeout(900)
@given(cases())
@settings(ON_MANY, max_examples=10_000)
def test_selection_agrees_with_the_reference_ten_thousand_times(case: Case) -> None:
    check_agreement(case)
    check_what_always_holds(case)
