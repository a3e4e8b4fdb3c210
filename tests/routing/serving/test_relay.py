"""One stream, from every wire into every format: bytes in, bytes out."""

from typing import Any

import orjson
import pytest
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletionChunk

from routing.formats.caller import CallerFormat
from routing.formats.chat.answer import Served
from routing.formats.chat.format import CHAT
from routing.formats.messages.format import MESSAGES
from routing.formats.responses.format import RESPONSES
from routing.metering.cost import FREE
from routing.metering.report import usage_report
from routing.metering.usage import Usage
from routing.serving.relay import Relay
from routing.upstreams.failures import UpstreamFailure
from routing.upstreams.wires import wire_of

FORMATS = {each.name: each for each in (CHAT, MESSAGES, RESPONSES)}
BODIES: dict[str, dict[str, Any]] = {
    "chat": {"messages": [{"role": "user", "content": "Hi"}]},
    "messages": {"messages": [{"role": "user", "content": "Hi"}]},
    "responses": {"input": "Hi"},
}
SERVED = Served("gen-1-aaaaaaaaaaaaaaaaaaaa", 1, "acme/small", "Acme")
REPORT = usage_report(Usage(3, 2), charged_nano=7, cost=FREE)
EVENT_BYTES_MAX = 65_536
EVERY_PAIR = pytest.mark.parametrize(
    ("kind", "name"),
    [(kind, name) for kind in ("openai", "anthropic", "responses") for name in FORMATS],
)


def named(*values: dict[str, Any]) -> list[bytes]:
    return [
        b"event: " + value["type"].encode() + b"\ndata: " + orjson.dumps(value) + b"\n\n"
        for value in values
    ]


def chat_events(*texts: str) -> list[bytes]:
    chunks: list[dict[str, Any]] = [{"choices": [{"delta": {"content": t}}]} for t in texts]
    chunks = [{"choices": [{"delta": {"role": "assistant"}}]}, *chunks]
    chunks.append({"choices": [{"delta": {}, "finish_reason": "stop"}]})
    chunks.append({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}})
    return [b"data: " + orjson.dumps(each) + b"\n\n" for each in chunks] + [b"data: [DONE]\n\n"]


def messages_events(*texts: str) -> list[bytes]:
    message = {"id": "msg_1", "content": [], "usage": {"input_tokens": 3, "output_tokens": 1}}
    delta = "content_block_delta"
    return named(
        {"type": "message_start", "message": message, "odd": 1},
        {"type": "ping"},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *({"type": delta, "index": 0, "delta": {"type": "text_delta", "text": t}} for t in texts),
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "stop_sequence", "stop_sequence": "END"},
            "usage": {"output_tokens": 2},
        },
        {"type": "message_stop"},
    )


def responses_events(*texts: str) -> list[bytes]:
    text = "".join(texts)
    part = {"type": "output_text", "text": text, "annotations": []}
    item = {"id": "msg_1", "type": "message", "role": "assistant", "content": [part]}
    begun = {"id": "resp_1", "object": "response", "status": "in_progress", "output": []}
    usage = {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}
    ended = {**begun, "status": "completed", "output": [item], "usage": usage}
    place = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    delta = "response.output_text.delta"
    values: list[dict[str, Any]] = [
        {"type": "response.created", "response": begun},
        {"type": "response.output_item.added", "output_index": 0, "item": {**item, "content": []}},
        {"type": "response.content_part.added", **place, "part": {**part, "text": ""}},
        *({"type": delta, **place, "delta": each} for each in texts),
        {"type": "response.output_text.done", **place, "text": text},
        {"type": "response.content_part.done", **place, "part": part},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": ended},
    ]
    return named(*({**value, "sequence_number": n} for n, value in enumerate(values)))


SAID = {"openai": chat_events, "anthropic": messages_events, "responses": responses_events}


def relay_of(kind: str, name: str) -> Relay:
    given: CallerFormat = FORMATS[name]
    body = {"model": "acme/small", **BODIES[name]}
    request = given.parse(body, session_header=None, models_max=3)
    return Relay(
        given.writer(SERVED, request),
        wire_of(kind).reader(),
        passes=given.wire == kind != "openai",
        exclude_reasoning=False,
        event_bytes_max=EVENT_BYTES_MAX,
    )


def text_in(written: bytes) -> str:
    """The text of a stream in whichever format."""
    lines = [line[6:] for line in written.split(b"\n") if line.startswith(b"data: {")]
    values = [orjson.loads(line) for line in lines]
    return "".join(map(_text_of, values))


