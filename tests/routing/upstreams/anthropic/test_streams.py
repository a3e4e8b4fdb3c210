"""Streams of the messages API, read event by event."""

from typing import Any

import orjson
import pytest

from routing.entities.exchange import Event
from routing.upstreams.anthropic.wire import ANTHROPIC
from routing.upstreams.failures import from_error_object
from tests.routing.upstreams import streams
from tests.routing.upstreams.streams import added_up, messages_stream, thoughts

ANSWER: dict[str, Any] = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "model": "claude",
    "content": [
        {"type": "thinking", "thinking": "let me see", "signature": "sig"},
        {"type": "redacted_thinking", "data": "dark"},
        {"type": "text", "text": "Hello there", "citations": None},
        {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"x": [1, 2, 3]}},
        {"type": "tool_use", "id": "toolu_2", "name": "g", "input": {}},
    ],
    "stop_reason": "tool_use",
    "stop_sequence": None,
    "stop_details": None,
    "usage": {"input_tokens": 10, "cache_read_input_tokens": 5, "output_tokens": 20},
}


def start(index: int, **block: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index: int, kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **fields}}


def read(*events: dict[str, Any]) -> list[Event]:
    return streams.read(ANTHROPIC, events)


def stop(index: int) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


def test_a_start_may_hold_the_whole_answer() -> None:
    # Calls that a program of the provider's made come like this.
    events = read({"type": "message_start", "message": ANSWER}, {"type": "message_stop"})
    whole = ANTHROPIC.answer(orjson.dumps(ANSWER), "application/json")
    message = added_up(events)
    for name in ("content", "reasoning", "tool_calls"):
        assert message[name] == whole.message[name]
    assert thoughts(message) == thoughts(whole.message)
    assert (events[0].native_finish, events[0].usage) == ("tool_use", whole.usage)


def test_every_event_carries_its_payload() -> None:
    reader = ANTHROPIC.reader()
    for payload in map(orjson.dumps, messages_stream(ANSWER)):
        assert not reader.ended
        [event] = reader.events(payload)
        assert event.native is not None
        assert event.native.raw is payload
        assert event.native.name == event.native.value["type"]
        assert event.native.kind == "anthropic"
        assert event.has_choice == (event.native.name != "ping")
    assert reader.ended


def test_the_output_count_is_unknown_until_it_is_told_at_the_end() -> None:
    events = read(*messages_stream(ANSWER))
    assert events[0].usage == {
        "prompt_tokens": 15,
        "completion_tokens": None,
        "prompt_tokens_details": {"cached_tokens": 5},
    }
    assert events[-2].usage["total_tokens"] == 35


def test_a_start_that_comes_late_or_again_undoes_no_count() -> None:
    [start_event, *_] = messages_stream(ANSWER)
    told = {"type": "message_delta", "delta": {}, "usage": {"output_tokens": 7}}
    again = {"type": "message_start", "message": {"id": "other", "usage": {"input_tokens": 900}}}
    late, second = read(told, start_event, again)[1:]
    assert (late.usage["prompt_tokens"], late.usage["completion_tokens"]) == (15, 7)
    assert (second.usage, second.upstream_id) == (None, None)


def test_fragments_of_an_input_are_passed_byte_for_byte() -> None:
    fragments = ["", '{"a"', ' : "\\u00', 'e9"', "}"]
    told = [delta(0, "input_json_delta", partial_json=text) for text in fragments]
    events = read(start(0, type="tool_use", id="t", name="f", input={}), *told, stop(0))
    function = {"name": "f", "arguments": ""}
    assert [call for event in events for call in event.delta.get("tool_calls", ())] == [
        {"index": 0, "id": "t", "type": "function", "function": function},
        *({"index": 0, "function": {"arguments": text}} for text in fragments[1:]),
    ]


@pytest.mark.parametrize(
    ("given", "arguments"), [({}, "{}"), (None, "{}"), ({"x": 1}, '{"x":1}'), ([1], "[1]")]
)
@pytest.mark.parametrize("ends", [[stop(0)], []], ids=["stopped", "not stopped"])
def test_an_input_without_fragments_is_told_whole(given: Any, arguments: str, ends: Any) -> None:
    block = start(0, type="tool_use", id="t", name="f", input=given)
    last = {"type": "message_delta", "delta": {"stop_reason": "tool_use"}}
    message = added_up(read(block, *ends, last))
    assert message["tool_calls"][0]["function"]["arguments"] == arguments


def test_the_end_tells_the_reason_the_sequence_and_why_it_refused() -> None:
    def end_event(**delta: Any) -> Event:
        [event] = read({"type": "message_delta", "delta": delta})
        return event

    refused = end_event(
        stop_reason="refusal", stop_details={"type": "refusal", "explanation": "no"}
    )
    assert (refused.native_finish, refused.delta) == ("refusal", {"refusal": "no"})
    assert end_event(stop_reason="stop_sequence", stop_sequence="END").stop_sequence == "END"


@pytest.mark.parametrize(
    ("event", "status"),
    [
        ({"type": "error", "error": None}, 502),
        ({"type": "error", "error": {}}, 502),
        ({"type": "error", "error": "broken"}, 502),
        ({"type": "error", "error": {"type": "overloaded_error"}}, 529),
        ({"error": {"type": "api_error", "message": "m"}}, 500),
    ],
)
def test_an_error_event(event: dict[str, Any], status: int) -> None:
    [told] = read(event)
    assert from_error_object(told.error).status == status


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"type": 5},
        {"type": "new_event", "x": 1},
        {"type": "content_block_delta"},
        delta(0, "new_delta"),
        delta(0, "input_json_delta", partial_json="{}"),
        delta(0, "citations_delta"),
        delta(0, "text_delta", text=5),
        delta(0, "compaction_delta", content="x"),
        start(0, type="web_search_tool_result", content=[]),
        stop(7),
        *[{"type": kind} for kind in ("message_start", "message_delta", "content_block_start")],
    ],
)
def test_what_means_nothing_in_chat_travels_all_the_same(value: dict[str, Any]) -> None:
    [event] = read(value)
    assert event.delta == {}
    assert event.error is None
    assert event.native is not None
    assert event.native.value == value
