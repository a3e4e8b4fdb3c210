"""The events of a messages stream, in order and in shape (inference 4.7; rows 65 and 66)."""

from typing import Any

import pytest

from routing.formats.messages.thinking import SEAL_PREFIX
from routing.formats.messages.write import build_usage
from tests.routing.formats.messages.stream_reader import Read, events_of
from tests.routing.formats.messages.streams import USAGE, call, ending, stream, write_stream

URL = {"type": "url_citation", "url_citation": {"url": "http://u", "title": "T", "content": "c"}}
CITED = {
    "type": "web_search_result_location",
    "cited_text": "c",
    "url": "http://u",
    "title": "T",
    "encrypted_index": "",
}
NO_END = {"stop_reason": None, "stop_sequence": None, "stop_details": None, "container": None}


def kinds(data: bytes) -> list[str]:
    return [event["type"].removeprefix("content_block_") for event in events_of(data)]


def content(*deltas: dict[str, Any], **fields: Any) -> list[dict[str, Any]]:
    return Read(write_stream(*deltas, **fields)).content


def test_the_last_usage_tells_the_charge() -> None:
    usage = events_of(write_stream(end=ending(service_tier="default")))[-2]["usage"]
    assert usage == build_usage(USAGE, "default")
    assert (usage["cost"], usage["service_tier"]) == (USAGE["cost"], "standard")


def test_a_stream_without_anything_to_say_is_whole() -> None:
    assert kinds(write_stream()) == ["message_start", "ping", "message_delta", "message_stop"]
    start, *_ = events_of(stream().write_ending(ending()))
    assert start["message"].items() >= {**NO_END, "provider": "Acme", "content": []}.items()
    assert start["message"]["usage"]["input_tokens"] > 0
    nothing: dict[str, Any] = {"images": []}
    assert content({"content": ""}, {"role": "assistant", "content": None}, nothing) == []


def test_reasoning_that_the_caller_left_out_is_kept_and_not_told() -> None:
    thinking = {"type": "adaptive", "display": "omitted"}
    data = write_stream({"reasoning": "secret"}, {"content": "x"}, thinking=thinking)
    thought, text = Read(data).content
    assert b"secret" not in data
    assert (thought["thinking"], text["text"]) == ("", "x")
    assert thought["signature"].startswith(SEAL_PREFIX)


def test_a_settled_call_lets_the_next_one_go_on_at_once() -> None:
    writer = stream()
    writer.write_opening()
    writer.delta(call(0, '{"a":"}{"}', id="a", name="f"))
    for delta, events in (
        (call(1, "{", id="b", name="g"), ["stop", "start", "delta"]),
        (call(1, "}"), ["delta"]),
        ({"content": "x"}, ["stop", "start", "delta"]),
        ({"content": "y"}, ["delta"]),
    ):
        assert kinds(writer.delta(delta)) == events
    # Nothing but noise follows a whole object.
    assert writer.delta(call(0, " ")) == b""


def test_calls_of_upstreams_that_number_or_name_them_oddly() -> None:
    unnumbered = [
        {"function": {"name": "f", "arguments": "{}"}, "id": "a"},
        {"function": {"name": "g", "arguments": "{"}, "id": "b"},
        {"function": {"arguments": "}"}},
        5,
        {"function": None},
    ]
    assert Read(write_stream({"tool_calls": unnumbered})).arguments == ["{}", "{}"]
    alike = [call(0, "{}", id=name, name=name) for name in ("a", "b")]
    assert [block["id"] for block in content(*alike)] == ["a", "b"]
    late = [call(0, "{", id="a"), call(0, "", name="f"), call(0, "}", id="a", name="f")]
    [block] = content(*late)
    assert (block["id"], block["name"], block["input"]) == ("a", "f", {})
    [nameless] = content(call(0, '{"a":1}'))
    assert nameless["id"].startswith("toolu_")
    assert (nameless["name"], nameless["input"]) == ("", {"a": 1})


def test_citations_stand_at_the_text_they_belong_to() -> None:
    cited = ({"content": "x"}, {"annotations": [URL, {"type": "file"}, 5]}, {"content": "y"})
    assert content(*cited) == [{"type": "text", "text": "xy", "citations": [CITED]}]
    alone = [{"type": "text", "text": "", "citations": [CITED]}]
    assert content({"annotations": [URL]}) == alone


def test_a_refusal_is_a_text_that_says_so_at_the_end() -> None:
    read = Read(write_stream({"refusal": "I "}, {"refusal": "won't"}, end=ending("content_filter")))
    assert [block["text"] for block in read.content] == ["I won't"]
    assert read.message["stop_reason"] == "refusal"
    details = {"type": "refusal", "category": None, "explanation": None}
    assert read.message["stop_details"] == details


@pytest.mark.parametrize(
    ("finish", "native_finish", "sequence", "told"),
    [
        ("stop", "stop", None, ("end_turn", None)),
        ("stop", "stop_sequence", "END", ("stop_sequence", "END")),
        ("length", "length", None, ("max_tokens", None)),
        ("length", "model_context_window_exceeded", None, ("model_context_window_exceeded", None)),
        ("tool_calls", None, None, ("tool_use", None)),
        ("content_filter", None, None, ("refusal", None)),
    ],
)
def test_how_an_answer_ended(
    finish: str, native_finish: str | None, sequence: str | None, told: Any
) -> None:
    message = Read(write_stream(end=ending(finish, native_finish, stop_sequence=sequence))).message
    assert (message["stop_reason"], message["stop_sequence"]) == told


def test_an_error_ends_the_stream() -> None:
    writer = stream()
    metadata = {"error_type": "provider_unavailable"}
    error = {"code": 502, "message": "m", "metadata": metadata}
    told = {"type": "api_error", **error, **metadata}
    said = writer.write_opening() + writer.delta({"content": "x"})
    [event] = events_of(writer.error(error, router_metadata=None))
    assert event == {"type": "error", "error": told}
    routed = writer.error(error, router_metadata={"a": 1})
    assert Read(said + routed).error == told
    assert b"router_metadata" in routed
    assert b"router_metadata" not in writer.error({**error, "code": 500}, router_metadata={"a": 1})


def test_between_any_two_events_a_ping_may_stand() -> None:
    writer = stream()
    assert (
        Read(writer.write_opening() + writer.keep_alive + writer.write_ending(ending())).pings == 2
    )
    assert writer.debug({"model": "x"}) == b""
    writer.set_fingerprint("fp")