def _text_of(value: dict[str, Any]) -> str:
    if "choices" in value:
        return "".join(choice["delta"].get("content", "") for choice in value["choices"])
    if value["type"] == "response.output_text.delta":
        return str(value["delta"])
    delta = value.get("delta", {})
    return str(delta.get("text", "")) if isinstance(delta, dict) else ""


@EVERY_PAIR
@pytest.mark.parametrize("piece_bytes", [1, 7, 10_000])
def test_every_wire_is_told_in_every_format(kind: str, name: str, piece_bytes: int) -> None:
    relay, sent = relay_of(kind, name), b"".join(SAID[kind]("Simulated", " 🦊", " words"))

    out = b"".join(
        relay.feed(sent[at : at + piece_bytes]) for at in range(0, len(sent), piece_bytes)
    )

    assert relay.ended
    assert text_in(out + relay.closing(REPORT, None)) == "Simulated 🦊 words"
    assert relay.finish_reason == "stop"
    assert relay.produced_chars == len("Simulated 🦊 words")
    assert (relay.usage["prompt_tokens"], relay.usage["completion_tokens"]) == (3, 2)


def test_the_official_helper_can_add_up_what_comes_more_than_once() -> None:
    """The role and the finish are told once; elements of lists have their place."""
    cited: list[dict[str, Any]] = [
        {"type": "url_citation", "url_citation": {"url": f"https://a.test/{n}"}} for n in range(3)
    ]
    details = [{"type": "reasoning.summary", "summary": text} for text in "ab"]
    deltas: list[dict[str, Any]] = [
        *({"reasoning_details": [each]} for each in details),
        {"content": "Hi"},
        {"content": "!", "annotations": cited[:2]},
        {"annotations": cited[2:]},
    ]
    relay, state = relay_of("openai", "chat"), ChatCompletionStreamState()
    chunks: list[dict[str, Any]] = [
        {"choices": [{"delta": {"role": "assistant", **delta}}]} for delta in deltas
    ]
    chunks.append({"choices": [{"delta": {"role": "assistant"}, "finish_reason": "stop"}]})
    said = [b"data: " + orjson.dumps(each) + b"\n\n" for each in chunks] + [b"data: [DONE]\n\n"]

    out = relay.feed(b"".join(said)) + relay.closing(REPORT, None)

    told = [orjson.loads(line[6:]) for line in out.split(b"\n\n") if line[:7] == b"data: {"]
    for chunk in told:
        state.handle_chunk(ChatCompletionChunk.model_validate(chunk))
    message = state.get_final_completion().choices[0].message
    assert (message.role, message.content) == ("assistant", "Hi!")
    heard: Any = message.model_dump()
    assert [each["url_citation"]["url"] for each in heard["annotations"]] == [
        each["url_citation"]["url"] for each in cited
    ]
    assert [each["summary"] for each in heard["reasoning_details"]] == ["a", "b"]
    finishes = [chunk["choices"][0]["finish_reason"] for chunk in told]
    assert [finish for finish in finishes if finish is not None] == ["stop"]
    assert finishes[-2] == "stop"


@EVERY_PAIR
def test_nothing_is_written_before_the_first_content(kind: str, name: str) -> None:
    relay, events = relay_of(kind, name), SAID[kind]("Now")
    first = next(n for n, event in enumerate(events) if b'"Now"' in event)

    assert relay.feed(b"".join(events[:first])) == b""
    assert (relay.seen, relay.started) == (True, False)
    assert text_in(relay.feed(events[first])) == "Now"
    assert relay.started


@EVERY_PAIR
def test_an_answer_without_content_has_an_opening_and_an_end(kind: str, name: str) -> None:
    relay = relay_of(kind, name)

    out = relay.feed(b"".join(SAID[kind]()))
    closing = relay.closing(REPORT, None)

    assert out == b""
    assert closing
    assert b"acme/small" in closing


@EVERY_PAIR
def test_a_stream_that_breaks_off_is_a_failure(kind: str, name: str) -> None:
    relay, events = relay_of(kind, name), SAID[kind]("Said")
    first = next(n for n, event in enumerate(events) if b'"Said"' in event)
    out = relay.feed(b"".join(events[: first + 1]))

    with pytest.raises(UpstreamFailure) as broken:
        relay.feed(b"")

    assert text_in(out) == "Said"
    assert broken.value.outage


