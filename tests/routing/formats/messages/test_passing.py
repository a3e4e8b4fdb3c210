"""Streams of upstreams that speak messages themselves: handed on as they came."""

from typing import Any

import orjson
import pytest

from routing.formats.caller import Whole
from routing.formats.messages.answer import whole_answer
from routing.formats.messages.stream import MessagesStream
from tests.routing.formats.messages.bodies import accepted
from tests.routing.formats.messages.stream_reader import Read, events_of
from tests.routing.formats.messages.streams import SERVED, USAGE, ending, native, stream

START: dict[str, Any] = {
    "type": "message_start",
    "message": {
        "id": "msg_up",
        "type": "message",
        "role": "assistant",
        "model": "claude-x",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 5, "output_tokens": 1, "cache_read_input_tokens": 3, "own": "u"},
        "own": {"a": 1},
    },
}
BLOCK = b'{"type":"content_block_start", "index":0, "content_block":{"type":"text","text":""}}'
PIECE = b'{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"\\u00e9"}}'
STOP = b'{"type":"content_block_stop","index":0 }'
LAST: dict[str, Any] = {
    "type": "message_delta",
    "delta": {"stop_reason": "pause_turn", "stop_sequence": None, "own": 1},
    "usage": {"output_tokens": 5, "cache_creation_input_tokens": 2, "server_tool_use": {"x": 1}},
    "context_management": {"applied_edits": []},
}


def passed(writer: MessagesStream, payload: bytes | dict[str, Any]) -> bytes:
    raw = payload if isinstance(payload, bytes) else orjson.dumps(payload)
    value = orjson.loads(raw)
    return writer.passed(native(value["type"], raw, value))


def test_the_start_gets_the_gateways_fields_and_keeps_its_own() -> None:
    start, ping = events_of(passed(stream(), START))
    message = start["message"]
    assert (message["id"], message["model"], message["provider"]) == (
        "msg_up",
        "acme/small",
        "Acme",
    )
    assert message["own"] == {"a": 1}
    assert (message["stop_details"], message["container"]) == (None, None)
    usage = message["usage"]
    assert (usage["input_tokens"], usage["own"], usage["inference_geo"]) == (5, "u", None)
    assert ping == {"type": "ping"}


def test_what_is_between_goes_out_byte_for_byte() -> None:
    writer = stream()
    passed(writer, START)
    for raw in (BLOCK, PIECE, STOP, b'{"type":"of_tomorrow","x":[1.0]}'):
        name = orjson.loads(raw)["type"].encode()
        assert passed(writer, raw) == b"event: " + name + b"\ndata: " + raw + b"\n\n"


def test_the_end_is_said_with_the_upstreams_reason_and_the_charge() -> None:
    writer = stream()
    said = b"".join(passed(writer, each) for each in (START, {"type": "ping"}, BLOCK, PIECE, STOP))
    assert passed(writer, LAST) == passed(writer, {"type": "message_stop"}) == b""
    end = ending("stop", "pause_turn", router_metadata={"m": 1})
    read = Read(said + writer.closing(end))
    assert read.content == [{"type": "text", "text": "é"}]
    assert (read.pings, read.ended) == (1, {"type": "message_stop", "router_metadata": {"m": 1}})
    last = events_of(writer.closing(end))[0]
    assert last["delta"] == {
        "stop_reason": "pause_turn",
        "stop_sequence": None,
        "stop_details": None,
        "container": None,
        "own": 1,
    }
    assert last["context_management"] == {"applied_edits": []}
    usage = last["usage"]
    assert (usage["input_tokens"], usage["output_tokens"], usage["own"]) == (5, 5, "u")
    assert (usage["cache_read_input_tokens"], usage["cache_creation_input_tokens"]) == (3, 2)
    tools = {"web_search_requests": 0, "web_fetch_requests": 0, "x": 1}
    assert (usage["server_tool_use"], usage["cost"]) == (tools, USAGE["cost"])


