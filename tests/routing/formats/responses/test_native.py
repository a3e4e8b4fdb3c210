"""Answers of upstreams that speak this format themselves: passed on, with the gateway's fields."""

from typing import Any

import pytest

from gateway.http.jsonio import dumps
from routing.entities.exchange import Native
from tests.routing.formats.responses.answers import (
    ending,
    failure,
    plain,
    read,
    stream,
    write_answer,
)

TEXT = {"type": "output_text", "text": "hello", "annotations": []}
MESSAGE: dict[str, Any] = {
    "id": "msg_up",
    "type": "message",
    "role": "assistant",
    "status": "completed",
    "content": [{**TEXT, "zz": 1}],
}
OWN: dict[str, Any] = {
    "id": "resp_upstream",
    "object": "response",
    "created_at": 1_750_000_000,
    "completed_at": 1_750_000_001,
    "status": "completed",
    "model": "upstream-name",
    "error": None,
    "incomplete_details": None,
    "output": [
        {"id": "rs_up", "type": "reasoning", "summary": [], "encrypted_content": "x"},
        {"id": "ws_up", "type": "web_search_call", "status": "completed", "action": {"zz": 1}},
        MESSAGE,
    ],
    "store": True,
    "previous_response_id": "resp_other",
    "metadata": {},
    "user": "hashed",
    "safety_identifier": "hashed",
    "max_output_tokens": 4096,
    "temperature": 1.0,
    "service_tier": "default",
    "usage": {
        "input_tokens": 99,
        "input_tokens_details": {"cached_tokens": 9, "zz": 1},
        "output_tokens": 9,
        "output_tokens_details": {"reasoning_tokens": 9},
        "total_tokens": 108,
        "zz": 1,
    },
    "zz": {"kept": True},
}


def native(value: dict[str, Any], raw: bytes | None = None) -> Native:
    return Native("responses", value.get("type", ""), dumps(value) if raw is None else raw, value)


def event(kind: str, number: int, **fields: Any) -> dict[str, Any]:
    return {"type": f"response.{kind}", "sequence_number": number, **fields}


CREATED = event("created", 0, response={**OWN, "status": "in_progress", "output": []}, zz=1)
DELTA = event("output_text.delta", 1, item_id="msg_up", output_index=2, delta="hello", zz=[1])
DONE_ITEM = event("output_item.done", 2, output_index=2, item=MESSAGE)
COMPLETED = event("completed", 3, response=OWN, zz=2)
ASKED: dict[str, Any] = {"metadata": {"a": "b"}, "user": "me"}


def pass_events(*events: dict[str, Any], **fields: Any) -> tuple[Any, bytes]:
    """A stream that was handed the events, and what it said of them."""
    writer = stream(**fields)
    return writer, b"".join(writer.write_native(native(one)) for one in events)


def check_owned(answer: dict[str, Any]) -> None:
    assert answer["id"].startswith("resp_")
    assert answer["id"] != OWN["id"]
    nulls = dict.fromkeys(("previous_response_id", "safety_identifier", "max_output_tokens"))
    kept = {name: OWN[name] for name in ("zz", "temperature", "created_at")}
    expected = {**ASKED, **nulls, **kept, "model": "acme/small", "store": False}
    assert {name: answer[name] for name in expected} == expected


def test_a_whole_answer_keeps_all_but_the_gateways_fields() -> None:
    end = ending(native=native(OWN), router_metadata={"attempt": 1})
    answer = write_answer({"content": "hello"}, end=end, **ASKED)
    check_owned(answer)
    for name in ("output", "service_tier", "completed_at"):
        assert answer[name] == OWN[name]
    assert (answer["output_text"], answer["router_metadata"]) == ("hello", {"attempt": 1})
    usage = answer["usage"]
    assert (usage["input_tokens"], usage["output_tokens"]) == (5, 3)
    assert (usage["cost"], usage["zz"]) == (0.0000012, 1)
    details = {"cached_tokens": 1, "cache_write_tokens": 0, "zz": 1}
    assert usage["input_tokens_details"] == details


def test_a_whole_answer_that_broke_is_failed() -> None:
    for own in (OWN, {**OWN, "output": []}, {**OWN, "output": "odd"}):
        answer = write_answer({}, end=ending("error", native=native(own), failure=failure()))
        assert (answer["status"], answer["error_type"]) == ("failed", "provider_unavailable")
    limit = failure("max_tokens_exceeded")
    answer = write_answer({}, end=ending("error", native=native(OWN), failure=limit))
    assert answer["status"] == "incomplete"


@pytest.mark.parametrize(
    "own",
    [
        {},
        {"output": 5, "usage": 5},
        {"output": [5, {"type": "message"}, {"type": "message", "content": [5, {"text": 5}]}]},
        {"usage": {"input_tokens_details": None}},
    ],
)
def test_odd_objects_do_no_harm(own: dict[str, Any]) -> None:
    assert write_answer({}, end=ending(native=native(own)))["output_text"] == ""


