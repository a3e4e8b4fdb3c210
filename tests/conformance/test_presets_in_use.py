"""Presets at inference: what upstreams get of them, in every format over every kind."""

from typing import Any

import pytest

from tests.conformance.asking import BODIES, MESSAGES, RESPONSES
from tests.conformance.desk import CHAT, HELLO, Desk
from tests.conformance.test_management_rows_presets import email, made

PATHS = {"chat": CHAT, "messages": MESSAGES, "responses": RESPONSES}
SCHEMA = {
    "type": "object",
    "properties": {"z": {"type": "string"}, "a": {"type": "string"}},
    "required": ["z", "a"],
    "additionalProperties": False,
}
TOOLS: dict[str, Any] = {
    "chat": {"type": "function", "function": {"name": "kept", "parameters": SCHEMA}},
    "responses": {"type": "function", "name": "kept", "parameters": SCHEMA},
    "messages": {"name": "kept", "input_schema": SCHEMA},
}
SAID: dict[str, dict[str, Any]] = {
    "chat": {"max_tokens": 50, "messages": [{"role": "system", "content": "S"}]},
    "responses": {"max_output_tokens": 50, "instructions": "S"},
    "messages": {"max_tokens": 50, "system": "S"},
}
OWN_WORDS: dict[str, dict[str, Any]] = {
    "chat": {"messages": [{"role": "system", "content": "Mine"}, *HELLO]},
    "responses": {"instructions": "Mine"},
    "messages": {"system": "Mine"},
}


@pytest.fixture
def desk(own_wide_desk: Desk) -> Desk:
    return own_wide_desk


def said_in(caller: str) -> dict[str, Any]:
    return BODIES[RESPONSES] if caller == "responses" else {"messages": HELLO}


def told(body: Any) -> dict[str, Any]:
    """What any kind of upstream was sent, by one name for each thing."""
    messages = body.get("messages") or body["input"]
    system = body.get("system") or body.get("instructions")
    first = messages[0] if isinstance(messages, list) else {}
    if system is None and first.get("role") in ("system", "developer"):
        system = first["content"]
    if isinstance(system, list):
        (part,) = system
        system = part["text"]
    functions = [tool.get("function", tool) for tool in body.get("tools", [])]
    caps = ("max_tokens", "max_completion_tokens", "max_output_tokens")
    return {
        "temperature": body.get("temperature"),
        "cap": next((body[name] for name in caps if name in body), None),
        "system": system,
        "tools": {
            each["name"]: list((each.get("input_schema") or each["parameters"])["properties"])
            for each in functions
        },
    }


def sent_of(desk: Desk, path: str, **asked: Any) -> tuple[Any, Any]:
    """What the upstream got of a good request, and its record."""
    desk.upstream.clear()
    response = desk.server.post(path, key=desk.account.api_key, json=asked)
    assert response.status_code == 200, response.text
    (entry,) = desk.upstream.requests()
    return entry["body"], desk.generation(response.headers["X-Generation-Id"])


@pytest.mark.grid
@pytest.mark.parametrize("maker", PATHS)
def test_one_preset_serves_all_formats_and_requests_have_the_last_word(
    own_wire_desk: Desk, maker: str
) -> None:
    desk = own_wire_desk
    body = {"model": desk.model, "temperature": 0.25, "tools": [TOOLS[maker]]}
    path = PATHS[maker].removeprefix("/api/v1")
    preset = made(desk, f"/p{path}", body | SAID[maker])
    kept = {"temperature": 0.25, "cap": 50, "system": "S", "tools": {"kept": ["z", "a"]}}
    for caller, path in PATHS.items():
        sent, record = sent_of(desk, path, model="@preset/p", **said_in(caller))
        assert told(sent) == kept, caller
        assert (record["preset_id"], record["model"]) == (preset["id"], desk.model)

        tool = TOOLS[caller] | {"description": "mine"}
        own = said_in(caller) | OWN_WORDS[caller] | {"tools": [tool], "temperature": 0.75}
        sent, _ = sent_of(desk, path, model=desk.model, preset="p", **own)
        assert told(sent) == kept | {"temperature": 0.75, "system": "Mine"}, caller


def test_a_new_preset_and_a_new_version_are_in_force_within_a_second(desk: Desk) -> None:
    assert desk.post(model="@preset/email").status_code == 404
    email(desk)
    desk.server.wait_until(
        lambda: desk.post(model="@preset/email").status_code == 200, within_s=1.0
    )
    email(desk, temperature=0.2)

    desk.server.wait_until(
        lambda: desk.ok(model="@preset/email") and desk.sent()[-1]["temperature"] == 0.2,
        within_s=1.0,
    )


def test_a_fixed_route_by_preset(desk: Desk) -> None:
    """What the preset says of providers is as good as the request's own word."""
    email(desk, provider={"only": ["nobody"]})

    error = desk.refused(404, "not_found", model="@preset/email")

    assert error["metadata"]["failed_routing_step"] == "Filter by Allowed Providers"
    assert desk.ok(model="@preset/email", provider={})["model"] == "acme/solo"
