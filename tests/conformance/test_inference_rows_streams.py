"""Rows 21, 22, 49, 51, 53 and 59: streams from commitment to their ends, and a loop of tools."""

import json
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from tests.conformance.desk import HELLO, Desk, nano, open_stream, read_stream

CALL = {"tool_calls": [{"name": "datetime", "arguments": {}}]}
PARIS = {"type": "router:datetime", "parameters": {"timezone": "Europe/Paris"}}
ONE_CALL = {"tool_calls_requested": 1, "tool_calls_executed": 1}


def test_a_stream_ends_with_its_usage_and_done(desk: Desk) -> None:
    stream = desk.stream(messages=[{"role": "user", "content": "say 5 words"}])

    chunks = stream.chunks
    first, *content, terminal, usage = chunks
    assert stream.blocks[-1] == "data: [DONE]"
    headers = stream.response.headers
    assert headers["X-Generation-Id"] == first["id"]
    # Proxies must not buffer.
    assert (headers["Cache-Control"], headers["X-Accel-Buffering"]) == ("no-cache", "no")
    shared = ("id", "created", "model", "object", "provider")
    assert {tuple(each[name] for name in shared) for each in chunks} == {
        (first["id"], first["created"], "acme/solo", "chat.completion.chunk", "Gamma")
    }
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert first["choices"][0]["finish_reason"] is None
    assert len(content) == 5
    assert all("usage" not in each for each in chunks[:-1])
    for chunk, finish in ((terminal, "stop"), (usage, None)):
        (last,) = chunk["choices"]
        assert last["delta"] == {"content": ""}
        assert (last["finish_reason"], last["native_finish_reason"]) == (finish, finish)
    assert usage["usage"]["completion_tokens"] == 5
    assert desk.the_one_sent()["stream_options"] == {"include_usage": True}
    assert desk.paid_nano(usage) == 1_000 * usage["usage"]["prompt_tokens"] + 2_000 * 5
    assert desk.generation(first["id"])["streamed"] is True


@pytest.mark.parametrize("first", ["an event", "silence"])
def test_the_headers_leave_with_the_first_event_or_soon(equipped_desk: Desk, first: str) -> None:
    """Nothing else has been written by then: no keep-alive took them along."""
    desk, role = equipped_desk, {"role": "assistant", "content": ""}
    begun: dict[str, Any] = {"json": {"choices": [{"index": 0, "delta": role}]}}
    if first == "silence":
        begun = {"pause_s": 0}
    events = [begun, {"gate": "headers"}, {"text": "Hi."}, {"finish": "stop"}]
    desk.upstream.script("gamma", {"events": events})

    with desk.server.chat(
        key=desk.account.api_key, model="acme/solo", messages=HELLO, stream=True
    ) as response:
        desk.upstream.open_gate("headers")
        stream = read_stream(response)

    assert (stream.text, stream.comments) == ("Hi.", 0)


def test_usage_comes_whatever_stream_options_say(desk: Desk) -> None:
    for option in ({"include_usage": False}, {"include_usage": True}, None):
        assert desk.stream(stream_options=option).usage["total_tokens"] > 0


def test_the_books_are_closed_before_the_usage_chunk_is_read(desk: Desk) -> None:
    wire = open_stream(desk)
    wire.head()
    event = wire.read_until(b'"usage":') + wire.read_until(b"}\n\n")
    chunk = json.loads(event[event.rindex(b"data: ") + 6 :], parse_float=Decimal)

    amount = desk.ledger_nano(chunk["id"])

    assert nano(chunk["usage"]["cost"]) == amount == desk.total_usage_nano() - desk.spent_nano
    assert b"data: [DONE]\n\n" in wire.received
    wire.close()


def test_the_debug_chunk_comes_first(desk: Desk) -> None:
    stream = desk.stream(debug={"echo_upstream_body": True}, temperature=0.5)

    first, second, *later = stream.chunks
    assert first["choices"] == []
    told = json.loads(json.dumps(first["debug"]["echo_upstream_body"], default=float))
    assert told == desk.the_one_sent()
    assert second["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert "gamma-credential" not in stream.response.text
    assert all("debug" not in chunk for chunk in (second, *later))
    # Without a stream it is ignored.
    answer = desk.ok(debug={"echo_upstream_body": True})
    assert "debug" not in answer
    assert "debug" not in desk.list_sent_bodies()[-1]


# --- Server tools ---------------------------------------------------------------------------------


def test_a_tool_is_run_once_and_the_model_goes_on(desk: Desk) -> None:
    desk.upstream.script("gamma", CALL, {"text": "It is late."})

    answer = desk.ok(tools=[PARIS])

    (choice,) = answer["choices"]
    assert (choice["finish_reason"], choice["message"]["content"]) == ("stop", "It is late.")
    assert "tool_calls" not in choice["message"]
    assert answer["usage"]["server_tool_use_details"] == ONE_CALL
    desk.paid_nano(answer)
    first, second = desk.list_sent_bodies()
    (shown,) = first["tools"]
    assert (shown["type"], shown["function"]["name"]) == ("function", "datetime")
    assert [message["role"] for message in second["messages"]] == ["user", "assistant", "tool"]
    told = json.loads(second["messages"][-1]["content"])
    now, at = datetime.now(ZoneInfo("Europe/Paris")), datetime.fromisoformat(told["datetime"])
    assert told["timezone"] == "Europe/Paris"
    assert at.utcoffset() == now.utcoffset()
    assert abs(now - at) < timedelta(seconds=60)


def test_a_loop_as_a_stream(desk: Desk) -> None:
    desk.upstream.script("gamma", CALL, {"text": "It is late."})

    streamed = desk.stream(tools=[PARIS])

    assert streamed.text == "It is late."
    assert streamed.blocks.count("data: [DONE]") == 1
    finishes = [chunk["choices"][0]["finish_reason"] for chunk in streamed.chunks]
    assert finishes[-2:] == ["stop", None]
    assert set(finishes[:-2]) == {None}
    assert streamed.usage["server_tool_use_details"] == ONE_CALL
    generation_id = streamed.response.headers["X-Generation-Id"]
    assert desk.charged_nano(generation_id) == nano(streamed.usage["cost"])


@pytest.mark.parametrize("stream", [False, True])
def test_one_step_then_a_turn_without_tools(desk: Desk, stream: bool) -> None:
    desk.upstream.script("gamma", CALL, repeat=True)
    condition = {"type": "step_count_is", "step_count": 1}
    asked: dict[str, Any] = {"tools": [PARIS], "stop_server_tools_when": [condition]}

    usage = desk.stream(**asked).usage if stream else desk.ok(**asked)["usage"]

    assert usage["server_tool_use_details"] == ONE_CALL
    first, last = desk.list_sent_bodies()
    assert "tools" in first
    assert not {"tools", "tool_choice"} & last.keys()
