"""Answers of upstreams that speak this format themselves: passed on, with the gateway's fields."""

from typing import Any

import pytest

from gateway.http.jsonio import dumps
from routing.exchange import Native
from tests.routing.formats.responses.answers import ending, plain, read, stream, whole

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
        {
            "id": "msg_up",
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "hello", "annotations": [], "zz": 1}],
        },
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
DONE_ITEM = event("output_item.done", 2, output_index=2, item=OWN["output"][2])
COMPLETED = event("completed", 3, response=OWN, zz=2)


def check_owned(answer: dict[str, Any]) -> None:
    assert answer["id"].startswith("resp_")
    assert answer["id"] != OWN["id"]
    assert answer["model"] == "acme/small"
    assert answer["store"] is False
    assert answer["previous_response_id"] is None
    assert answer["metadata"] == {"a": "b"}
    assert answer["user"] == "me"
    assert answer["safety_identifier"] is None
    assert answer["max_output_tokens"] is None
    assert answer["zz"] == {"kept": True}
    assert answer["temperature"] == 1.0
    assert answer["created_at"] == OWN["created_at"]


ASKED: dict[str, Any] = {"metadata": {"a": "b"}, "user": "me"}


def test_a_whole_answer_keeps_all_but_the_gateways_fields() -> None:
    end = ending(native=native(OWN), router_metadata={"attempt": 1})
    answer = whole({"content": "hello"}, end=end, **ASKED)
    check_owned(answer)
    assert answer["output"] == OWN["output"]
    assert answer["output_text"] == "hello"
    assert answer["service_tier"] == "default"
    assert answer["completed_at"] == OWN["completed_at"]
    assert answer["router_metadata"] == {"attempt": 1}
    usage = answer["usage"]
    assert (usage["input_tokens"], usage["output_tokens"]) == (5, 3)
    assert usage["cost"] == 0.0000012
    assert usage["input_tokens_details"] == {"cached_tokens": 1, "cache_write_tokens": 0, "zz": 1}
    assert usage["zz"] == 1


def test_a_whole_answer_that_broke_is_failed() -> None:
    failure = {"code": 502, "message": "x", "metadata": {"error_type": "provider_unavailable"}}
    for own in (OWN, {**OWN, "output": []}, {**OWN, "output": "odd"}):
        answer = whole({}, end=ending("error", native=native(own), failure=failure))
        assert (answer["status"], answer["error_type"]) == ("failed", "provider_unavailable")
    limit = {**failure, "metadata": {"error_type": "max_tokens_exceeded"}}
    answer = whole({}, end=ending("error", native=native(OWN), failure=limit))
    assert answer["status"] == "incomplete"


def test_odd_objects_do_no_harm() -> None:
    odd: list[dict[str, Any]] = [
        {},
        {"output": 5, "usage": 5},
        {"output": [5, {"type": "message"}, {"type": "message", "content": [5, {"text": 5}]}]},
        {"usage": {"input_tokens_details": None}},
    ]
    for own in odd:
        assert whole({}, end=ending(native=native(own)))["output_text"] == ""


def test_events_pass_verbatim_but_for_the_response_object() -> None:
    writer = stream(**ASKED)
    raw = b'{ "type":"response.output_text.delta","sequence_number":1, "delta":"\\u0061" }'
    delta = {"type": "response.output_text.delta", "sequence_number": 1, "delta": "a"}
    created = writer.passed(native(CREATED))
    passed = writer.passed(native(delta, raw))
    assert passed == b"event: response.output_text.delta\ndata: " + raw + b"\n\n"
    [told] = read(created)
    assert told["zz"] == 1
    check_owned(told["response"])
    assert told["response"]["status"] == "in_progress"


def test_the_terminal_event_waits_for_the_charge() -> None:
    writer = stream(**ASKED)
    said = b"".join(writer.passed(native(one)) for one in (CREATED, DELTA, DONE_ITEM))
    assert writer.passed(native(COMPLETED)) == b""
    assert writer.passed(native({"type": "error", "sequence_number": 4})) == b""
    said += writer.closing(ending(native=native(COMPLETED), router_metadata={"attempt": 1}))
    events = read(said, done=True)
    assert events[1] == DELTA
    assert (events[-1]["type"], events[-1]["zz"]) == ("response.completed", 2)
    check_owned(events[-1]["response"])
    assert events[-1]["response"]["usage"]["cost"] == 0.0000012
    assert events[-1]["response"]["router_metadata"] == {"attempt": 1}
    end = ending(native=native(OWN), router_metadata={"attempt": 1})
    assert events[-1]["response"] == whole({}, end=end, **ASKED)