@EVERY_PAIR
def test_an_event_over_the_cap_is_a_failure(kind: str, name: str) -> None:
    relay = relay_of(kind, name)

    with pytest.raises(UpstreamFailure):
        relay.feed(b"data: " + b"x" * (EVENT_BYTES_MAX + 1))


def test_what_passes_is_word_for_word_what_the_upstream_said() -> None:
    relay, events = relay_of("anthropic", "messages"), messages_events("Said")

    out = relay.feed(b"".join(events))

    begun, *passed = out.split(b"\n\n")[:-1]
    assert b'"odd":1' in begun
    assert b'"model":"acme/small"' in begun
    assert [event for event in events if event.removesuffix(b"\n\n") in passed] == events[1:5]


def test_the_upstreams_own_end_comes_with_the_charge() -> None:
    relay = relay_of("anthropic", "messages")
    relay.feed(b"".join(messages_events("Said")))

    closing = relay.closing(REPORT, {"attempt": 1})

    delta, stop = (orjson.loads(line[6:]) for line in closing.split(b"\n") if line[:5] == b"data:")
    assert (delta["delta"]["stop_reason"], delta["delta"]["stop_sequence"]) == (
        "stop_sequence",
        "END",
    )
    assert delta["usage"]["cost"] == 7e-9
    assert stop["router_metadata"] == {"attempt": 1}


def test_what_a_provider_says_beside_a_stream_is_told_at_its_end() -> None:
    begin, *others, last, done = chat_events("Said")
    first = {"choices": [{"delta": {}}], "x_groq": {"id": "r", "seed": 1}, "own": "first"}
    last = orjson.loads(last[6:]) | {"x_groq": {"id": "r", "usage": {}}, "own": "last"}
    relay = relay_of("openai", "chat")
    said = [b"data: " + orjson.dumps(each) + b"\n\n" for each in (first, last)]

    relay.feed(b"".join([said[0], begin, *others, said[1], done]))

    told = orjson.loads(relay.closing(REPORT, None).split(b"\n\n")[-3][6:])
    assert (told["x_groq"], told["own"]) == ({"id": "r", "seed": 1, "usage": {}}, "last")


def test_a_stop_sequence_is_told_in_the_format_that_has_a_place_for_it() -> None:
    relay = relay_of("anthropic", "chat")
    relay.feed(b"".join(messages_events("Said")))

    assert b'"native_finish_reason":"stop_sequence"' in relay.closing(REPORT, None)


@pytest.mark.parametrize("filler", [b"event: odd\ndata: {}\n\n", None])
def test_openings_without_end_are_bounded(filler: bytes | None) -> None:
    relay = relay_of("anthropic", "messages")
    filler = filler or named({"type": "odd", "more": "x" * (EVENT_BYTES_MAX // 10)})[0]

    for _ in range(200):
        relay.feed(filler)
        assert len(relay._held) < 110

    assert relay.started


def test_tool_arguments_arrive_byte_for_byte() -> None:
    fragments = ['{"city": "O', "sl", 'o",  "n":1.0}']
    calls: list[dict[str, Any]] = [
        {"index": 0, "id": "call_1", "type": "function", "function": {"name": "f", "arguments": ""}}
    ]
    calls += [{"index": 0, "function": {"arguments": each}} for each in fragments]
    chunks = [{"choices": [{"delta": {"tool_calls": [call]}}]} for call in calls]
    sent = b"".join(b"data: " + orjson.dumps(each) + b"\n\n" for each in chunks)

    out = relay_of("openai", "messages").feed(sent)

    values = [orjson.loads(line[6:]) for line in out.split(b"\n") if line.startswith(b"data: ")]
    pieces = [value["delta"] for value in values if value["type"] == "content_block_delta"]
    assert [piece["partial_json"] for piece in pieces] == fragments


@pytest.mark.parametrize("name", FORMATS)
def test_a_limit_met_half_way_ends_an_answer_where_the_format_says_so(name: str) -> None:
    relay = relay_of("openai", name)
    relay.feed(b"".join(chat_events("Said")[:2]))
    failure = {
        "code": 400,
        "message": "Too long",
        "metadata": {"error_type": "context_length_exceeded"},
    }

    finishes = "context_length_exceeded" in FORMATS[name].finishing_errors

    assert finishes is (name == "responses")
    if finishes:
        closing = relay.closing(REPORT, None, failure=failure)
        assert b'"status":"incomplete"' in closing
        assert closing.endswith(b"data: [DONE]\n\n")
