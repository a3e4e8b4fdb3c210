"""The streaming events, their order and their numbers (inference 5.5, row 70)."""

from typing import Any

import pytest
from openai.types.responses import ResponseStreamEvent
from pydantic import TypeAdapter

from tests.routing.formats.responses.answers import ending, plain, read, stream, whole
from tests.routing.formats.responses.reader import Reader

Deltas = list[dict[str, Any]]
OFFICIAL: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
TOKEN = {"token": "a", "logprob": -0.5, "bytes": [97], "top_logprobs": []}


def told(*deltas: dict[str, Any], finish: str = "stop", **fields: Any) -> list[dict[str, Any]]:
    """All events of an answer."""
    writer = stream(**fields)
    said = writer.first() + b"".join(writer.delta(delta) for delta in deltas)
    return read(said + writer.closing(ending(finish)), done=True)


def kinds(events: list[dict[str, Any]]) -> list[str]:
    return [event["type"].removeprefix("response.") for event in events]


def call(index: int, arguments: str, name: str | None = None, **beside: Any) -> dict[str, Any]:
    function: dict[str, Any] = {"arguments": arguments}
    named = {"id": f"c{index}", "type": "function"} if name else {}
    if name:
        function["name"] = name
    return {"tool_calls": [{"index": index, **named, "function": function, **beside}]}


def test_row_70_text_in_exact_order() -> None:
    events = told({"role": "assistant", "content": ""}, {"content": "he"}, {"content": "llo"})
    assert kinds(events) == [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ]
    assert events[0]["sequence_number"] == 0
    begun = events[0]["response"]
    assert begun == events[1]["response"]
    assert (begun["status"], begun["output"], begun["usage"]) == ("in_progress", [], None)
    item_id = events[2]["item"]["id"]
    place = {"item_id": item_id, "output_index": 0, "content_index": 0}
    empty = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
    assert events[2]["item"]["content"] == []
    assert events[3].items() >= {**place, "part": empty}.items()
    assert events[4] == {
        "type": "response.output_text.delta",
        "sequence_number": 4,
        **place,
        "logprobs": [],
        "delta": "he",
    }
    assert events[6].items() >= {**place, "text": "hello", "logprobs": []}.items()
    assert events[7]["part"] == {**empty, "text": "hello"}
    final = events[-1]["response"]
    assert final["usage"]["cost"] == 0.0000012
    assert final["output"] == [events[8]["item"]]


def test_the_official_library_knows_every_event() -> None:
    events = told(
        {"reasoning": "t"},
        {"reasoning_details": [{"type": "reasoning.summary", "summary": "s", "index": 0}]},
        {"content": "a"},
        {"annotations": [{"type": "url_citation", "url_citation": {"url": "u"}}]},
        {"refusal": "no"},
        {"images": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}]},
        call(0, "{}", "f"),
    )
    for event in events:
        assert OFFICIAL.validate_python(event).type == event["type"]


def test_tool_calls_side_by_side_keep_their_places() -> None:
    events = told(
        {"content": "a"},
        call(0, '{"x"', "f"),
        call(1, "", "g"),
        call(0, ": 1"),
        call(1, "{ }"),
        call(0, " }"),
        finish="tool_calls",
    )
    assert kinds(events)[5:] == [
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "output_item.added",
        "function_call_arguments.delta",
        "output_item.added",
        "function_call_arguments.delta",
        "function_call_arguments.delta",
        "function_call_arguments.delta",
        "function_call_arguments.done",
        "output_item.done",
        "function_call_arguments.done",
        "output_item.done",
        "completed",
    ]
    first, second = (item for item in Reader().read(events).items if item["type"] != "message")
    assert (first["call_id"], first["arguments"]) == ("c0", '{"x": 1 }')
    assert (second["call_id"], second["arguments"]) == ("c1", "{ }")
    done = next(e for e in events if e["type"] == "response.function_call_arguments.done")
    assert (done["name"], done["output_index"]) == ("f", 1)


