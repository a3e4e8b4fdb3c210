"""The streaming events, their order and their numbers (inference 5.5, row 70)."""

import re
from typing import Any

import pytest
from openai.types.responses import ResponseStreamEvent
from pydantic import TypeAdapter

from routing.formats.caller import ToolActivity
from routing.formats.responses.events import EventWriter
from routing.formats.responses.output_items import OutputTool
from tests.routing.formats.responses.answers import ending, failure, read, stream
from tests.routing.formats.responses.reader import Reader

Event = dict[str, Any]
OFFICIAL: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
TOKEN = {"token": "a", "logprob": -0.5, "bytes": [97], "top_logprobs": []}
PNG = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}


def write_events(*deltas: Event, finish: str = "stop", **fields: Any) -> list[Event]:
    """All events of an answer."""
    writer = stream(**fields)
    said = writer.write_opening() + b"".join(writer.delta(delta) for delta in deltas)
    return read(said + writer.write_ending(ending(finish)), done=True)


def items(*deltas: Event) -> list[Event]:
    """The output as its events told it."""
    return Reader().read(write_events(*deltas)).items


def kinds(events: list[Event]) -> list[str]:
    return [event["type"].removeprefix("response.") for event in events]


def call(index: int, arguments: str, name: str | None = None, **beside: Any) -> Event:
    function = {"arguments": arguments, **({"name": name} if name else {})}
    begun = {"id": f"c{index}", "type": "function"} if name else {}
    return {"tool_calls": [{"index": index, **begun, "function": function, **beside}]}


def reasoning_event(kind: str, index: int = 0, **said: Any) -> Event:
    return {"reasoning_details": [{"type": f"reasoning.{kind}", "index": index, **said}]}


def test_the_official_library_knows_every_event() -> None:
    events = write_events(
        {"reasoning": "t"},
        reasoning_event("summary", summary="s"),
        {"content": "a"},
        {"annotations": [{"type": "url_citation", "url_citation": {"url": "u"}}]},
        {"refusal": "no"},
        {"images": [PNG]},
        call(0, "{}", "f"),
    )
    for event in events:
        assert OFFICIAL.validate_python(event).type == event["type"]


@pytest.mark.parametrize(
    ("deltas", "expected"),
    [
        (
            [
                {"tool_calls": [{"id": "a", "function": {"name": "f", "arguments": "1"}}]},
                {"tool_calls": [{"function": {"arguments": "2"}}]},
                {"tool_calls": [{"id": "b", "function": {"name": "g", "arguments": {"x": 1}}}]},
            ],
            [("a", "f", "12"), ("b", "g", '{"x":1}')],
        ),
        ([call(0, "1", "f"), call(0, "2", "g", id="b")], [("c0", "f", "1"), ("b", "g", "2")]),
        ([call(0, "1", "f"), call(0, "2", "f")], [("c0", "f", "12")]),
    ],
    ids=["without numbers", "of one number", "named again"],
)
def test_calls_of_upstreams_that_do_not_count(deltas: list[Event], expected: Any) -> None:
    found = [(item["call_id"], item["name"], item["arguments"]) for item in items(*deltas)]
    assert found == expected


def test_thinking_between_texts_begins_new_items() -> None:
    events = write_events({"content": "a"}, {"reasoning": "t"}, {"content": "b"})
    output = Reader().read(events).final["output"]
    assert [item["type"] for item in output] == ["message", "reasoning", "message"]
    assert events[-1]["response"]["output_text"] == "ab"
    # A bare signature seals plain text.
    [sealed] = items({"reasoning": "t"}, reasoning_event("text", signature="s"))
    assert (sealed["content"][0]["text"], sealed["signature"]) == ("t", "s")


def test_log_probabilities_come_with_their_text() -> None:
    writer = stream()
    said = writer.write_opening() + writer.delta(
        {"content": "a"}, {"content": [TOKEN], "refusal": None}
    )
    said += writer.delta({"content": "b"}) + writer.delta({}, {"content": [TOKEN]})
    events = read(said + writer.write_ending(ending()), done=True)
    deltas = [event for event in events if event["type"] == "response.output_text.delta"]
    assert [delta["logprobs"] for delta in deltas] == [[TOKEN], [], [TOKEN]]
    [item] = Reader().read(events).items
    assert item["content"][0]["logprobs"] == [TOKEN, TOKEN]


