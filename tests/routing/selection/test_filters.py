"""What a policy takes out, by table: each filter alone, its name, and the order they come in."""

from decimal import Decimal
from typing import Any

import pytest

from routing.catalogue.entries import EndpointEntry
from routing.selection.ask import Ask, Plan, Policy
from routing.selection.filters import steps
from routing.selection.select import all_down, select
from tests.routing.selection.entries import endpoint, model, provider

CHAT = Ask(kinds=frozenset({"openai"}), output_modalities=frozenset({"text"}))
IGNORED, ALLOWED = "Filter by Ignored Providers", "Filter by Allowed Providers"
DATA, ZDR = "Filter by Data Policy", "Filter by Zero Data Retention"
QUANTIZATION, PRICE = "Filter by Quantization", "Filter by Max Price"
PARAMETERS, TIER = "Filter by Parameters", "Filter by Service Tier"


def planned(
    *endpoints: EndpointEntry, ask: Ask = CHAT, **wishes: Any
) -> tuple[set[str], dict[str, str], Plan]:
    """Tags that are left, steps by tag, and the plan."""
    plan = select([model(*endpoints)], ask, Policy(**wishes), random=lambda: 0.0)
    steps_by_tag = {removed.endpoint.tag: removed.step for removed in plan.removed}
    return {each.tag for each in plan.order}, steps_by_tag, plan


def priced(tag: str, **prices: str) -> EndpointEntry:
    return endpoint(tag, pricing={"prompt": "0.000001", "completion": "0.000002"} | prices)


# What the policy says, what the other endpoint is like, and the step that takes it out.
TAKEN: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"ignore": ("OTHER",)}, {}, IGNORED),
    ({"ignore": ("Other/X",)}, {"tag": "other/x"}, IGNORED),
    ({"account_ignored": ("other",)}, {}, IGNORED),
    ({"only": ("acme",)}, {}, ALLOWED),
    ({"account_allowed": ("Acme",)}, {}, ALLOWED),
    ({"account_allowed": ("acme", "other"), "only": ("acme", "third")}, {}, ALLOWED),
    ({"deny_data_collection": True}, {"collects_data": True}, DATA),
    ({"region": "europe"}, {"region": "us"}, DATA),
    ({"region": "europe"}, {"region": "global"}, DATA),
    ({"zdr": True}, {"zdr": False}, ZDR),
    ({"distillable_only": True}, {"distillable": False}, "Filter by Distillable Text"),
    ({"quantizations": frozenset({"fp8"})}, {"quantization": "bf16"}, QUANTIZATION),
    ({"quantizations": frozenset({"fp8"})}, {"quantization": None}, QUANTIZATION),
    ({"quantizations": frozenset({"fp8"})}, {"quantization": "mxfp4"}, QUANTIZATION),
    ({"max_price_usd": {"prompt": Decimal(1)}}, {"pricing": "0.0000010001"}, PRICE),
    ({"require_parameters": True}, {"supported_parameters": frozenset({"top_p"})}, PARAMETERS),
]
GOOD: dict[str, Any] = {
    "zdr": True,
    "region": "europe",
    "distillable": True,
    "quantization": "fp8",
    "supported_parameters": frozenset({"seed"}),
}


@pytest.mark.parametrize(("wishes", "changes", "step"), TAKEN)
def test_each_wish_takes_out_who_does_not_meet_it(
    wishes: dict[str, Any], changes: dict[str, Any], step: str
) -> None:
    given = {"tag": "other", **GOOD, **changes}
    if "pricing" in given:
        given["pricing"] = {"prompt": given["pricing"], "completion": "0"}
    ask = CHAT._replace(required_parameters=frozenset({"seed"}))

    left, steps_by_tag, plan = planned(
        endpoint("acme", **GOOD), endpoint(**given), ask=ask, **wishes
    )

    assert left == {"acme"}
    assert steps_by_tag == {given["tag"]: step}
    assert plan.failed_step is None
    nobody = planned(endpoint(**given), ask=ask, **wishes)[2]
    assert (nobody.order, nobody.failed_step) == ((), step)
    assert [each.tag for each in nobody.considered] == [given["tag"]]


