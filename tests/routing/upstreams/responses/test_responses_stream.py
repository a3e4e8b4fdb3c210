"""Streams, read event by event."""

from typing import Any

import orjson
import pytest

from routing.entities.exchange import Event
from routing.upstreams.failures import UpstreamFailure, from_error_object
from routing.upstreams.responses.wire import RESPONSES
from tests.routing.upstreams import streams
from tests.routing.upstreams.streams import added_up, response, tokens

CREATED = {"type": "response.created", "response": {"id": "resp_1", "service_tier": "flex"}}


def read(*events: dict[str, Any]) -> list[Event]:
    return streams.read(RESPONSES, events)


def event_of(kind: str, place: int = 0, **fields: Any) -> dict[str, Any]:
    return {"type": f"response.{kind}", "output_index": place, **fields}


def text(delta: str, **fields: Any) -> dict[str, Any]:
    return event_of("output_text.delta", item_id="m", content_index=0, delta=delta, **fields)


def arguments(delta: str, id: str = "x", place: int = 0) -> dict[str, Any]:
    return event_of("function_call_arguments.delta", place, item_id=id, delta=delta)


def summary(delta: str, part: int = 0) -> dict[str, Any]:
    return event_of("reasoning_summary_text.delta", item_id="r", summary_index=part, delta=delta)


def item_added(place: int = 0, **item: Any) -> dict[str, Any]:
    return event_of("output_item.added", place, item=item)


def item_done(place: int = 0, **item: Any) -> dict[str, Any]:
    return event_of("output_item.done", place, item=item)


def response_completed(*output: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"type": "response.completed", "response": response(list(output), **fields)}


def deltas(*events: dict[str, Any]) -> list[dict[str, Any]]:
    return [event.delta for event in read(*events) if event.delta]


def test_every_event_carries_what_the_upstream_said() -> None:
    payloads = [orjson.dumps(event) for event in (CREATED, text("a"), {"type": "response.new"})]
    reader = RESPONSES.reader()
    for payload in [*payloads, b"{}"]:
        (event,) = reader.events(payload)
        assert event.native is not None
        value = orjson.loads(payload)
        assert event.native == ("responses", value.get("type", ""), payload, value)
    assert not reader.ended


def test_a_plain_answer() -> None:
    events = read(CREATED, text("He"), text("y"), response_completed(service_tier="default"))
    assert [event.delta for event in events] == [{}, {"content": "He"}, {"content": "y"}, {}]
    assert (events[0].upstream_id, events[0].service_tier) == ("resp_1", "flex")
    last = events[-1]
    assert (last.native_finish, last.service_tier) == ("stop", "default")
    assert last.usage == {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}


def test_an_item_that_has_another_id_at_the_end_is_told_once() -> None:
    thought = {"type": "reasoning", "summary": [], "content": [{"text": "Hm, yes"}]}
    second = {**thought, "id": "r3", "content": [{"text": "More"}]}
    said = {"type": "message", "id": "m", "content": [{"type": "output_text", "text": "Hey"}]}
    begun = item_added(0, type="reasoning", id="r1")
    hm = event_of("reasoning_text.delta", 0, item_id="r1", content_index=0, delta="Hm")
    end = response_completed({**thought, "id": "r2"}, said, second)
    message = added_up(read(begun, hm, item_added(1, type="message", id="m"), text("Hey"), end))
    assert (message["reasoning"], message["content"]) == ("Hm, yes\n\nMore", "Hey")


def test_what_follows_the_end_is_not_read() -> None:
    reader = RESPONSES.reader()
    reader.events(orjson.dumps(response_completed()))
    assert reader.ended
    assert reader.events(b"no json") == ()


ARGUMENTS = "{ 1"
CALL: dict[str, Any] = {"type": "function_call", "id": "x", "call_id": "c1", "name": "f"}
BARE, WHOLE = {**CALL, "arguments": ""}, {**CALL, "arguments": ARGUMENTS}
WRITTEN = event_of("function_call_arguments.done", item_id="x", arguments=ARGUMENTS)