def test_annotations_are_counted() -> None:
    place = {"url": "u", "title": "t", "start_index": 0, "end_index": 1}
    note = {"type": "url_citation", "url_citation": {**place, "content": None}}
    events = write_events({"content": "a"}, {"annotations": [note, note]})
    added = [event for event in events if event["type"].endswith("annotation.added")]
    assert [event["annotation_index"] for event in added] == [0, 1]
    assert added[0]["annotation"] == {"type": "url_citation", **place}


def test_a_failure_ends_the_stream_at_once() -> None:
    writer = stream(metadata={"a": "b"})
    said = writer.write_opening() + writer.delta({"content": "par"})
    events = read(said + writer.error(failure(), router_metadata={"attempt": 1}), done=False)
    assert kinds(events[-2:]) == ["output_text.delta", "failed"]
    failed = events[-1]["response"]
    known = {
        "error": {"code": "server_error", "message": "broke"},
        "error_type": "provider_unavailable",
        "output_text": "par",
        "router_metadata": {"attempt": 1},
        "usage": None,
        "metadata": {"a": "b"},
    }
    assert {name: failed[name] for name in known} == known
    assert failed["output"][0]["status"] == "incomplete"
    # It may be all there is, and the model itself may call its end an error.
    [event] = read(stream().error(failure("server", 500), router_metadata=None), done=False)
    assert event["sequence_number"] == 0
    assert "router_metadata" not in event["response"]
    writer = stream()
    said = (
        writer.write_opening()
        + writer.delta({"content": "a"})
        + writer.write_ending(ending("error"))
    )
    assert kinds(read(said, done=False))[-1] == "failed"


def test_debug_comes_first_without_payloads() -> None:
    writer = stream()
    body = {"messages": [], "file_data": "A" * 300}
    events = read(writer.debug(body) + writer.debug(body) + writer.write_opening())
    assert kinds(events) == ["debug", "debug", "created", "in_progress"]
    shown = {"echo_upstream_body": {"messages": [], "file_data": "[redacted 300 chars]"}}
    assert events[0]["debug"] == shown


@pytest.mark.parametrize(
    "delta",
    [
        {},
        {"role": "assistant"},
        {"audio": {"data": "AA"}},
        {"reasoning_details": [{"type": "reasoning.server_tool_call", "index": 0}, 5, {}]},
        {"annotations": [{"type": "file", "file": {}}, 5]},
        {"images": [5, {"image_url": 5}]},
        {"tool_calls": [5, "x"]},
        {"content": 5, "reasoning": 5, "refusal": 5},
    ],
)
def test_what_has_no_place_in_the_format_is_no_event(delta: Event) -> None:
    writer = stream()
    writer.set_fingerprint("fp")
    assert writer.keep_alive == b": ROUTER PROCESSING\n\n"
    assert writer.delta(delta) == b""


def test_a_panel_and_its_comparison_begin_before_they_end() -> None:
    answers = [{"model": "acme/a", "answer": "Yes"}, {"model": "acme/b", "error": "gone"}]
    item = {"answers": answers, "analysis": "They differ."}
    activity = ToolActivity("c1", "router:fusion", "fusion", "{}", status="completed", item=item)
    said = OutputTool(EventWriter(), "st_1", 0, activity).end_of_content().decode()
    assert re.findall(r"event: response\.fusion_call\.(\S+)", said) == [
        *("panel.added", "panel.added", "panel.completed", "panel.failed"),
        *("analysis.in_progress", "analysis.completed", "completed"),
    ]
    assert re.findall(r'"sequence_number":(\d+)', said) == [str(number) for number in range(7)]
    assert re.findall(r'"model":"([^"]+)"', said) == ["acme/a", "acme/b"] * 2
