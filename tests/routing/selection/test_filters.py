"""Who is taken out by which step, by table: each step alone, and the order they come in."""

from decimal import Decimal
from typing import Any

import pytest

from routing.entities.entries import EndpointEntry, ModelEntry
from routing.selection.filters import list_filters
from routing.selection.select import are_all_down, select
from routing.selection.types import Plan, Policy, Requirements
from tests.routing.selection.entries import endpoint, model, provider
from tests.routing.selection.markets import CHAT

IGNORED, ALLOWED = "Filter by Ignored Providers", "Filter by Allowed Providers"
DATA, ZDR = "Filter by Data Policy", "Filter by Zero Data Retention"
QUANTIZATION, PRICE = "Filter by Quantization", "Filter by Max Price"
PARAMETERS, CONTEXT = "Filter by Parameters", "Filter by Context Length"
TOOLS, PREFERENCE = "Filter by Tool Compatibility", "Parameter Preference"


def plan_for_models(*models: ModelEntry, **said: Any) -> Plan:
    """What is chosen for a request and a policy that say this."""
    asked = {name: said.pop(name) for name in list(said) if name in Requirements._fields}
    return select(models, CHAT._replace(**asked), Policy(**said), random=lambda: 0.0)


def plan_for(*endpoints: EndpointEntry, **said: Any) -> Plan:
    return plan_for_models(model(*endpoints), **said)


def tags(plan: Plan) -> list[str]:
    return sorted(each.tag for each in plan.order)


def steps_by_tag(plan: Plan) -> dict[str, str]:
    return {each.endpoint.tag: each.step for each in plan.removed}


def words_of(*words: str) -> frozenset[str]:
    return frozenset(words)


ABLE: dict[str, Any] = (
    {"input_modalities": ("text", "image", "audio", "video", "file"), "zdr": True}
    | {"output_modalities": ("text", "image"), "supported_parameters": words_of("seed", "tools")}
    | {"region": "europe", "distillable": True, "quantization": "fp8"}
)
TEXT_ONLY = {"input_modalities": ("text",), "output_modalities": ("text",)}
DEAR = {"pricing": {"prompt": "0.0000010001", "completion": "0"}}
# The step, what the other endpoint is like, and what request and policy say.
TAKEN: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    (IGNORED, {}, {"ignore": ("OTHER",)}),
    (IGNORED, {"tag": "other/x"}, {"ignore": ("Other/X",)}),
    (IGNORED, {}, {"account_ignored": ("other",)}),
    (ALLOWED, {}, {"only": ("acme",)}),
    (ALLOWED, {}, {"account_allowed": ("Acme",)}),
    (ALLOWED, {}, {"account_allowed": ("acme", "other"), "only": ("acme", "third")}),
    (DATA, {"collects_data": True}, {"deny_data_collection": True}),
    (DATA, {"region": "us"}, {"region": "europe"}),
    (DATA, {"region": "global"}, {"region": "europe"}),
    (ZDR, {"zdr": False}, {"zdr": True}),
    ("Filter by Distillable Text", {"distillable": False}, {"distillable_only": True}),
    (QUANTIZATION, {"quantization": "bf16"}, {"quantizations": words_of("fp8")}),
    (QUANTIZATION, {"quantization": None}, {"quantizations": words_of("fp8")}),
    (QUANTIZATION, {"quantization": "mxfp4"}, {"quantizations": words_of("fp8")}),
    (PRICE, DEAR, {"max_price_usd": {"prompt": Decimal(1)}}),
    ("Filter by Image Support", TEXT_ONLY, {"input_modalities": words_of("image")}),
    ("Filter by Audio Support", TEXT_ONLY, {"input_modalities": words_of("audio")}),
    ("Filter by Video Support", TEXT_ONLY, {"input_modalities": words_of("video")}),
    ("Filter by File Support", TEXT_ONLY, {"input_modalities": words_of("file")}),
    ("Filter by Output Modality", TEXT_ONLY, {"output_modalities": words_of("image")}),
    (
        PARAMETERS,
        {"supported_parameters": words_of("top_p")},
        {"require_parameters": True, "required_parameters": words_of("seed")},
    ),
    (CONTEXT, {"context_length": 99}, {"prompt_tokens": 100}),
    (CONTEXT, {"max_prompt_tokens": 99}, {"prompt_tokens": 100}),
    (CONTEXT, {"context_length": 149}, {"prompt_tokens": 100, "output_tokens": 50}),
]