def test_a_call_in_fragments() -> None:
    made = deltas(item_added(**BARE), arguments("{ "), arguments("1"), WRITTEN, item_done(**WHOLE))
    function = {"name": "f", "arguments": ""}
    assert [delta["tool_calls"] for delta in made] == [
        [{"index": 0, "type": "function", "function": function, "id": "c1"}],
        [{"index": 0, "function": {"arguments": "{ "}}],
        [{"index": 0, "function": {"arguments": "1"}}],
    ]


@pytest.mark.parametrize(
    "events",
    [
        [item_added(**WHOLE), WRITTEN],
        [arguments("{ "), item_done(**WHOLE)],
        [{**WRITTEN, "name": "f"}],
        [
            item_added(**{**WHOLE, "id": "old"}),
            arguments("{ ", "new"),
            item_done(**{**WHOLE, "id": "newer"}),
        ],
    ],
)
def test_arguments_are_neither_lost_nor_doubled(events: list[dict[str, Any]]) -> None:
    told = [delta.get("tool_calls", ()) for delta in deltas(*events, response_completed(WHOLE))]
    calls = [call for several in told for call in several]
    assert {call["index"] for call in calls} == {0}
    assert "".join(call["function"]["arguments"] for call in calls) == ARGUMENTS
    assert [name for call in calls if (name := call["function"].get("name"))] == ["f"]


@pytest.mark.parametrize("place", [1, 0], ids=["places of their own", "a place that never changes"])
def test_two_calls_at_once_stay_apart(place: int) -> None:
    second = item_added(place, **{**BARE, "id": "y", "call_id": "c2"})
    message = added_up(read(item_added(**BARE), second, arguments("2", "y", place), arguments("1")))
    calls = [(call["id"], call["function"]["arguments"]) for call in message["tool_calls"]]
    assert calls == [("c1", "1"), ("c2", "2")]


def test_reasoning_arrives_in_fragments_and_sealed() -> None:
    whole: Any = {"summary": [{"text": "Think"}, {"text": "More"}], "content": [{"text": "raw"}]}
    made = deltas(
        item_added(type="reasoning", id="r", summary=[], encrypted_content="early"),
        summary("Th"),
        summary("ink"),
        event_of("reasoning_summary_text.done", item_id="r", summary_index=0, text="Think"),
        event_of("reasoning_summary_part.done", item_id="r", summary_index=0, part={"text": 1}),
        summary("More", 1),
        event_of("reasoning_text.delta", item_id="r", content_index=0, delta="raw"),
        item_done(type="reasoning", id="r", encrypted_content="E", **whole),
    )
    common = {"id": "r", "format": "openai-responses-v1", "index": 0}
    summed = {"type": "reasoning.summary", **common}
    assert [delta.get("reasoning") for delta in made] == ["Th", "ink", "\n\nMore", "\n\nraw", None]
    assert [delta["reasoning_details"] for delta in made] == [
        [{**summed, "summary": "Th"}],
        [{**summed, "summary": "ink", "continues": True}],
        [{**summed, "summary": "More"}],
        [{"type": "reasoning.text", "text": "raw", **common}],
        [{"type": "reasoning.encrypted", "data": "E", **common}],
    ]


def test_log_probabilities_are_completed_not_repeated() -> None:
    one, two = ({"token": token, "logprob": 0} for token in "ab")
    end = event_of("output_text.done", item_id="m", content_index=0, text="ab", logprobs=[one, two])
    assert [token["token"] for token in tokens(read(text("a", logprobs=[one]), end))] == ["a", "b"]
    parts = [{"type": "output_text", "text": "a", "logprobs": [each]} for each in (one, two)]
    whole = response_completed({"type": "message", "content": parts})
    assert [token["token"] for token in tokens(read(whole))] == ["a", "b"]


