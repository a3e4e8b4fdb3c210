"""What guardrails take out of the choice: together, in any order, never less than each alone."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accounts.guard_rules import NO_RULES, USES, ZDR_GROUPS, GuardrailEntry, combine_guardrails
from routing.entities.entries import EndpointEntry
from routing.selection import guardrail_filters as guarding
from routing.selection.filters import DATA_STEP, GUARDRAILS_STEP, ZDR_STEP, list_filters
from routing.selection.guardrail_filters import GuardrailChoice, zdr_group
from routing.selection.replay import read_replay
from routing.selection.resolution import apply_guardrails, build_policy
from routing.selection.select import select
from routing.selection.trace import build_trace
from routing.selection.types import (
    NO_POLICY,
    NOTHING_LEARNED,
    Plan,
    Policy,
    Requirements,
    Resolution,
)
from tests.routing.selection.entries import endpoint, model

ASK = Requirements(kinds=frozenset({"openai"}))
MODELS = ("acme/small", "anthropic/opus", "openai/mini", "x-ai/grok")
PROVIDERS = ("alpha", "beta", "gamma")
REGIONS = ("global", "europe", "us")
PAID, FREE = [{"prompt": usd, "completion": usd} for usd in ("0.000001", "0")]


def entries() -> Any:
    return st.builds(
        GuardrailEntry,
        scope=st.just("key"),
        allowed_models=st.none() | st.frozensets(st.sampled_from(MODELS), min_size=1),
        ignored_models=st.frozensets(st.sampled_from(MODELS), max_size=1),
        allowed_providers=st.none() | st.frozensets(st.sampled_from(PROVIDERS), min_size=1),
        ignored_providers=st.frozensets(st.sampled_from(PROVIDERS), max_size=1),
        regions=st.none() | st.frozensets(st.sampled_from(REGIONS), min_size=1),
        zdr=st.frozensets(st.sampled_from(ZDR_GROUPS), max_size=2),
        denies_collection=st.booleans(),
        forbidden_uses=st.frozensets(st.sampled_from(sorted(USES.values()))),
    )


def endpoints() -> Any:
    return st.builds(
        endpoint,
        st.sampled_from(PROVIDERS),
        model_id=st.sampled_from(MODELS),
        region=st.sampled_from(REGIONS),
        zdr=st.booleans(),
        collects_data=st.booleans(),
        publishes_data=st.booleans(),
        pricing=st.sampled_from([PAID, FREE]),
    )


def filter_by(given: list[EndpointEntry], guardrails: list[GuardrailEntry]) -> list[EndpointEntry]:
    """What of the endpoints all guardrails leave."""
    guard = combine_guardrails(guardrails)
    policy = NO_POLICY if guard is None else apply_guardrails(NO_POLICY, guard.rules)
    for _, keep in list_filters(ASK, policy):
        given = keep(given)
    return given


@given(st.lists(endpoints(), max_size=6), st.lists(entries(), max_size=4))
def test_each_is_as_a_person_would_read_it(
    given: list[EndpointEntry], guardrails: list[GuardrailEntry]
) -> None:
    """So their order makes no difference, and one more never admits anything."""
    assert filter_by(given, guardrails) == [
        each for each in given if all(_admits(one, each) for one in guardrails)
    ]


def _admits(one: GuardrailEntry, each: EndpointEntry) -> bool:
    uses = set()
    free = each.prices is not None and each.prices.is_free
    if each.collects_data:
        uses.add("free training" if free else "paid training")
    if each.publishes_data and free:
        uses.add("free publication")
    return (
        (one.allowed_models is None or each.model_id in one.allowed_models)
        and each.model_id not in one.ignored_models
        and (one.allowed_providers is None or each.provider.slug in one.allowed_providers)
        and each.provider.slug not in one.ignored_providers
        and (one.regions is None or each.region in one.regions)
        and (each.zdr or zdr_group(each.model_id) not in one.zdr)
        and not (one.denies_collection and each.collects_data)
        and not (uses & one.forbidden_uses)
    )


def test_the_words_are_the_same_on_both_sides() -> None:
    assert frozenset(ZDR_GROUPS) == guarding.ZDR_GROUPS
    uses = {guarding.PAID_TRAINING, guarding.FREE_TRAINING, guarding.FREE_PUBLICATION}
    assert uses == set(USES.values())


@pytest.mark.parametrize(
    ("model_id", "group"),
    [
        ("anthropic/claude", "anthropic"),
        ("openai/gpt:free", "openai"),
        ("google/gemini", "google"),
        ("x-ai/grok", "xai"),
        ("xai/grok", "xai"),
        ("acme/openai", "other"),
        ("openai-community/x", "other"),
    ],
)
def test_a_model_is_of_its_author_s_group(model_id: str, group: str) -> None:
    assert zdr_group(model_id) == group


SERVED = model(endpoint("alpha", zdr=True), endpoint("beta", collects_data=True))
NOT_ALPHA = {"ignored_providers": frozenset({"alpha"})}


def plan_under(choice: GuardrailChoice) -> tuple[Policy, Plan]:
    policy = apply_guardrails(NO_POLICY, choice)
    return policy, select([SERVED], ASK, policy, random=lambda: 0.0)


@pytest.mark.parametrize(
    ("entry", "step"),
    [
        ({"allowed_models": frozenset({"acme/other"})}, GUARDRAILS_STEP),
        ({"ignored_models": frozenset({"acme/small"})}, GUARDRAILS_STEP),
        ({"ignored_providers": frozenset({"alpha", "beta"})}, GUARDRAILS_STEP),
        ({"allowed_providers": frozenset({"p1"})}, GUARDRAILS_STEP),
        ({"regions": frozenset({"europe"})}, GUARDRAILS_STEP),
        (NOT_ALPHA | {"denies_collection": True}, DATA_STEP),
        (NOT_ALPHA | {"forbidden_uses": frozenset({"paid training"})}, DATA_STEP),
        (NOT_ALPHA | {"zdr": frozenset({"other"})}, ZDR_STEP),
    ],
)
def test_the_step_that_leaves_nothing_is_named(entry: dict[str, Any], step: str) -> None:
    guard = combine_guardrails([GuardrailEntry(scope="key", **entry)])
    assert guard is not None

    _, plan = plan_under(guard.rules)

    assert (plan.failed_step, plan.order) == (step, ())


def test_guardrails_lift_nothing_that_the_request_demands() -> None:
    demanding = replace(NO_POLICY, zdr=True, deny_data_collection=True)

    assert apply_guardrails(demanding, NO_RULES) == demanding


def test_no_retention_for_any_author_is_none_at_all() -> None:
    """Drafts of content go by this."""
    assert apply_guardrails(NO_POLICY, NO_RULES._replace(zdr=frozenset(ZDR_GROUPS))).zdr
    assert not apply_guardrails(NO_POLICY, NO_RULES._replace(zdr=frozenset({"other"}))).zdr


def test_nothing_said_is_no_guard() -> None:
    assert combine_guardrails([]) is None
    assert combine_guardrails([GuardrailEntry(scope="key")]) is None
    direct = Resolution((), "direct")
    assert build_policy(None, resolution=direct) is NO_POLICY
    guard = combine_guardrails(
        [GuardrailEntry(scope="key", ignored_providers=frozenset({"alpha"}))]
    )
    assert guard is not None
    guarded = build_policy(None, resolution=direct, guarded=guard.rules)
    assert guarded == apply_guardrails(NO_POLICY, guard.rules) != NO_POLICY


def trace_under(choice: GuardrailChoice) -> tuple[Policy, Any]:
    policy, plan = plan_under(choice)
    named: Any = {"models": ["acme/small"], "requested": ["x"], "strategy": "direct"}
    return policy, build_trace(plan, ASK, policy, NOTHING_LEARNED, **named)


@given(entries())
def test_a_trace_tells_what_was_held_to(entry: GuardrailEntry) -> None:
    guard = combine_guardrails([entry])

    policy, trace = trace_under(guard.rules if guard else NO_RULES)

    assert read_replay(trace).policy == policy