def test_events_pass_verbatim_but_for_the_response_object() -> None:
    writer, created = pass_events(CREATED, **ASKED)
    raw = b'{ "type":"response.output_text.delta","sequence_number":1, "delta":"\\u0061" }'
    out = writer.write_native(native(event("output_text.delta", 1, delta="a"), raw))
    assert out == b"event: response.output_text.delta\ndata: " + raw + b"\n\n"
    [told] = read(created)
    check_owned(told["response"])
    assert (told["zz"], told["response"]["status"]) == (1, "in_progress")


def test_the_terminal_event_waits_for_the_charge() -> None:
    writer, said = pass_events(CREATED, DELTA, DONE_ITEM, **ASKED)
    assert writer.write_native(native(COMPLETED)) == b""
    assert writer.write_native(native({"type": "error", "sequence_number": 4})) == b""
    said += writer.write_ending(ending(native=native(COMPLETED), router_metadata={"attempt": 1}))
    events = read(said, done=True)
    assert events[1] == DELTA
    assert (events[-1]["type"], events[-1]["zz"]) == ("response.completed", 2)
    end = ending(native=native(OWN), router_metadata={"attempt": 1})
    # Which has the charge and what check_owned looks for.
    assert events[-1]["response"] == write_answer({}, end=end, **ASKED)


def test_numbers_leave_no_gap_whatever_the_upstream_counted() -> None:
    writer = stream()
    said = writer.debug({"model": "m"})
    for one in (CREATED, DELTA, {**DELTA, "sequence_number": 17}, {"type": "response.new", "a": 1}):
        said += writer.write_native(native(one))
    events = read(said + writer.write_ending(ending(native=native(COMPLETED))), done=True)
    assert [one["sequence_number"] for one in events] == list(range(6))
    assert events[4] == {"type": "response.new", "sequence_number": 4, "a": 1}


@pytest.mark.parametrize("gap", [b"\n", b"\r\n", b"\r"])
def test_a_payload_of_several_lines_stays_one_event(gap: bytes) -> None:
    raw = dumps(DELTA).replace(b",", b"," + gap)
    writer, _ = pass_events(CREATED)
    assert b"\r" not in writer.write_native(native(DELTA, raw))
    second = {**DELTA, "sequence_number": 2}
    assert read(writer.write_native(native(second, raw))) == [second]


@pytest.mark.parametrize("name", ["", "a\nevent: response.completed", "a\r\n"])
def test_what_is_no_event_is_left_out(name: str) -> None:
    assert pass_events({"type": name, "sequence_number": 0})[1] == b""


@pytest.mark.parametrize("status", ["incomplete", "failed"])
def test_the_upstreams_own_end_stands(status: str) -> None:
    own = {**OWN, "status": status, "incomplete_details": {"reason": "max_output_tokens"}}
    said = pass_events(CREATED)[0].write_ending(ending("length", native=native(own)))
    [last] = read(said, done=status == "incomplete")
    assert last["type"] == f"response.{status}"
    assert last["response"]["incomplete_details"] == own["incomplete_details"]


def test_a_failure_shows_the_items_that_were_done() -> None:
    writer, _ = pass_events(CREATED, DELTA, DONE_ITEM)
    [failed] = read(writer.error(failure("timeout"), router_metadata=None), done=False)
    assert failed["sequence_number"] == 3
    assert failed["response"]["output"] == [MESSAGE]
    assert failed["response"]["output_text"] == "hello"
    # So does a stream that ends without its last word.
    writer, _ = pass_events(CREATED, DELTA, DONE_ITEM)
    last = read(writer.write_ending(ending()), done=True)[-1]
    assert plain(last["response"]["output"]) == [MESSAGE]


def test_a_failure_shows_what_came_of_items_that_were_not_done() -> None:
    message = {"id": "msg_up", "type": "message", "status": "in_progress", "content": []}
    call = {"id": "fc_up", "type": "function_call", "status": "in_progress", "arguments": ""}
    place = {"output_index": 0, "content_index": 0}
    writer, _ = pass_events(
        CREATED,
        event("output_item.added", 1, output_index=0, item=message),
        event("output_text.delta", 2, delta="par", **place),
        event("output_text.delta", 3, delta="tial", **place),
        event("output_text.delta", 4, delta=5, **place),
        event("output_item.added", 5, output_index=1, item=call),
        event("function_call_arguments.delta", 6, output_index=1, delta='{"a'),
        event("output_item.added", 7, item=5),
    )
    limit = ending("length", failure=failure("max_tokens_exceeded", 400))
    last = read(writer.write_ending(limit), done=True)[-1]
    assert last["type"] == "response.incomplete"
    text = {**TEXT, "text": "partial", "logprobs": []}
    assert last["response"]["output"] == [
        {**message, "status": "incomplete", "content": [text]},
        {**call, "status": "incomplete", "arguments": '{"a'},
    ]