def test_numbers_leave_no_gap_whatever_the_upstream_counted() -> None:
    writer = stream()
    said = writer.debug({"model": "m"})
    for one in (CREATED, DELTA, {**DELTA, "sequence_number": 17}, {"type": "response.new", "a": 1}):
        said += writer.passed(native(one))
    said += writer.closing(ending(native=native(COMPLETED)))
    events = read(said, done=True)
    assert [one["sequence_number"] for one in events] == list(range(6))
    assert events[4] == {"type": "response.new", "sequence_number": 4, "a": 1}


@pytest.mark.parametrize("gap", [b"\n", b"\r\n", b"\r"])
def test_a_payload_of_several_lines_stays_one_event(gap: bytes) -> None:
    raw = dumps(DELTA).replace(b",", b"," + gap)
    writer = stream()
    writer.passed(native(CREATED))
    assert b"\r" not in writer.passed(native(DELTA, raw))
    assert read(writer.passed(native({**DELTA, "sequence_number": 2}, raw))) == [
        {**DELTA, "sequence_number": 2}
    ]


@pytest.mark.parametrize("name", ["", "a\nevent: response.completed", "a\r\n"])
def test_what_is_no_event_is_left_out(name: str) -> None:
    assert stream().passed(native({"type": name, "sequence_number": 0})) == b""


@pytest.mark.parametrize("status", ["incomplete", "failed"])
def test_the_upstreams_own_end_stands(status: str) -> None:
    own = {**OWN, "status": status, "incomplete_details": {"reason": "max_output_tokens"}}
    writer = stream()
    writer.passed(native(CREATED))
    said = writer.closing(ending("length", native=native(own)))
    [last] = read(said, done=status == "incomplete")
    assert last["type"] == f"response.{status}"
    assert last["response"]["incomplete_details"] == own["incomplete_details"]


def test_a_failure_shows_the_items_that_were_done() -> None:
    writer = stream()
    for one in (CREATED, DELTA, DONE_ITEM):
        writer.passed(native(one))
    error = {"code": 502, "message": "x", "metadata": {"error_type": "timeout"}}
    [failed] = read(writer.error(error, router_metadata=None), done=False)
    assert failed["sequence_number"] == 3
    assert failed["response"]["output"] == [OWN["output"][2]]
    assert failed["response"]["output_text"] == "hello"


def test_a_failure_shows_what_came_of_items_that_were_not_done() -> None:
    message = {"id": "msg_up", "type": "message", "status": "in_progress", "content": []}
    call = {"id": "fc_up", "type": "function_call", "status": "in_progress", "arguments": ""}
    place = {"output_index": 0, "content_index": 0}
    events = [
        CREATED,
        event("output_item.added", 1, output_index=0, item=message),
        event("output_text.delta", 2, delta="par", **place),
        event("output_text.delta", 3, delta="tial", **place),
        event("output_text.delta", 4, delta=5, **place),
        event("output_item.added", 5, output_index=1, item=call),
        event("function_call_arguments.delta", 6, output_index=1, delta='{"a'),
        event("output_item.added", 7, item=5),
    ]
    writer = stream()
    for one in events:
        writer.passed(native(one))
    failure = {"code": 400, "message": "x", "metadata": {"error_type": "max_tokens_exceeded"}}
    last = read(writer.closing(ending("length", failure=failure)), done=True)[-1]
    assert last["type"] == "response.incomplete"
    text = {"type": "output_text", "text": "partial", "annotations": [], "logprobs": []}
    assert last["response"]["output"] == [
        {**message, "status": "incomplete", "content": [text]},
        {**call, "status": "incomplete", "arguments": '{"a'},
    ]


def test_a_stream_that_ends_without_its_last_word_is_told_from_its_items() -> None:
    writer = stream()
    for one in (CREATED, DELTA, DONE_ITEM):
        writer.passed(native(one))
    last = read(writer.closing(ending()), done=True)[-1]
    assert plain(last["response"]["output"]) == [OWN["output"][2]]