@pytest.mark.parametrize(("step", "changes", "said"), TAKEN)
def test_each_step_takes_out_who_does_not_meet_it(
    step: str, changes: dict[str, Any], said: dict[str, Any]
) -> None:
    other = endpoint(**{"tag": "other", **ABLE, **changes})

    plan = plan_for(endpoint("acme", **ABLE), other, **said)
    assert (tags(plan), steps_by_tag(plan), plan.failed_step) == (["acme"], {other.tag: step}, None)

    alone = plan_for(other, **said)
    assert (alone.order, alone.failed_step) == ((), step)
    assert [each.tag for each in alone.considered] == [other.tag]
    assert tags(plan_for(other)) == [other.tag]


@pytest.mark.parametrize(
    ("step", "changes", "said"),
    [
        ("Not Served", {"kind": "anthropic"}, {}),
        ("No Price", {"pricing": None}, {}),
        *[("Down", {"status": status}, {}) for status in (-3, -5, -10)],
        ("Filter by Service Tier", {"tier": "flex"}, {"service_tier": "priority"}),
        ("Filter by Max Tokens", {"max_completion_tokens": 49}, {"output_tokens": 50}),
    ],
)
def test_what_cannot_be_called_or_gives_too_little_is_taken_out_by_name(
    step: str, changes: dict[str, Any], said: dict[str, Any]
) -> None:
    plan = plan_for(endpoint("acme"), endpoint("other", **changes), **said)

    assert (tags(plan), steps_by_tag(plan), plan.failed_step) == (["acme"], {"other": step}, None)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"status": -1}, {}),
        ({"status": -2}, {}),
        ({"context_length": 150}, {"prompt_tokens": 100, "output_tokens": 50}),
        ({"context_length": None}, {"prompt_tokens": 10**9, "output_tokens": 1}),
        ({"max_prompt_tokens": 100}, {"prompt_tokens": 100}),
        # The endpoint gives 50 at most, so only 50 of the 100 asked for have to fit.
        (
            {"context_length": 150, "max_completion_tokens": 50},
            {"prompt_tokens": 100, "output_tokens": 100},
        ),
    ],
)
def test_what_just_fits_stays(changes: dict[str, Any], said: dict[str, Any]) -> None:
    assert tags(plan_for(endpoint("just", **changes), **said)) == ["just"]


def test_both_spellings_of_the_output_cap_are_one_and_other_parameters_count_beside_it() -> None:
    capped = endpoint("capped", supported_parameters=words_of("max_tokens"))
    able = endpoint("able", supported_parameters=words_of("max_tokens", "seed"))
    required = words_of("max_completion_tokens", "seed")

    plan = plan_for(capped, able, require_parameters=True, required_parameters=required)
    assert tags(plan) == ["able"]


@pytest.mark.parametrize(
    ("wanted", "left"),
    [
        ("fp4", {"fp4", "mxfp4", "nvfp4"}),
        ("fp8", {"fp8", "mxfp8"}),
        ("mxfp4", {"mxfp4"}),
        ("unknown", {"unknown", "none"}),
        ("bf16", {"bf16"}),
    ],
)
def test_a_quantization_lets_its_kin_in(wanted: str, left: set[str]) -> None:
    words = ("fp4", "mxfp4", "nvfp4", "fp8", "mxfp8", "bf16", "unknown")
    known = [endpoint(word, quantization=word) for word in words]

    assert {*tags(plan_for(*known, endpoint("none"), quantizations=words_of(wanted)))} == left


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
    acme = endpoint(pricing={"prompt": "0.000001", "completion": "0.000002"} | prices)

    plan = plan_for(acme, max_price_usd={name: Decimal(cap) for name, cap in caps.items()})

    assert (tags(plan), steps_by_tag(plan)) == ((["acme"], {}) if stays else ([], {"acme": PRICE}))


# --- Preferences ----------------------------------------------------------------------------------


@pytest.mark.parametrize("parameter", ["tools", "response_format", "verbosity"])
def test_supporters_of_a_parameter_are_preferred_where_there_are_some(parameter: str) -> None:
    able = endpoint("able", supported_parameters=words_of(parameter))
    unable = endpoint("unable", supported_parameters=words_of())
    said = {"supplied_parameters": words_of(parameter), "tools": parameter == "tools"}

    some, none = plan_for(able, unable, **said), plan_for(unable, **said)

    assert (tags(some), steps_by_tag(some)) == (["able"], {"unable": PREFERENCE})
    assert len(some.considered) == 2
    # Tools alone are more than a preference.
    lost = ([], TOOLS) if parameter == "tools" else (["unable"], None)
    assert (tags(none), none.failed_step) == lost


# --- Service tiers --------------------------------------------------------------------------------