def test_without_wishes_all_of_these_stay() -> None:
    others = [{k: v for k, v in changes.items() if k != "pricing"} for _, changes, _ in TAKEN]
    endpoints = [endpoint(**{**changes, "tag": f"p{n}"}) for n, changes in enumerate(others)]
    ask = CHAT._replace(required_parameters=frozenset({"seed"}))

    assert len(planned(*endpoints, ask=ask)[0]) == len(TAKEN)


QUANTIZATIONS: list[tuple[str, set[str]]] = [
    ("fp4", {"fp4", "mxfp4", "nvfp4"}),
    ("fp8", {"fp8", "mxfp8"}),
    ("mxfp4", {"mxfp4"}),
    ("unknown", {"unknown", "none"}),
    ("bf16", {"bf16"}),
]


@pytest.mark.parametrize(("wanted", "left"), QUANTIZATIONS)
def test_a_quantization_lets_its_kin_in(wanted: str, left: set[str]) -> None:
    words = ("fp4", "mxfp4", "nvfp4", "fp8", "mxfp8", "bf16", "unknown")
    endpoints = [endpoint(word, quantization=word) for word in words]

    assert planned(*endpoints, endpoint("none"), quantizations=frozenset({wanted}))[0] == left


# Caps, the price of the endpoint, and whether it may stay.
CAPS: list[tuple[dict[str, str], dict[str, str], bool]] = [
    ({"prompt": "1"}, {"prompt": "0.000001"}, True),
    ({"prompt": "0.999999"}, {"prompt": "0.000001"}, False),
    ({"completion": "2"}, {"completion": "0.000002"}, True),
    ({"completion": "1.9"}, {"completion": "0.000002"}, False),
    ({"prompt": "1", "completion": "1"}, {}, False),
    ({"request": "0.01"}, {"request": "0.01"}, True),
    ({"request": "0.01"}, {"request": "0.011"}, False),
    ({"image": "0.5", "audio": "0.1"}, {"image": "0.5", "audio": "0.1"}, True),
    ({"image": "0.4"}, {"image": "0.5"}, False),
    ({"audio": "0.09"}, {"audio": "0.1"}, False),
    # What is not published costs nothing.
    ({"request": "0", "image": "0", "audio": "0"}, {}, True),
    ({"prompt": "0"}, {"prompt": "0"}, True),
    # Of numbers that nobody means.
    ({"prompt": "1" + "0" * 1_000_000}, {"prompt": "10000"}, True),
    ({"prompt": "0." + "0" * 1_100_000 + "1"}, {"prompt": "0.000001"}, False),
]


@pytest.mark.parametrize(("caps", "prices", "stays"), CAPS, ids=[str(n) for n in range(len(CAPS))])
def test_a_price_may_be_equal_to_its_cap(
    caps: dict[str, str], prices: dict[str, str], stays: bool
) -> None:
    caps_usd = {name: Decimal(cap) for name, cap in caps.items()}

    left, steps_by_tag, _ = planned(priced("acme", **prices), max_price_usd=caps_usd)

    assert left == ({"acme"} if stays else set())
    assert steps_by_tag == ({} if stays else {"acme": PRICE})


SUPPORT: list[tuple[set[str], set[str], bool]] = [
    ({"max_tokens"}, {"max_completion_tokens"}, True),
    ({"max_tokens"}, {"max_tokens"}, True),
    ({"max_tokens"}, {"seed"}, False),
    ({"max_tokens", "seed"}, {"max_tokens"}, False),
    ({"seed", "top_k"}, {"seed", "top_k", "stop"}, True),
    ({"reasoning"}, {"reasoning_effort"}, False),
    (set(), set(), True),
]


