"""Presets at inference: what upstreams get of them, in every format over every kind."""

from typing import Any

import pytest

from tests.conformance.asking import MESSAGES, RESPONSES
from tests.conformance.asking import post as post_in
from tests.conformance.desk import CHAT, HELLO, PATIENCE_S, Desk, exact
from tests.conformance.test_management_rows_presets import email, made
from tests.support.server import as_json

PATHS = {"chat": CHAT, "messages": MESSAGES, "responses": RESPONSES}
MAKERS = {"chat": "chat/completions", "messages": "messages", "responses": "responses"}
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
    tools = body.get("tools", [])
    return {
        "temperature": body.get("temperature"),
        "cap": body.get("max_tokens")
        or body.get("max_completion_tokens")
        or body.get("max_output_tokens"),
        "system": system,
        "tools": [tool.get("name") or tool["function"]["name"] for tool in tools],
        "schema": [
            list(
                (
                    tool.get("input_schema")
                    or tool.get("parameters")
                    or tool["function"]["parameters"]
                )["properties"]
            )
            for tool in tools
        ],
    }


@pytest.mark.parametrize("caller", PATHS)
@pytest.mark.parametrize("maker", MAKERS)
def test_one_preset_serves_all_formats(wire_desk: Desk, maker: str, caller: str) -> None:
    body = {"model": wire_desk.model, "temperature": 0.25, "tools": [TOOLS[maker]]}
    preset = made(wire_desk, f"/p/{MAKERS[maker]}", body | SAID[maker])
    asked = ask_of(caller, model="@preset/p")

    response = wire_desk.server.post(PATHS[caller], key=wire_desk.account.api_key, json=asked)

    assert response.status_code == 200, response.text
    (entry,) = wire_desk.upstream.requests()
    assert told(entry["body"]) == {
        "temperature": 0.25,
        "cap": 50,
        "system": "S",
        "tools": ["kept"],
        "schema": [["z", "a"]],
    }
    record = wire_desk.generation(response.headers["X-Generation-Id"])
    assert record["preset_id"] == preset["id"]
    assert record["model"] == wire_desk.model


def ask_of(caller: str, **changes: Any) -> dict[str, Any]:
    said = {"input": "Hello there"} if caller == "responses" else {"messages": HELLO}
    return said | changes


@pytest.mark.parametrize("caller", PATHS)
def test_the_request_has_the_last_word_at_every_upstream(wire_desk: Desk, caller: str) -> None:
    body = {"model": "acme/over-openai", "temperature": 0.25, "tools": [TOOLS["chat"]]}
    made(wire_desk, "/p/chat/completions", body | SAID["chat"])
    own = SAID[caller] | {"tools": [TOOLS[caller] | {"description": "mine"}]}
    own = {name: value for name, value in own.items() if name != "messages"}
    if caller == "chat":
        own["messages"] = [{"role": "system", "content": "Mine"}, *HELLO]
    else:
        own["system" if caller == "messages" else "instructions"] = "Mine"
    asked = ask_of(caller, model=wire_desk.model, preset="p", temperature=0.75) | own

    response = wire_desk.server.post(PATHS[caller], key=wire_desk.account.api_key, json=asked)

    assert response.status_code == 200, response.text
    (entry,) = wire_desk.upstream.requests()
    got = told(entry["body"])
    assert (got["temperature"], got["system"]) == (0.75, "Mine")
    assert got["tools"] == ["kept"]


REASONING: dict[str, Any] = {
    "model": "acme/over-anthropic",
    "reasoning": {"effort": "high"},
    "max_tokens": 9000,
    "temperature": 0.5,
    "response_format": {
        "type": "json_schema",
        "json_schema": {"name": "n", "schema": SCHEMA, "strict": True},
    },
}


@pytest.mark.parametrize("kind", ["anthropic"], indirect=True)
@pytest.mark.parametrize("caller", PATHS)
def test_what_a_body_has_no_words_for_reaches_its_own_kind(wire_desk: Desk, caller: str) -> None:
    """A messages upstream is passed a messages body; what chat says of it goes along."""
    made(wire_desk, "/p/chat/completions", REASONING)

    response = wire_desk.server.post(
        PATHS[caller], key=wire_desk.account.api_key, json=ask_of(caller, model="@preset/p")
    )

    assert response.status_code == 200, response.text
    (entry,) = wire_desk.upstream.requests()
    sent = entry["body"]
    assert sent["thinking"]["type"] == "adaptive"
    assert sent["output_config"]["effort"] == "high"
    assert sent["output_config"]["format"] == {"type": "json_schema", "schema": SCHEMA}
    assert sent["max_tokens"] == 9000
    assert "temperature" not in sent


