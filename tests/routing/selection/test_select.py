"""Filters by table; and whatever comes, no endpoint vanishes unexplained."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.catalogue.entries import EndpointEntry, ModelEntry
from routing.selection.ask import NO_POLICY, Ask, Plan, Standing, State
from routing.selection.select import all_down, select
from tests.routing.selection.entries import endpoint, model

CHAT = frozenset({"openai"})


def plan_for(*models: ModelEntry, mark: float = 0.0, **needs: Any) -> Plan:
    return select(models, Ask(kinds=CHAT, **needs), random=lambda: mark)


def steps(plan: Plan) -> dict[str, str]:
    return {each.endpoint.tag: each.step for each in plan.removed}


FILTERED: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("Not Served", {"kind": "anthropic"}, {}),
    ("No Price", {"pricing": None}, {}),
    ("Down", {"status": -3}, {}),
    ("Down", {"status": -5}, {}),
    ("Down", {"status": -10}, {}),
    ("Filter by Service Tier", {"tier": "priority"}, {}),
    ("Filter by Service Tier", {"tier": "flex"}, {"service_tier": "priority"}),
    ("Filter by Image Support", {}, {"input_modalities": frozenset({"text", "image"})}),
    ("Filter by Audio Support", {}, {"input_modalities": frozenset({"audio"})}),
    ("Filter by Video Support", {}, {"input_modalities": frozenset({"video"})}),
    ("Filter by File Support", {}, {"input_modalities": frozenset({"file"})}),
    ("Filter by Output Modality", {}, {"output_modalities": frozenset({"image"})}),
    ("Parameter Preference", {"supported_parameters": frozenset()}, {"tools": True}),
    ("Filter by Context Length", {"context_length": 99}, {"prompt_tokens": 100}),
    ("Filter by Context Length", {"max_prompt_tokens": 99}, {"prompt_tokens": 100}),
    (
        "Filter by Context Length",
        {"context_length": 149, "max_completion_tokens": None},
        {"prompt_tokens": 100, "output_tokens": 50},
    ),
    ("Filter by Max Tokens", {"max_completion_tokens": 49}, {"output_tokens": 50}),
]
ABLE: dict[str, Any] = {
    "input_modalities": ("text", "image", "audio", "video", "file"),
    "output_modalities": ("text", "image"),
}


@pytest.mark.parametrize(("step", "changes", "needs"), FILTERED)
def test_what_an_endpoint_lacks_takes_it_out_by_name(
    step: str, changes: dict[str, Any], needs: dict[str, Any]
) -> None:
    plan = plan_for(model(endpoint("able", **ABLE), endpoint("lacking", **changes)), **needs)

    assert [each.tag for each in plan.order] == ["able"]
    assert steps(plan) == {"lacking": step}
    assert plan.failed_step is None


FITTING: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"status": -1}, {}),
    ({"status": -2}, {}),
    ({"tier": "priority"}, {"service_tier": "priority"}),
    ({"context_length": 150}, {"prompt_tokens": 100, "output_tokens": 50}),
    ({"context_length": None}, {"prompt_tokens": 10**9, "output_tokens": 1}),
    ({"max_prompt_tokens": 100}, {"prompt_tokens": 100}),
    ({"max_completion_tokens": 50}, {"output_tokens": 50}),
    # The endpoint gives 50 at most, so only 50 of the 100 asked for have to fit.
    (
        {"context_length": 150, "max_completion_tokens": 50},
        {"prompt_tokens": 100, "output_tokens": 100},
    ),
]


@pytest.mark.parametrize(("changes", "needs"), FITTING)
def test_what_just_fits_stays(changes: dict[str, Any], needs: dict[str, Any]) -> None:
    plan = plan_for(model(endpoint("just", **changes)), **needs)

    assert [each.tag for each in plan.order] == ["just"]


def test_the_filter_that_emptied_the_list_is_named_with_who_was_there_before() -> None:
    plan = plan_for(
        model(endpoint("a", input_modalities=("text", "image")), endpoint("b")),
        input_modalities=frozenset({"text", "image"}),
        prompt_tokens=10**6,
    )

    assert plan.order == ()
    assert plan.failed_step == "Filter by Context Length"
    assert [each.tag for each in plan.considered] == ["a"]
    assert steps(plan) == {"b": "Filter by Image Support", "a": "Filter by Context Length"}


def test_where_no_endpoint_gives_enough_output_the_request_is_lowered() -> None:
    short = [endpoint("a", max_completion_tokens=10), endpoint("b", max_completion_tokens=20)]
    plan = plan_for(model(*short), output_tokens=50)

    assert {each.tag for each in plan.order} == {"a", "b"}
    assert {each.tag: plan.output_caps[each.pk] for each in plan.order} == {"a": 10, "b": 20}


@pytest.mark.parametrize("parameter", ["tools", "response_format", "verbosity"])
def test_supporters_of_a_parameter_are_preferred_where_there_are_some(parameter: str) -> None:
    able = endpoint("able", supported_parameters=frozenset({parameter}))
    unable = endpoint("unable", supported_parameters=frozenset())

    some = plan_for(model(able, unable), supplied_parameters=frozenset({parameter}))
    none = plan_for(model(unable), supplied_parameters=frozenset({parameter}))

    assert [each.tag for each in some.order] == ["able"]
    assert steps(some) == {"unable": "Parameter Preference"}
    # Tools alone are more than a preference.
    given_up = parameter == "tools"
    assert [each.tag for each in none.order] == ([] if given_up else ["unable"])
    assert none.failed_step == ("Filter by Tool Compatibility" if given_up else None)


def test_preferences_narrow_one_after_the_other_and_never_to_nothing() -> None:
    one = endpoint("one", supported_parameters=frozenset({"response_format"}))
    two = endpoint("two", supported_parameters=frozenset({"verbosity"}))
    wanted = frozenset({"response_format", "verbosity"})

    plan = plan_for(model(one, two), supplied_parameters=wanted)

    assert [each.tag for each in plan.order] == ["one"]


def test_all_of_model_one_comes_before_any_of_model_two() -> None:
    dear: dict[str, Any] = {"pricing": {"prompt": "1", "completion": "1"}}
    first = model(endpoint("x", **dear), endpoint("y", **dear), id="acme/first")
    second = model(endpoint("z"), id="acme/second")

    plan = plan_for(first, second)

    assert [each.model_id for each in plan.order] == ["acme/first"] * 2 + ["acme/second"]


DOWN: list[tuple[list[int], bool]] = [
    ([-3], True),
    ([-3, -3, -5], True),
    ([-3, 0], False),
    ([-3, -2], False),
    ([-5, -10], False),
    ([], False),
]


@pytest.mark.parametrize(("statuses", "down"), DOWN)
def test_down_is_told_apart_from_taken_away(statuses: list[int], down: bool) -> None:
    entries = [endpoint(str(n), status=status) for n, status in enumerate(statuses)]

    assert all_down([model(*entries)], Ask(kinds=CHAT)) is down


MODALITIES = st.sampled_from([("text",), ("text", "image"), ("text", "audio", "file")])
PARAMETERS = st.frozensets(st.sampled_from(["tools", "response_format", "verbosity"]))
SIZES = st.sampled_from([None, 10, 100, 1000])
ENDPOINTS = st.builds(
    lambda number, **changes: endpoint(f"p{number}", **changes),
    st.integers(0, 10**6),
    pricing=st.sampled_from(
        [None, {"prompt": "0", "completion": "0"}, {"prompt": "0.1", "completion": "0.2"}]
    ),
    kind=st.sampled_from(["openai", "openai", "anthropic"]),
    status=st.sampled_from([0, 0, -1, -2, -3, -5, -10]),
    tier=st.sampled_from(["default", "default", "priority", "flex"]),
    context_length=SIZES,
    max_completion_tokens=SIZES,
    max_prompt_tokens=SIZES,
    supported_parameters=PARAMETERS,
    input_modalities=MODALITIES,
    output_modalities=MODALITIES,
)
ASKS = st.builds(
    Ask,
    kinds=st.just(CHAT),
    tools=st.booleans(),
    input_modalities=MODALITIES.map(frozenset),
    output_modalities=st.sampled_from([frozenset(), frozenset({"text"}), frozenset({"image"})]),
    supplied_parameters=PARAMETERS,
    prompt_tokens=st.sampled_from([0, 10, 100, 2000]),
    output_tokens=SIZES,
    service_tier=st.sampled_from([None, "priority", "flex", "auto"]),
)


def ids(endpoints: Any) -> list[int]:
    return [each.pk for each in endpoints]


@given(
    lists=st.lists(st.lists(ENDPOINTS, max_size=6), min_size=1, max_size=3),
    ask=ASKS,
    mark=st.floats(0, 1, exclude_max=True),
    ill=st.integers(2, 5),
)
def test_every_endpoint_is_ordered_or_explained_exactly_once(
    lists: list[list[EndpointEntry]], ask: Ask, mark: float, ill: int
) -> None:
    models = [model(*each, id=f"acme/{n}") for n, each in enumerate(lists)]

    known = [each for entry in models for each in entry.endpoints]
    state = State(standing=Standing(frozenset(e.pk for e in known if e.pk % ill == 0)))

    def planned() -> Plan:
        return select(models, ask, NO_POLICY, state, random=lambda: mark)

    plan = planned()
    removed = [each.endpoint for each in plan.removed]

    assert Counter(ids(plan.order) + ids(removed)) == Counter(ids(known))
    assert all(each.routable and each.provider.kind in ask.kinds for each in plan.order)
    assert all(ask.output_modalities <= set(each.output_modalities) for each in plan.order)
    assert bool(plan.failed_step) <= (not plan.order)
    again = planned()
    assert (ids(again.order), again.failed_step) == (ids(plan.order), plan.failed_step)
    assert [(each.endpoint.pk, each.step) for each in again.removed] == [
        (each.endpoint.pk, each.step) for each in plan.removed
    ]
