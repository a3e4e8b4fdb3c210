"""Reasoning is asked for as the model takes it (1.5), in every format over every kind."""

import json
from typing import Any

import pytest

from tests.conformance.desk import Desk
from tests.conformance.pairs import Pair
from tests.conformance.test_management_rows_presets import made
from tests.support.server import as_json
from tests.support.speakers import SPEAKERS

OFF: dict[str, dict[str, Any]] = {
    "chat": {"reasoning_effort": "none"},
    "messages": {"thinking": {"type": "disabled"}},
    "responses": {"reasoning": {"effort": "none"}},
}
MOST: dict[str, dict[str, Any]] = {
    "chat": {"reasoning": {"effort": "max"}},
    "messages": {"output_config": {"effort": "max"}},
    "responses": {"reasoning": {"effort": "max"}},
}


@pytest.fixture(params=SPEAKERS)
def pair(request: pytest.FixtureRequest, wire_desk: Desk, kind: str) -> Pair:
    return Pair(SPEAKERS[request.param], kind, wire_desk)


def effort_sent(desk: Desk) -> Any:
    """The effort that the only request which went upstream asks for."""
    (entry,) = desk.upstream.requests()
    body = entry["body"]
    objects = (body.get("output_config"), body.get("reasoning"))
    return body.get("reasoning_effort") or next((each["effort"] for each in objects if each), None)


def test_an_unsupported_effort_is_the_nearest(pair: Pair) -> None:
    assert pair.post(**MOST[pair.speaker.name]).status_code == 200

    assert effort_sent(pair.desk) == "high"


def test_mandatory_reasoning_is_not_turned_off(pair: Pair) -> None:
    model = f"acme/must-{pair.kind}"

    response = pair.post(model=model, **OFF[pair.speaker.name])

    assert response.status_code == 400, response.text
    assert f"reasoning: {model} cannot answer without it" in response.text
    assert pair.desk.upstream.requests() == []


def test_the_newest_of_a_family_reasons_as_little_as_it_can(pair: Pair) -> None:
    response = pair.post(model=f"~acme/must-{pair.kind}-latest", **OFF[pair.speaker.name])

    assert response.status_code == 200, response.text
    assert effort_sent(pair.desk) == "low"


@pytest.mark.parametrize("kind", ["openai"], indirect=True)
def test_a_model_that_can_do_without_takes_the_others_place(wire_desk: Desk) -> None:
    models = ["acme/must-anthropic", "acme/over-openai"]

    answer = wire_desk.ok(model=models[0], models=models, **OFF["chat"])

    assert answer["model"] == "acme/over-openai"


@pytest.mark.parametrize("kind", ["openai"], indirect=True)
def test_efforts_of_presets_are_fitted(wire_desk: Desk) -> None:
    body = {"model": "acme/must-openai", "reasoning": {"effort": "max"}}
    made(wire_desk, "/most/chat/completions", body)
    made(wire_desk, "/off/chat/completions", {**body, "reasoning": {"effort": "none"}})

    wire_desk.refused(400, "invalid_request", model="@preset/off")
    wire_desk.ok(model="@preset/most")

    assert effort_sent(wire_desk) == "high"


@pytest.mark.parametrize("kind", ["openai"], indirect=True)
@pytest.mark.parametrize(("effort", "sent"), [("max", "high"), ("none", None)])
def test_efforts_of_agents_are_fitted(wire_desk: Desk, effort: str, sent: str | None) -> None:
    advisor = {"model": "acme/must-anthropic", "reasoning": {"effort": effort}}
    asked = {"name": "advisor", "arguments": {"question": "Why?"}}
    wire_desk.upstream.script("chat-a", {"tool_calls": [asked]}, {"text": "So it is."})

    wire_desk.ok(tools=[{"type": "router:advisor", "parameters": advisor}])

    bodies = wire_desk.sent("messages-a")
    assert [body["output_config"]["effort"] for body in bodies] == ([sent] if sent else [])
    told = json.dumps(wire_desk.sent("chat-a")[-1]["messages"])
    assert ("cannot answer without it" in told) is (sent is None)


@pytest.mark.parametrize("kind", ["openai"], indirect=True)
def test_routers_pass_over_models_that_must_reason(wire_desk: Desk) -> None:
    plugins = [{"id": "auto-router", "allowed_models": ["acme/must-*", "acme/over-openai"]}]

    assert wire_desk.ok(model="router/auto", plugins=plugins, **OFF["chat"])["model"] == (
        "acme/over-openai"
    )
    plugins[0]["allowed_models"] = ["acme/must-*"]
    response = wire_desk.post(model="router/auto", plugins=plugins, **OFF["chat"])
    assert response.status_code == 404, as_json(response)