@pytest.mark.parametrize(("required", "supported", "stays"), SUPPORT)
def test_required_parameters(required: set[str], supported: set[str], stays: bool) -> None:
    ask = CHAT._replace(required_parameters=frozenset(required))
    one = endpoint("acme", supported_parameters=frozenset(supported))

    assert planned(one, ask=ask, require_parameters=True)[0] == ({"acme"} if stays else set())
    assert planned(one, ask=ask)[0] == {"acme"}


# --- Service tiers --------------------------------------------------------------------------------

OPENAI = provider("openai", name="OpenAI")
PLAIN, FLEX, PRIORITY = (
    endpoint("openai", provider=OPENAI),
    endpoint("openai/flex", provider=OPENAI, tier="flex"),
    endpoint("openai/priority", provider=OPENAI, tier="priority"),
)
BASE, FLEX_TAG, PRIORITY_TAG = "openai", "openai/flex", "openai/priority"
TIERS: list[tuple[str | None, dict[str, Any], set[str]]] = [
    (None, {}, {BASE}),
    ("auto", {}, {BASE}),
    ("default", {}, {BASE}),
    ("scale", {}, {BASE}),
    ("priority", {}, {BASE, PRIORITY_TAG}),
    ("flex", {}, {FLEX_TAG}),
    # A suffix opens a tier beside the others.
    (None, {"admitted_tiers": frozenset({"flex"})}, {BASE, FLEX_TAG}),
    (None, {"admitted_tiers": frozenset({"priority"})}, {BASE, PRIORITY_TAG}),
    # So does the full slug, and a base slug does not.
    (None, {"only": ("openai",)}, {BASE}),
    (None, {"only": ("OpenAI/Priority",)}, {PRIORITY_TAG}),
    (None, {"only": ("openai", "openai/flex")}, {BASE, FLEX_TAG}),
    (None, {"order": ("openai/flex",)}, {BASE, FLEX_TAG}),
    ("priority", {"only": ("openai",)}, {BASE, PRIORITY_TAG}),
    ("flex", {"only": ("openai",)}, {FLEX_TAG}),
    ("flex", {"ignore": ("openai/flex",)}, {BASE}),
    # An account's word about a provider is about its tiers too: naming one is no way around.
    (None, {"only": ("openai/priority",), "account_ignored": ("openai",)}, set()),
    (None, {"only": ("openai/priority",), "ignore": ("openai",)}, set()),
    (None, {"only": ("openai/priority",), "account_allowed": ("openai",)}, {PRIORITY_TAG}),
    ("priority", {"ignore": ("openai",)}, set()),
]


@pytest.mark.parametrize(("tier", "wishes", "left"), TIERS)
def test_which_tiers_are_open(tier: str | None, wishes: dict[str, Any], left: set[str]) -> None:
    ask = CHAT._replace(service_tier=tier)

    assert planned(PLAIN, FLEX, PRIORITY, ask=ask, **wishes)[0] == left


def test_flex_keeps_to_flex_in_the_models_that_have_it() -> None:
    first = model(endpoint("plain"), id="acme/first")
    second = model(endpoint("p"), endpoint("p/flex", tier="flex"), id="acme/second")
    ask = CHAT._replace(service_tier="flex")

    plan = select([first, second], ask, random=lambda: 0.0)

    assert [each.tag for each in plan.order] == ["plain", "p/flex"]


def test_flex_never_falls_back_to_the_default_tier() -> None:
    small = endpoint("p/flex", tier="flex", context_length=10)
    ask = CHAT._replace(service_tier="flex", prompt_tokens=100)

    left, steps_by_tag, plan = planned(endpoint("p"), small, ask=ask)

    assert left == set()
    assert steps_by_tag == {"p": TIER, "p/flex": "Filter by Context Length"}
    assert plan.failed_step == "Filter by Context Length"


# --- All together ---------------------------------------------------------------------------------