OPENAI = provider("openai", name="OpenAI")
BASE, FLEX, PRIORITY = "openai", "openai/flex", "openai/priority"
TIERED = [
    endpoint(BASE, provider=OPENAI),
    endpoint(FLEX, provider=OPENAI, tier="flex"),
    endpoint(PRIORITY, provider=OPENAI, tier="priority"),
]
TIERS: list[tuple[str | None, dict[str, Any], list[str]]] = [
    *[(word, {}, [BASE]) for word in (None, "auto", "default", "scale")],
    ("priority", {}, [BASE, PRIORITY]),
    ("flex", {}, [FLEX]),
    # A suffix opens a tier beside the others.
    (None, {"admitted_tiers": words_of("flex")}, [BASE, FLEX]),
    (None, {"admitted_tiers": words_of("priority")}, [BASE, PRIORITY]),
    # So does the full slug, and a base slug does not.
    (None, {"only": ("openai",)}, [BASE]),
    (None, {"only": ("OpenAI/Priority",)}, [PRIORITY]),
    (None, {"only": ("openai", "openai/flex")}, [BASE, FLEX]),
    (None, {"order": ("openai/flex",)}, [BASE, FLEX]),
    ("priority", {"only": ("openai",)}, [BASE, PRIORITY]),
    ("flex", {"only": ("openai",)}, [FLEX]),
    ("flex", {"ignore": ("openai/flex",)}, [BASE]),
    # An account's word about a provider is about its tiers too: naming one is no way around.
    (None, {"only": ("openai/priority",), "account_ignored": ("openai",)}, []),
    (None, {"only": ("openai/priority",), "ignore": ("openai",)}, []),
    (None, {"only": ("openai/priority",), "account_allowed": ("openai",)}, [PRIORITY]),
    ("priority", {"ignore": ("openai",)}, []),
]


@pytest.mark.parametrize(("tier", "wishes", "left"), TIERS)
def test_which_tiers_are_open(tier: str | None, wishes: dict[str, Any], left: list[str]) -> None:
    assert tags(plan_for(*TIERED, service_tier=tier, **wishes)) == left


# --- All together ---------------------------------------------------------------------------------


def test_the_filters_come_in_the_order_of_the_reference_and_only_where_they_are_needed() -> None:
    text = words_of("text")
    lists: dict[str, Any] = {"only": ("a",), "ignore": ("b",), "quantizations": words_of("fp8")}
    flags = ("deny_data_collection", "zdr", "distillable_only", "require_parameters")
    wishes = lists | dict.fromkeys(flags, True)
    media = words_of("text", "file", "video", "audio", "image")
    plain = CHAT._replace(output_modalities=text)
    ask = plain._replace(tools=True, input_modalities=media, output_tokens=10)

    everything = list_filters(
        ask._replace(required_parameters=words_of("seed")),
        Policy(**wishes, max_price_usd={"prompt": Decimal(1)}),
    )

    assert [name.removeprefix("Filter by ") for name, _ in everything] == [
        *("Ignored Providers", "Allowed Providers", "Data Policy", "Zero Data Retention"),
        *("Distillable Text", "Quantization", "Max Price", "Service Tier", "Image Support"),
        *("Audio Support", "Video Support", "File Support", "Output Modality"),
        *("Tool Compatibility", "Parameters", "Context Length", "Max Tokens"),
    ]
    needed = ["Filter by Service Tier", "Filter by Output Modality", CONTEXT]
    assert [name for name, _ in list_filters(plain)] == needed


ALL = {"up": 0, "down": -3, "gone": -5}
DOWN: list[tuple[dict[str, int], dict[str, Any], bool]] = [
    ({"a": -3}, {}, True),
    ({"a": -3, "b": -3, "c": -5}, {}, True),
    ({"a": -3, "b": -2}, {}, False),
    ({"a": -5, "b": -10}, {}, False),
    ({}, {}, False),
    (ALL, {}, False),
    (ALL, {"only": ("down",)}, True),
    (ALL, {"ignore": ("up",)}, True),
    (ALL, {"order": ("down",), "allow_fallbacks": False}, True),
    (ALL, {"order": ("down",)}, False),
    (ALL, {"only": ("gone",)}, False),
    (ALL, {"only": ("down",), "zdr": True}, False),
]


@pytest.mark.parametrize(("statuses", "wishes", "down"), DOWN)
def test_all_down_means_all_that_the_request_leaves(
    statuses: dict[str, int], wishes: dict[str, Any], down: bool
) -> None:
    known = [endpoint(tag, status=status) for tag, status in statuses.items()]

    assert are_all_down([model(*known)], CHAT, Policy(**wishes)) is down
