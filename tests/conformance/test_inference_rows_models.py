"""Rows 15 to 17, 43 and 60, and the rest of section 7.4: which model a reference comes to."""

from typing import Any

import pytest

from tests.conformance.desk import Desk, called_models, changed_workspace
from tests.support.server import as_json

SMALL, SOLO, TEXT, FREE = "acme/small", "acme/solo", "acme/text", "acme/small:free"
ALPHA, BETA = "small-alpha", "small-beta"
METADATA = {"X-Router-Metadata": "enabled"}
TOOLS = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]


def route_request(desk: Desk, **options: Any) -> tuple[str, str, str]:
    """The model that answered, the strategy's word, and the upstream model that was called."""
    before = len(called_models(desk))
    answer = desk.ok(headers=METADATA, **options)
    (upstream,) = called_models(desk)[before:]
    metadata = answer["router_metadata"]
    assert metadata["requested"] == options.get("model", desk.model)
    assert desk.generation(answer["id"])["model"] == answer["model"]
    return answer["model"], metadata["strategy"], upstream


@pytest.mark.parametrize(
    ("reference", "why"),
    [
        *((f"acme/{name}", "is not a valid model ID") for name in ("small:weird", "text:free")),
        ("acme/small:nitro:free", "is not a valid model ID"),
        ("~acme/small", "is not a valid model ID"),
        ("nope/none", "is not a valid model ID"),
        ("typesafe/jev-1.13", "does not serve chat completions"),
    ],
)
def test_a_name_that_comes_to_nothing(desk: Desk, reference: str, why: str) -> None:
    error = desk.expect_refusal(400, "invalid_request", model=reference)

    assert error["message"] == f"{reference} {why}"


def test_the_workspaces_default_may_be_any_reference(own_wide_desk: Desk) -> None:
    desk, body = own_wide_desk, b'{"messages": [{"role": "user", "content": "Hello"}]}'
    missing = desk.check_refused(desk.raw(body), 400, "invalid_request")
    assert missing["message"].startswith("model: ")
    changed_workspace(desk, default_text_model="~acme/small-latest:floor")

    response = desk.raw(body, headers=METADATA)

    assert response.status_code == 200, response.text
    answer = as_json(response)
    assert (answer["model"], called_models(desk)) == (SMALL, [ALPHA])
    metadata = answer["router_metadata"]
    assert (metadata["requested"], metadata["strategy"]) == ("~acme/small-latest:floor", "latest")


def auto(**settings: Any) -> dict[str, Any]:
    return {"model": "router/auto", "plugins": [{"id": "auto-router", **settings}]}


TIGHT: list[tuple[dict[str, Any], str, list[str], list[str]]] = [
    (auto(allowed_models=[TEXT]) | {"tools": TOOLS}, "Filter by Tool Compatibility", ["delta"], []),
    (
        auto(allowed_models=[SOLO, TEXT]) | {"provider": {"only": ["beta"]}},
        *("Filter by Allowed Providers", ["delta", "gamma"], ["beta"]),
    ),
    (
        {"model": "router/free", "provider": {"order": ["delta"], "allow_fallbacks": False}},
        *("Filter by Allowed Providers", ["alpha"], ["delta"]),
    ),
    # Where there is no model at all, no filter is named.
    ({"model": "router/pareto-code"}, "Resolve Models", [], []),
]


@pytest.mark.parametrize(("asked", "step", "available", "requested"), TIGHT)
def test_a_choice_that_finds_nothing_says_why(
    desk: Desk, asked: dict[str, Any], step: str, available: list[str], requested: list[str]
) -> None:
    response = desk.post(headers=METADATA, **asked)

    error = desk.check_refused(response, 404, "not_found")
    assert error["message"] == f"No model found for {asked['model']}"
    assert error["metadata"] == {
        "error_type": "not_found",
        "failed_routing_step": step,
        "available_providers": available,
        "requested_providers": requested,
        "request_id": response.headers["X-Request-Id"],
    }
    told = as_json(response)["router_metadata"]
    assert (told["requested"], told["summary"]) == (asked["model"], "available=0")
    assert told["endpoints"] == {"total": 0, "available": []}


@pytest.mark.parametrize(
    "asked",
    [
        {"model": "@preset/missing"},
        {"models": ["acme/solo", "@preset/missing"]},
        # The preset comes before the model in the order of refusals.
        {"model": "nope/none@preset/missing"},
    ],
)
def test_a_preset_nobody_has(desk: Desk, asked: dict[str, Any]) -> None:
    error = desk.expect_refusal(404, "not_found", **asked)

    assert error["message"] == "Preset not found: missing"


def test_aliases_and_the_operators_list(equipped_desk: Desk) -> None:
    own = equipped_desk
    assert route_request(own, model="acme/short:floor") == (SMALL, "alias", ALPHA)
    assert route_request(own, model="router/fusion") == (TEXT, "fusion", "text")
    # Both cost the same; the other models are not on the list.
    assert route_request(own, model="auto") == (SOLO, "auto", "solo")
    assert route_request(own, model="auto", tools=TOOLS)[0] == SOLO
    assert route_request(own, **auto(allowed_models=["router/fusion"]))[0] == TEXT
    folded = own.ok(model="acme/short", models=[SMALL], headers=METADATA)
    assert folded["router_metadata"]["endpoints"]["total"] == 3


def test_a_tier_is_closed_unless_a_suffix_opens_it_and_an_order_closes_it(
    own_wide_desk: Desk,
) -> None:
    own, nitro = own_wide_desk, "acme/tiered:nitro"
    for asked, status, tried in (
        ({"model": "acme/tiered"}, 502, ["tiered-gamma"]),
        ({"model": nitro}, 200, ["tiered-gamma", "tiered-gamma/priority"]),
        ({"model": nitro, "provider": {"order": ["gamma"]}}, 502, ["tiered-gamma"]),
    ):
        own.upstream.clear()
        own.upstream.script("gamma", {"status": 500}, *([{"status": 500}] * (status == 502)))
        assert own.post(**asked).status_code == status, asked
        assert sorted(called_models(own)) == tried
