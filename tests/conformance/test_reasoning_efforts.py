"""Reasoning is asked for as the model takes it (1.5), in every format over every kind."""

import json
from typing import Any

import pytest

from tests.conformance.desk import Desk
from tests.conformance.pairs import Pair
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


@pytest.fixture
def desk(own_wide_desk: Desk) -> Desk:
    return own_wide_desk


def effort_sent(desk: Desk) -> Any:
    """The effort that the only request which went upstream asks for."""
    (entry,) = desk.upstream.requests()
    body = entry["body"]
    objects = (body.get("output_config"), body.get("reasoning"))
    return body.get("reasoning_effort") or next((each["effort"] for each in objects if each), None)


@pytest.mark.grid
@pytest.mark.parametrize("speaker", SPEAKERS)
def test_efforts_are_fitted_or_refused(wire_desk: Desk, kind: str, speaker: str) -> None:
    pair, desk, must = Pair(SPEAKERS[speaker], kind, wire_desk), wire_desk, f"acme/must-{kind}"
    # One that is mandatory is not turned off.
    refused = pair.post(model=must, **OFF[speaker])
    assert refused.status_code == 400, refused.text
    assert f"reasoning: {must} cannot answer without it" in refused.text
    assert desk.upstream.requests() == []

    # An unsupported one is the nearest, and the newest of a family reasons as little as it can.
    for asked, sent in (
        (MOST[speaker], "high"),
        (OFF[speaker] | {"model": f"~{must}-latest"}, "low"),
    ):
        desk.upstream.clear()
        response = pair.post(**asked)
        assert response.status_code == 200, response.text
        assert effort_sent(desk) == sent


def test_models_that_must_reason_are_passed_over(desk: Desk) -> None:
    models = ["acme/must-anthropic", "acme/over-openai"]
    assert desk.ok(model=models[0], models=models, **OFF["chat"])["model"] == models[1]

    auto: dict[str, Any] = {"id": "auto-router", "allowed_models": ["acme/must-*", models[1]]}
    routed = desk.ok(model="router/auto", plugins=[auto], **OFF["chat"])
    assert routed["model"] == models[1]
    auto["allowed_models"] = ["acme/must-*"]
    response = desk.post(model="router/auto", plugins=[auto], **OFF["chat"])
    assert response.status_code == 404, as_json(response)


@pytest.mark.parametrize(("effort", "sent"), [("max", ["high"]), ("none", [])])
def test_efforts_of_agents_are_fitted(desk: Desk, effort: str, sent: list[str]) -> None:
    advisor = {"model": "acme/must-anthropic", "reasoning": {"effort": effort}}
    asked = {"name": "advisor", "arguments": {"question": "Why?"}}
    desk.upstream.script("chat-a", {"tool_calls": [asked]}, {"text": "So it is."})

    tools = [{"type": "router:advisor", "parameters": advisor}]
    desk.ok(model="acme/over-openai", tools=tools)

    assert [body["output_config"]["effort"] for body in desk.list_sent_bodies("messages-a")] == sent
    told = json.dumps(desk.list_sent_bodies("chat-a")[-1]["messages"])
    assert ("cannot answer without it" in told) is (not sent)
