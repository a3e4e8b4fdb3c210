"""Both ends speak the same format: what the gateway does not know goes through untouched."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from routing.simulator.seal import sealed
from tests.conformance.asking import MESSAGES, PERSONAS, RESPONSES
from tests.conformance.desk import Desk, exact
from tests.support.speakers import SPEAKERS, read_stream
from tests.support.speakers.base import plain

ODD: dict[str, Any] = {"x_future": {"a": [1, None, "é\u2028"]}}


@pytest.fixture
def lenient(wire_desk: Desk, kind: str) -> Iterator[Desk]:
    """At a provider that takes what it does not know."""
    name = f"/_persona/{PERSONAS[kind]}-a"
    wire_desk.upstream.control("PUT", name, {"strict": False})
    yield wire_desk
    wire_desk.upstream.control("PUT", name, {"strict": True})


def sent(desk: Desk, path: str, body: dict[str, Any]) -> Any:
    """What the upstream gets of a request that is answered."""
    key = desk.account.api_key
    response = desk.server.post(path, key=key, json={"model": desk.model, **body})
    assert response.status_code == 200, response.text
    (entry,) = desk.upstream.requests()
    return entry["body"]


@pytest.mark.parametrize("kind", ["anthropic"], indirect=True)
def test_unknown_keys_inside_messages_stay(lenient: Desk) -> None:
    messages = [
        {"role": "user", "content": [{"type": "text", "text": "Hi", **ODD}], **ODD},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Hm", "signature": sealed("Hm"), **ODD},
                {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"a": 1.50}, **ODD},
            ],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", **ODD}]},
    ]
    tools = [{"name": "f", "input_schema": {"type": "object"}, **ODD}]
    body = {"max_tokens": 99, "messages": messages, "tools": tools, "system": "S", **ODD}

    got = sent(lenient, MESSAGES, body)

    assert (got["messages"], got["tools"], got["system"]) == (messages, tools, "S")
    assert got["max_tokens"] == 99
    assert "x_future" not in got
    assert got["model"] == "small"


@pytest.mark.parametrize("kind", ["responses"], indirect=True)
def test_unknown_keys_inside_items_stay(lenient: Desk) -> None:
    items = [
        {"role": "user", "content": [{"type": "input_text", "text": "Hi", **ODD}], **ODD},
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x", **ODD},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": '{"a": 1.50}', **ODD},
        {"type": "function_call_output", "call_id": "c", "output": "r", **ODD},
    ]
    tools = [{"type": "function", "name": "f", "parameters": {"type": "object"}, **ODD}]

    got = sent(lenient, RESPONSES, {"input": items, "tools": tools, "store": False, **ODD})

    assert (got["input"], got["tools"]) == (items, tools)
    assert got["store"] is False
    assert "x_future" not in got


MESSAGE_EVENTS: list[dict[str, Any]] = [
    {
        "type": "message_start",
        "message": {
            "id": "msg_theirs",
            "type": "message",
            "role": "assistant",
            "model": "small",
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": 3, "output_tokens": 1},
            **ODD,
        },
    },
    {"type": "ping"},
    {
        "type": "content_block_start",
        "index": 0,
        "content_block": {"type": "server_tool_use", "id": "srv_1", "name": "web_search", **ODD},
    },
    {"type": "content_block_stop", "index": 0},
    {"type": "future_event", **ODD},
    {
        "type": "content_block_start",
        "index": 1,
        "content_block": {"type": "text", "text": "", "citations": []},
    },
    {
        "type": "content_block_delta",
        "index": 1,
        "delta": {"type": "text_delta", "text": "Found it.", **ODD},
    },
    {
        "type": "content_block_delta",
        "index": 1,
        "delta": {"type": "citations_delta", "citation": {"type": "page_location", **ODD}},
    },
    {"type": "content_block_stop", "index": 1},
    {
        "type": "message_delta",
        "delta": {"stop_reason": "end_turn", "stop_sequence": None},
        "usage": {"output_tokens": 5},
        **ODD,
    },
    {"type": "message_stop"},
]


@pytest.mark.parametrize("kind", ["anthropic"], indirect=True)
def test_unknown_events_and_blocks_pass(wire_desk: Desk) -> None:
    """Everything between the first event and the last ones is the upstream's own, byte for byte."""
    wire_desk.upstream.script(
        "messages-a", {"events": [{"json": value} for value in MESSAGE_EVENTS]}
    )
    body = {"model": wire_desk.model, "max_tokens": 99, "stream": True}
    hello = {"messages": [{"role": "user", "content": "Hello there"}]}

    key = wire_desk.account.api_key
    response = wire_desk.server.post(MESSAGES, key=key, json={**body, **hello})

    streamed = read_stream(response)
    values = plain(streamed.values)
    assert values[1:-2] == MESSAGE_EVENTS[1:-2]
    start, end = values[0]["message"], values[-2]
    assert (start["id"], start["model"], start["x_future"]) == (
        "msg_theirs", wire_desk.model, ODD["x_future"],
    )  # fmt: skip
    assert (end["x_future"], end["usage"]["output_tokens"]) == (ODD["x_future"], 5)
    said = SPEAKERS["messages"].heard_stream(streamed)
    assert said.cost_nano == wire_desk.charged_nano(response.headers["X-Generation-Id"])
    assert said.cost_nano == 3 * 1_000 + 5 * 2_000


@pytest.mark.parametrize("kind", ["responses"], indirect=True)
def test_unknown_items_of_a_response_pass(wire_desk: Desk) -> None:
    item = {"type": "future_call", "id": "fut_1", "status": "completed", **ODD}
    text = {"type": "output_text", "text": "Hi", "annotations": [], **ODD}
    answer = {
        "id": "resp_theirs",
        "object": "response",
        "created_at": 1,
        "status": "completed",
        "model": "small",
        "output": [item, {"type": "message", "id": "msg_1", "role": "assistant",
                          "status": "completed", "content": [text]}],
        "usage": {"input_tokens": 3, "output_tokens": 1, "total_tokens": 4, **ODD},
        **ODD,
    }  # fmt: skip
    wire_desk.upstream.script("responses-a", {"status": 200, "json": answer})

    key = wire_desk.account.api_key
    body = {"model": wire_desk.model, "input": "Hi"}
    told = wire_desk.server.post(RESPONSES, key=key, json=body)

    got = plain(exact(told))
    assert got["output"] == answer["output"]
    assert (got["x_future"], got["usage"]["x_future"]) == (ODD["x_future"], ODD["x_future"])
    assert (got["model"], got["output_text"]) == (wire_desk.model, "Hi")
    assert json.dumps(got["usage"]["cost"])
    assert got["id"] != "resp_theirs"
