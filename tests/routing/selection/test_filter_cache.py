"""What is kept of a model for requests of one kind never makes a difference."""

from dataclasses import replace
from typing import Any
from weakref import WeakSet

from hypothesis import given
from hypothesis import strategies as st

from routing.selection.filters import list_filters
from routing.selection.select import _KEPT_MAX, filter_endpoints, select
from routing.selection.types import NO_POLICY, Policy, Requirements
from tests.routing.selection import entries
from tests.routing.selection.cases import ON_MANY, asks, cases, policies
from tests.routing.selection.oracle_steps import Case

TOKENS = st.sampled_from([0, 1, 999, 1000, 1001, 3000, 4000, 16_001])
OPENAI = frozenset({"openai"})


class Named(str):
    """A name that can be seen to go."""

    __slots__ = ("__weakref__",)


def plan_of(case: Case, ask: Requirements, policy: Policy, *, afresh: bool) -> object:
    """The plan for the case's first model, of one that nobody has asked before or of its own."""
    models = [replace(each) if afresh else each for each in case.models[:1]]
    return select(models, ask, policy, case.state, random=lambda: case.chance)


REQUESTS = st.tuples(st.none() | asks(), st.none() | policies(), TOKENS, st.none() | TOKENS)


@ON_MANY
@given(case=cases(), requests=st.lists(REQUESTS, min_size=1, max_size=6))
def test_each_request_gets_what_it_would_get_alone(case: Case, requests: list[Any]) -> None:
    """Of one kind and of many, each asked for twice."""
    for ask, policy, prompt_tokens, output_tokens in [*requests, *requests]:
        sizes = {"prompt_tokens": prompt_tokens, "output_tokens": output_tokens}
        asked, held_to = (ask or case.ask)._replace(**sizes), policy or case.policy
        alone = plan_of(case, asked, replace(held_to, is_shared=False), afresh=True)

        assert plan_of(case, asked, replace(held_to, is_shared=True), afresh=False) == alone


def test_it_is_kept_for_whoever_says_nothing_of_their_own() -> None:
    model = entries.model(entries.endpoint("a"), entries.endpoint("b"))
    ask = Requirements(kinds=OPENAI, prompt_tokens=10)

    first = filter_endpoints([model], ask, NO_POLICY)

    assert filter_endpoints([model], ask._replace(prompt_tokens=11), NO_POLICY) is first
    assert filter_endpoints([model], ask, Policy()) is not first


def test_a_policy_of_one_request_takes_the_place_of_no_shared_one() -> None:
    for is_shared in (True, False):
        policy = Policy(zdr=True, is_shared=is_shared)
        first, again = (list_filters(Requirements(kinds=OPENAI), policy)[0] for _ in range(2))
        assert (first is again) is is_shared


def test_a_plan_leaves_what_is_kept_alone() -> None:
    model = entries.model(entries.endpoint("a"), entries.endpoint("b", kind="anthropic"))
    wanted = replace(NO_POLICY, allow_fallbacks=False)
    ask = Requirements(kinds=OPENAI | {"anthropic"})

    for _ in range(2):
        plan = select([model], ask, wanted, random=lambda: 0.0)
        assert (len(plan.order), len(plan.removed)) == (1, 1)

    assert filter_endpoints([model], ask, wanted).removed == []


def test_what_a_model_keeps_is_bounded() -> None:
    model = entries.model(entries.endpoint("a"))

    for number in range(3 * _KEPT_MAX):
        supplied = frozenset({str(number)})
        filter_endpoints(
            [model], Requirements(kinds=OPENAI, supplied_parameters=supplied), NO_POLICY
        )

    assert 0 < len(model.kept) <= _KEPT_MAX


def test_what_is_kept_for_the_policies_of_keys_is_bounded() -> None:
    """A key's guardrails are read anew every moment, and each time their policy is a new one."""
    models = [entries.model(entries.endpoint(f"a{number}")) for number in range(3 * _KEPT_MAX)]
    ask, known = Requirements(kinds=OPENAI), WeakSet[Named]()
    for number in range(200):
        name = Named(str(number))
        known.add(name)
        policy = replace(NO_POLICY, guard_ignored_models=frozenset({name}))
        for model in models:
            assert filter_endpoints([model], ask, policy) is filter_endpoints([model], ask, policy)
        del name, policy

    assert len(known) <= 64
    assert not any(model.kept for model in models)


def test_a_field_of_the_format_s_own_is_for_endpoints_that_take_it() -> None:
    able = entries.endpoint("able", taken_fields=frozenset({"container", "seed"}))
    plain = Requirements(kinds=OPENAI)
    ask = plain._replace(native_fields=frozenset({"container"}))
    both = entries.model(able, entries.endpoint("unable"))

    for policy in (NO_POLICY, Policy(is_shared=True)):
        for one, left in ((plain, {"able", "unable"}), (ask, {"able"})):
            assert {each.tag for each in filter_endpoints([both], one, policy).endpoints} == left