def test_calls_of_upstreams_that_do_not_count() -> None:
    nameless: Deltas = [
        {"tool_calls": [{"id": "a", "function": {"name": "f", "arguments": "1"}}]},
        {"tool_calls": [{"function": {"arguments": "2"}}]},
        {"tool_calls": [{"id": "b", "function": {"name": "g", "arguments": {"x": 1}}}]},
    ]
    items = Reader().read(told(*nameless)).items
    assert [(item["call_id"], item["arguments"]) for item in items] == [
        ("a", "12"),
        ("b", '{"x":1}'),
    ]
    same_index = [call(0, "1", "f"), call(0, "2", "g", id="other")]
    assert [item["name"] for item in Reader().read(told(*same_index)).items] == ["f", "g"]
    repeated = [call(0, "1", "f"), call(0, "2", "f")]
    assert [item["arguments"] for item in Reader().read(told(*repeated)).items] == ["12"]


def test_reasoning_has_summaries_texts_and_seals() -> None:
    common = {"id": "rs_1", "format": "openai-responses-v1", "index": 0}
    events = told(
        {"reasoning_details": [{"type": "reasoning.summary", "summary": "a", **common}]},
        {"reasoning_details": [{"type": "reasoning.summary", "summary": "b", **common}]},
        {"reasoning_details": [{"type": "reasoning.text", "text": "t", **common}]},
        {"reasoning_details": [{"type": "reasoning.encrypted", "data": "x", **common}]},
        {"content": "hi"},
    )
    assert kinds(events)[2:13] == [
        "output_item.added",
        "reasoning_summary_part.added",
        "reasoning_summary_text.delta",
        "reasoning_summary_text.delta",
        "reasoning_summary_text.done",
        "reasoning_summary_part.done",
        "content_part.added",
        "reasoning_text.delta",
        "reasoning_text.done",
        "content_part.done",
        "output_item.done",
    ]
    assert Reader().read(events).items[0] == {
        "id": "rs_1",
        "type": "reasoning",
        "status": "completed",
        "summary": [{"type": "summary_text", "text": "ab"}],
        "content": [{"type": "reasoning_text", "text": "t"}],
        "encrypted_content": "x",
        "format": "openai-responses-v1",
    }


def test_signed_thinking_and_redacted_thinking_are_items_of_their_own() -> None:
    format = {"format": "anthropic-claude-v1", "id": None}
    thinking = {"type": "reasoning.text", "index": 0, **format}
    events = told(
        {"reasoning": "t", "reasoning_details": [{**thinking, "text": "t"}]},
        {"reasoning": "u", "reasoning_details": [{**thinking, "text": "u"}]},
        {"reasoning_details": [{**thinking, "signature": "s"}]},
        {"reasoning_details": [{"type": "reasoning.encrypted", "data": "x", "index": 1, **format}]},
        {"content": "hi"},
    )
    signed, redacted, _ = Reader().read(events).final["output"]
    assert (signed["content"][0]["text"], signed["signature"]) == ("tu", "s")
    assert redacted["encrypted_content"] == "x"
    assert "content" not in redacted


def test_thinking_between_texts_begins_new_items() -> None:
    events = told({"content": "a"}, {"reasoning": "t"}, {"content": "b"})
    output = Reader().read(events).final["output"]
    assert [item["type"] for item in output] == ["message", "reasoning", "message"]
    assert events[-1]["response"]["output_text"] == "ab"


def test_log_probabilities_come_with_their_text() -> None:
    writer = stream()
    said = writer.first() + writer.delta({"content": "a"}, {"content": [TOKEN], "refusal": None})
    said += writer.delta({"content": "b"}) + writer.delta({}, {"content": [TOKEN]})
    events = read(said + writer.closing(ending()), done=True)
    deltas = [event for event in events if event["type"] == "response.output_text.delta"]
    assert [delta["logprobs"] for delta in deltas] == [[TOKEN], [], [TOKEN]]
    [item] = Reader().read(events).items
    assert item["content"][0]["logprobs"] == [TOKEN, TOKEN]