@pytest.mark.parametrize("kind", ["anthropic"], indirect=True)
def test_thinking_of_a_request_of_its_own_stands(wire_desk: Desk) -> None:
    made(wire_desk, "/p/chat/completions", REASONING)

    body: dict[str, Any] = {
        "model": "@preset/p",
        "thinking": {"type": "disabled"},
        "max_tokens": 30,
    }
    assert post_in(wire_desk, MESSAGES, **body).status_code == 200

    (entry,) = wire_desk.upstream.requests()
    assert entry["body"]["thinking"] == {"type": "disabled"}
    assert entry["body"]["max_tokens"] == 30
    assert "effort" not in entry["body"]["output_config"]


@pytest.mark.parametrize("kind", ["anthropic"], indirect=True)
@pytest.mark.parametrize("mode", ["explicit", None])
def test_the_cache_s_own_mark(wire_desk: Desk, mode: str | None) -> None:
    body: dict[str, Any] = {"model": wire_desk.model, "cache_control": {"type": "ephemeral"}}
    made(
        wire_desk,
        "/p/chat/completions",
        body | ({"prompt_cache_options": {"mode": mode}} if mode else {}),
    )

    assert post_in(wire_desk, MESSAGES, model="@preset/p").status_code == 200

    (entry,) = wire_desk.upstream.requests()
    assert ("cache_control" in entry["body"]) is (mode is None)


def test_route_goes_by_presets_of_the_key_s_workspace(desk: Desk) -> None:
    email(desk)
    options = ("--model", "@preset/email", "--key-hash", desk.account.api_key_hash)

    told = desk.server.manage("route", *options)

    assert [each["model"] for each in told["order"]] == ["acme/solo"]
    outcome = desk.server.run_command("route", "--model", "@preset/email", "--json")
    assert outcome.status != 0
    assert "Preset not found: email" in outcome.stdout + outcome.stderr


def test_streams_and_counts(wire_desk: Desk) -> None:
    made(wire_desk, "/p/messages", {"model": wire_desk.model, "system": "S" * 400})
    asked = {"model": "@preset/p", "messages": HELLO}

    path = f"{MESSAGES}/count_tokens"
    long = wire_desk.server.post(path, key=wire_desk.account.api_key, json=asked)
    own = asked | {"system": "S"}
    short = wire_desk.server.post(path, key=wire_desk.account.api_key, json=own)

    assert as_json(long)["input_tokens"] > as_json(short)["input_tokens"] + 50
    streamed = wire_desk.stream(model="@preset/p")
    assert streamed.chunks[0]["model"] == wire_desk.model


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"model": "@preset/email", "preset": "other"}, "preset: differs from the preset that"),
        ({"model": "acme/solo@preset/email", "preset": "EMAIL"}, "preset: differs"),
        ({"model": "@preset/email:nitro"}, "model: a suffix belongs before @preset/, not after"),
        ({"model": "@preset/nomodel"}, "No model specified"),
        ({"model": "nope/none@preset/email"}, "nope/none is not a valid model ID"),
        # What is wrong with the request itself comes before the preset.
        ({"model": "@preset/missing", "temperature": 3}, "temperature: Too big"),
        ({"model": "@preset/email", "temperature": 3}, "temperature: Too big"),
        ({"model": "@preset/nomodel", "temperature": 3}, "temperature: Too big"),
        ({"model": "@preset/email", "messages": [{"role": "x"}]}, "messages.0.role: Invalid"),
        (
            {
                "model": "@preset/email",
                "messages": [{"role": "tool", "content": "r", "tool_call_id": "c"}],
            },
            "messages.0.tool_call_id: Invalid input",
        ),
    ],
)
def test_what_is_refused(desk: Desk, asked: dict[str, Any], message: str) -> None:
    email(desk)
    made(desk, "/nomodel/chat/completions", {"temperature": 0.1})

    response = desk.post(**asked)

    error = as_json(response)["error"]
    assert response.status_code == 400, response.text
    assert error["message"].startswith(message)
    assert desk.upstream.requests() == []