def test_the_filters_come_in_the_order_of_the_reference() -> None:
    everything = Policy(
        only=("a",),
        ignore=("b",),
        deny_data_collection=True,
        zdr=True,
        distillable_only=True,
        quantizations=frozenset({"fp8"}),
        max_price_usd={"prompt": Decimal(1)},
        require_parameters=True,
    )
    ask = Ask(
        kinds=frozenset({"openai"}),
        tools=True,
        input_modalities=frozenset({"text", "file", "video", "audio", "image"}),
        output_modalities=frozenset({"text"}),
        required_parameters=frozenset({"seed"}),
        output_tokens=10,
    )

    assert [name.removeprefix("Filter by ") for name, _ in steps(ask, everything)] == [
        *("Ignored Providers", "Allowed Providers", "Data Policy", "Zero Data Retention"),
        *("Distillable Text", "Quantization", "Max Price", "Service Tier", "Image Support"),
        *("Audio Support", "Video Support", "File Support", "Output Modality"),
        *("Tool Compatibility", "Parameters", "Context Length", "Max Tokens"),
    ]


def test_a_plain_request_pays_for_no_filter_it_does_not_need() -> None:
    assert [name for name, _ in steps(CHAT)] == [
        *("Filter by Service Tier", "Filter by Output Modality", "Filter by Context Length"),
    ]


def test_with_several_models_a_filter_may_empty_one() -> None:
    first = model(endpoint("a"), id="acme/first")
    second = model(endpoint("b", zdr=True), id="acme/second")

    plan = select([first, second], CHAT, Policy(zdr=True), random=lambda: 0.0)

    assert [each.model_id for each in plan.order] == ["acme/second"]
    assert plan.failed_step is None


def test_an_order_without_fallbacks_is_as_good_as_only() -> None:
    wishes: dict[str, Any] = {"order": ("b", "a"), "allow_fallbacks": False}

    left, steps_by_tag, plan = planned(endpoint("a"), endpoint("b"), endpoint("c"), **wishes)
    assert [each.tag for each in plan.order] == ["b", "a"]
    assert steps_by_tag == {"c": ALLOWED}

    left, steps_by_tag, plan = planned(endpoint("c"), **wishes)
    assert left == set()
    assert plan.failed_step == ALLOWED


def test_tools_take_out_models_without_them_and_prefer_endpoints_with_them() -> None:
    able, unable = endpoint("able"), endpoint("unable", supported_parameters=frozenset())
    ask = CHAT._replace(tools=True, supplied_parameters=frozenset({"tools"}))

    left, steps_by_tag, plan = planned(able, unable, ask=ask)
    assert (left, steps_by_tag) == ({"able"}, {"unable": "Parameter Preference"})
    assert {each.tag for each in plan.considered} == {"able", "unable"}

    plan = planned(unable, ask=ask)[2]
    assert plan.failed_step == "Filter by Tool Compatibility"


def test_tools_are_not_given_up_for_a_longer_context() -> None:
    able = endpoint("able", context_length=10)
    roomy = endpoint("roomy", supported_parameters=frozenset())
    ask = CHAT._replace(tools=True, supplied_parameters=frozenset({"tools"}), prompt_tokens=100)

    left, steps_by_tag, plan = planned(able, roomy, ask=ask)

    assert left == set()
    assert plan.failed_step == "Filter by Tool Compatibility"
    assert set(steps_by_tag) == {"able", "roomy"}


# What is down (-3) among what could serve, and whether that is all there is.
DOWN: list[tuple[dict[str, Any], bool]] = [
    ({}, False),
    ({"only": ("down",)}, True),
    ({"ignore": ("up",)}, True),
    ({"order": ("down",), "allow_fallbacks": False}, True),
    ({"order": ("down",)}, False),
    ({"only": ("gone",)}, False),
    ({"only": ("down",), "zdr": True}, False),
]


@pytest.mark.parametrize(("wishes", "down"), DOWN)
def test_all_down_means_all_that_the_request_leaves(wishes: dict[str, Any], down: bool) -> None:
    entries = [endpoint("up"), endpoint("down", status=-3), endpoint("gone", status=-5)]

    assert all_down([model(*entries)], CHAT, Policy(**wishes)) is down