def test_annotations_are_counted() -> None:
    citation = {"url": "u", "title": "t", "start_index": 0, "end_index": 1, "content": None}
    note = {"type": "url_citation", "url_citation": citation}
    events = told({"content": "a"}, {"annotations": [note, note]})
    added = [event for event in events if event["type"].endswith("annotation.added")]
    assert [event["annotation_index"] for event in added] == [0, 1]
    flat = {"type": "url_citation", "url": "u", "title": "t", "start_index": 0, "end_index": 1}
    assert added[0]["annotation"] == flat


@pytest.mark.parametrize(
    ("finish", "last", "status"),
    [
        ("length", "response.incomplete", "incomplete"),
        ("content_filter", "response.incomplete", "incomplete"),
        ("stop", "response.completed", "completed"),
    ],
)
def test_the_last_event_says_how_it_ended(finish: str, last: str, status: str) -> None:
    events = told({"content": "a"}, finish=finish)
    assert events[-1]["type"] == last
    assert events[-2]["item"]["status"] == status


def test_a_failure_ends_the_stream_at_once() -> None:
    writer = stream(metadata={"a": "b"})
    said = writer.first() + writer.delta({"content": "par"})
    error = {"code": 502, "message": "broke", "metadata": {"error_type": "provider_unavailable"}}
    events = read(said + writer.error(error, router_metadata={"attempt": 1}), done=False)
    assert events[-2]["type"] == "response.output_text.delta"
    assert events[-1]["type"] == "response.failed"
    failed = events[-1]["response"]
    assert failed["error"] == {"code": "server_error", "message": "broke"}
    assert failed["error_type"] == "provider_unavailable"
    assert failed["output"][0]["status"] == "incomplete"
    assert failed["output_text"] == "par"
    assert failed["router_metadata"] == {"attempt": 1}
    assert (failed["usage"], failed["metadata"]) == (None, {"a": "b"})


def test_a_failure_may_be_all_there_is() -> None:
    error = {"code": 500, "message": "x", "metadata": {"error_type": "server"}}
    [event] = read(stream().error(error, router_metadata=None), done=False)
    assert event["sequence_number"] == 0
    assert "router_metadata" not in event["response"]


def test_an_end_that_the_model_calls_an_error_fails_too() -> None:
    writer = stream()
    said = writer.first() + writer.delta({"content": "a"}) + writer.closing(ending("error"))
    assert read(said, done=False)[-1]["type"] == "response.failed"


def test_debug_comes_first_without_payloads() -> None:
    writer = stream()
    body = {"messages": [], "file_data": "A" * 300}
    events = read(writer.debug(body) + writer.debug(body) + writer.first())
    assert kinds(events) == ["debug", "debug", "created", "in_progress"]
    shown = {"echo_upstream_body": {"messages": [], "file_data": "[redacted 300 chars]"}}
    assert events[0]["debug"] == shown


def test_what_has_no_place_in_the_format_is_no_event() -> None:
    writer = stream()
    writer.fingerprint("fp")
    assert writer.keep_alive == b": ROUTER PROCESSING\n\n"
    for delta in (
        {},
        {"role": "assistant"},
        {"audio": {"data": "AA"}},
        {"reasoning_details": [{"type": "reasoning.server_tool_call", "index": 0}, 5, {}]},
        {"annotations": [{"type": "file", "file": {}}, 5]},
        {"images": [5, {"image_url": 5}]},
        {"tool_calls": [5, "x"]},
        {"content": 5, "reasoning": 5, "refusal": 5},
    ):
        assert writer.delta(delta) == b""


def test_texts_that_come_as_parts_are_joined() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "thinking"}, 5, {"type": "text", "text": "b"}]
    assert whole({"content": parts})["output_text"] == "ab"


def test_a_stream_ends_with_the_object_of_the_whole_answer() -> None:
    deltas: Deltas = [{"reasoning": "t"}, {"content": "a"}, {"content": "b"}, call(0, "{}", "f")]
    message = {"reasoning": "t", "content": "ab", "tool_calls": call(0, "{}", "f")["tool_calls"]}
    final = told(*deltas)[-1]["response"]
    assert {**final, "completed_at": 0} == plain({**whole(message), "completed_at": 0})