@pytest.mark.parametrize(
    "asked",
    [
        {"model": "@preset/email"},
        {"model": "@PRESET/email"},
        {"model": "acme/solo@preset/email"},
        {"model": "acme/solo:floor@preset/email", "preset": "email"},
        {"model": "acme/solo", "preset": "email"},
        {"models": ["@preset/email"]},
        {"models": ["acme/solo@preset/email", "acme/small"]},
    ],
)
def test_what_a_caller_is_told_of_the_model(desk: Desk, asked: dict[str, Any]) -> None:
    email(desk)
    body = {"messages": HELLO, **asked}
    headers = {"X-Router-Metadata": "enabled"}
    key = desk.account.api_key

    response = desk.server.post(CHAT, key=key, json=body, headers=headers)

    answer = exact(response)
    assert response.status_code == 200, response.text
    assert answer["model"] == "acme/solo"
    assert answer["router_metadata"]["requested"] == (asked.get("model") or asked["models"][0])
    assert desk.the_one_sent()["temperature"] == 0.7


def test_a_preset_alone_leaves_the_model_to_it(desk: Desk) -> None:
    email(desk, model="acme/nowhere", models=["acme/solo"])
    body = {"preset": "email", "messages": HELLO}

    key = desk.account.api_key
    refused = desk.server.post(CHAT, key=key, json=body)
    assert as_json(refused)["error"]["message"] == "acme/nowhere is not a valid model ID"

    made(desk, "/models/chat/completions", {"models": ["acme/solo", "acme/small"]})
    good = desk.server.post(CHAT, key=key, json={"preset": "models", "messages": HELLO})
    assert as_json(good)["model"] == "acme/solo"


def test_the_workspace_s_model_serves_a_preset_without_one(desk: Desk) -> None:
    made(desk, "/cool/chat/completions", {"temperature": 0.1})
    path, key = "/api/v1/workspaces/main", desk.account.management_key
    desk.server.request("PATCH", path, key=key, json={"default_text_model": "acme/solo"})

    desk.server.wait_until(
        lambda: desk.post(model="@preset/cool").status_code == 200, within_s=PATIENCE_S
    )

    assert desk.the_one_sent()["temperature"] == 0.1


def test_tools_of_a_preset_can_be_switched_off(desk: Desk) -> None:
    email(desk, tools=[{"type": "web_search"}])
    path, key = "/api/v1/workspaces/main", desk.account.management_key
    off = {"disabled_server_tools": ["router:web_search"]}
    desk.server.request("PATCH", path, key=key, json=off)

    desk.server.wait_until(
        lambda: desk.post(model="@preset/email").status_code == 403, within_s=PATIENCE_S
    )

    message = 'Server tool "router:web_search" is disabled in this workspace'
    error = desk.refused(403, "permission_denied", model="@preset/email")
    assert error["message"] == message


def test_tools_that_this_caller_cannot_have(desk: Desk) -> None:
    tool = {"type": "web_search_20250305", "name": "web_search"}
    made(desk, "/own/messages", {"model": "acme/solo", "tools": [tool]})

    error = desk.refused(400, "invalid_request", model="@preset/own")
    assert error["message"] == "server tool not available: web_search_20250305"
    path, key = "/api/v1/workspaces/main", desk.account.management_key
    off = {"disabled_server_tools": ["router:web_search"]}
    desk.server.request("PATCH", path, key=key, json=off)
    # That it is switched off comes first in the order of refusals.
    desk.server.wait_until(
        lambda: desk.post(model="@preset/own").status_code == 403, within_s=PATIENCE_S
    )


def test_a_new_version_is_in_force_within_a_second(desk: Desk) -> None:
    email(desk)
    desk.ok(model="@preset/email")
    desk.upstream.clear()
    email(desk, temperature=0.2)

    desk.server.wait_until(
        lambda: desk.ok(model="@preset/email") and desk.sent()[-1]["temperature"] == 0.2,
        within_s=1.0,
    )


def test_one_that_was_missing_is_there_once_it_is_made(desk: Desk) -> None:
    assert desk.post(model="@preset/email").status_code == 404
    email(desk)

    desk.server.wait_until(
        lambda: desk.post(model="@preset/email").status_code == 200, within_s=1.0
    )


def test_a_fixed_route_by_preset(desk: Desk) -> None:
    """What the preset says of providers is as good as the request's own word."""
    email(desk, provider={"only": ["nobody"]})

    error = desk.refused(404, "not_found", model="@preset/email")

    assert error["metadata"]["failed_routing_step"] == "Filter by Allowed Providers"
    assert desk.ok(model="@preset/email", provider={})["model"] == "acme/solo"