@pytest.mark.parametrize(
    ("caller", "reason"),
    [
        (None, "tool_use"),
        ({"type": "direct"}, "tool_use"),
        ({"type": "code_execution_20250825", "tool_id": "s"}, "end_turn"),
    ],
)
def test_a_turn_that_ends_with_calls_says_so(caller: Any, reason: str) -> None:
    """Code that the provider runs has had its own calls answered."""
    call = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}, "caller": caller}
    ended = {"stop_reason": "end_turn"}
    message = {"type": "message", "content": [call], "usage": {}, **ended}
    end = ending("tool_calls", "end_turn", native=native("", b"", message))
    whole = Whole(SERVED, accepted(), {}, None, None, end)
    assert whole_answer(whole)["stop_reason"] == reason

    begun = {"type": "content_block_start", "index": 0, "content_block": call}
    for start, block in ((START, begun), ({**START, "message": {"content": [call]}}, None)):
        writer = stream()
        for event in (start, block, {**LAST, "delta": ended}):
            if event:
                passed(writer, event)
        last = events_of(writer.closing(ending("tool_calls", "end_turn")))[-2]
        assert last["delta"]["stop_reason"] == reason


def test_blocks_that_came_with_the_start_are_told_as_blocks() -> None:
    caller = {"type": "code_execution_20250825", "tool_id": "srv_1"}
    content = [
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "text", "text": "x", "citations": []},
        {"type": "tool_use", "id": "t", "name": "f", "input": {"a": [1.0]}, "caller": caller},
        {"type": "of_tomorrow", "y": 1},
    ]
    more = {"content": content, "stop_reason": "tool_use", "container": {"id": "c"}}
    writer = stream()
    said = passed(writer, {**START, "message": {**START["message"], **more}})
    said += passed(writer, {"type": "message_stop"}) + writer.closing(ending("tool_calls"))
    read = Read(said)
    assert read.content == content
    assert (read.message["stop_reason"], read.message["container"]) == ("tool_use", {"id": "c"})


@pytest.mark.parametrize(
    ("block", "field", "nothing"),
    [
        ({"type": "text", "text": "x"}, "citations", []),
        ({"type": "tool_use", "id": "t", "name": "f"}, "input", {}),
    ],
)
def test_a_block_has_no_null_where_clients_refuse_it(
    block: dict[str, Any], field: str, nothing: Any
) -> None:
    writer = stream()
    block = {**block, field: None}
    begun = {"type": "content_block_start", "index": 0, "content_block": block, "own": 1}
    events = events_of(passed(writer, {**START, "message": {"content": [block]}}))
    events += events_of(passed(writer, begun))
    starts = [event for event in events if event["type"] == "content_block_start"]
    assert [each["content_block"][field] for each in starts] == [nothing, nothing]
    assert starts[1]["own"] == 1


def test_counts_that_were_not_charged_give_way() -> None:
    writer = stream()
    passed(writer, START)
    passed(writer, {**LAST, "usage": {"output_tokens": 10**9, "own": "late"}})
    usage = events_of(writer.closing(ending()))[0]["usage"]
    assert (usage["output_tokens"], usage["own"]) == (5, "late")


def test_a_later_ping_goes_through() -> None:
    writer = stream()
    passed(writer, START)
    assert passed(writer, {"type": "ping"}) == b""
    assert events_of(passed(writer, {"type": "ping"})) == [{"type": "ping"}]


def test_odd_events_cannot_break_the_frames() -> None:
    writer = stream()
    passed(writer, START)
    passed(writer, BLOCK)
    broken = PIECE.replace(b",", b",\n")
    assert events_of(passed(writer, broken)) == [orjson.loads(PIECE)]
    assert passed(writer, b'{"type":"a\\nevent: b"}') == b""
    empty = passed(stream(), {"type": "message_start"})
    assert events_of(empty)[0]["message"]["id"].startswith("msg_")
    assert passed(writer, {"type": "error", "error": {}}) == b""


def test_a_stream_that_never_told_why_it_ended_is_closed_all_the_same() -> None:
    writer = stream()
    passed(writer, START)
    delta, stop = events_of(writer.closing(ending("length", "length")))
    assert delta["delta"]["stop_reason"] == "max_tokens"
    assert stop == {"type": "message_stop"}