def test_a_place_that_is_taken_again_holds_another_item() -> None:
    again = item_done(type="message", content=[{"type": "output_text", "text": "same"}])
    assert added_up(read(again, again))["content"] == "samesame"


def test_refusals_annotations_logprobs_and_images() -> None:
    token = {"token": "a", "logprob": -1.0, "bytes": None, "top_logprobs": []}
    cited = {"url": "u", "start_index": 0, "end_index": 1}
    note = {"type": "url_citation", **cited}
    events = read(
        text("a", logprobs=[token]),
        event_of("output_text.annotation.added", item_id="m", content_index=0, annotation=note),
        event_of("refusal.delta", item_id="m", content_index=1, delta="no"),
        event_of("image_generation_call.partial_image", 1, item_id="i", partial_image_b64="B"),
        item_done(1, type="image_generation_call", id="i", result="A"),
    )
    assert events[0].logprobs == {"content": [token]}
    assert [event.delta for event in events] == [
        {"content": "a"},
        {"annotations": [{"type": "url_citation", "url_citation": {**cited, "title": ""}}]},
        {"refusal": "no"},
        {},
        {"images": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,A"}}]},
    ]


def test_an_upstream_without_an_index_or_an_id_is_read_all_the_same() -> None:
    bare = {"type": "response.output_text.delta", "delta": "a"}
    whole = {"type": "message", "content": [{"type": "output_text", "text": "aa"}]}
    assert added_up(read(bare, bare, response_completed(whole)))["content"] == "aa"


@pytest.mark.parametrize(
    ("kind", "fields", "finish"),
    [
        ("completed", {"status": "in_progress"}, "stop"),
        ("incomplete", {"incomplete_details": {"reason": "max_output_tokens"}}, "length"),
        ("incomplete", {"incomplete_details": {"reason": "content_filter"}}, "content_filter"),
        ("incomplete", {"incomplete_details": {"reason": "tired"}}, "length"),
        ("incomplete", {}, None),
    ],
)
def test_how_it_ended(kind: str, fields: dict[str, Any], finish: str | None) -> None:
    (event,) = read({"type": f"response.{kind}", "response": response([], **fields)})
    assert event.native_finish == finish
    assert event.usage is not None


def test_a_call_decides_the_finish_even_where_the_last_event_holds_no_output() -> None:
    assert read(item_done(**WHOLE), response_completed())[-1].native_finish == "tool_calls"


FAILED = {"code": "rate_limit_exceeded", "message": "slower"}


@pytest.mark.parametrize(
    "event",
    [
        {"type": "response.failed", "response": {"status": "failed", "error": FAILED}},
        {"type": "response.completed", "response": {"error": FAILED}},
        {"type": "error", **FAILED, "param": None, "sequence_number": 3},
        {"type": "error", "error": FAILED},
        {"error": {"code": 429, "message": "slower"}},
    ],
)
def test_failures(event: dict[str, Any]) -> None:
    (read_event,) = read(event)
    failure = from_error_object(read_event.error)
    assert (failure.caller_status, failure.error_type) == (429, "rate_limit_exceeded")


@pytest.mark.parametrize("kind", ["failed", "cancelled"])
def test_a_failure_without_a_word(kind: str) -> None:
    reader = RESPONSES.reader()
    (event,) = reader.events(orjson.dumps({"type": f"response.{kind}", "response": None}))
    assert from_error_object(event.error).caller_status == 502
    assert reader.ended


def test_a_completed_response_without_output_is_none() -> None:
    with pytest.raises(UpstreamFailure):
        RESPONSES.reader().events(
            orjson.dumps(response_completed() | {"response": {"output": None}})
        )


@pytest.mark.parametrize(
    "event",
    [
        event_of("code_interpreter_call_code.delta", item_id="c", delta="x"),
        event_of("content_part.done", item_id="c", content_index=0, part={"type": "new"}),
    ],
)
def test_an_event_of_another_kind_is_told_without_a_delta(event: dict[str, Any]) -> None:
    (read_event,) = read(event)
    assert read_event == Event(native=read_event.native)
