"""One stream, from every wire into every format: bytes in, bytes out."""

from typing import Any

import orjson
import pytest
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletionChunk

from routing.formats.caller import AnswerIdentity, CallerFormat
from routing.formats.chat.format import CHAT
from routing.formats.messages.format import MESSAGES
from routing.formats.responses.format import RESPONSES
from routing.metering.cost import FREE, build_usage_report
from routing.metering.usage import Usage
from routing.serving.attempts.relay import Relay
from routing.upstreams.failures import UpstreamFailure
from routing.upstreams.wires import get_wire
from tests.routing.serving.streams import (
    EVENTS,
    chat_events,
    data_events,
    messages_events,
    named_events,
)

FORMATS = {each.name: each for each in (CHAT, MESSAGES, RESPONSES)}
MESSAGE = {"messages": [{"role": "user", "content": "Hi"}]}
BODIES: dict[str, Any] = {"chat": MESSAGE, "messages": MESSAGE, "responses": {"input": "Hi"}}
SERVED = AnswerIdentity("gen-1-aaaaaaaaaaaaaaaaaaaa", 1, "acme/small", "Acme")
REPORT = build_usage_report(Usage(3, 2), charged_nano=7, cost=FREE)
EVENT_BYTES_MAX = 65_536
EVERY_PAIR = pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind in EVENTS for name in FORMATS]
)


def relay_of(kind: str, name: str, *events: bytes) -> Relay:
    given: CallerFormat = FORMATS[name]
    body = {"model": "acme/small", **BODIES[name]}
    request = given.parse(body, session_header=None, models_max=3)
    relay = Relay(
        given.writer(SERVED, request),
        get_wire(kind).reader(),
        passes=given.wire == kind != "openai",
        exclude_reasoning=False,
        event_bytes_max=EVENT_BYTES_MAX,
    )
    if events:
        relay.feed_bytes(b"".join(events))
    return relay


def read_events(written: bytes) -> list[dict[str, Any]]:
    """The events of a stream."""
    lines = [line[6:] for line in written.split(b"\n") if line.startswith(b"data: {")]
    return [orjson.loads(line) for line in lines]


def text_in(written: bytes) -> str:
    """The text of a stream in whichever format."""
    return "".join(map(_text_of, read_events(written)))


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
    relay, sent = relay_of(kind, name), b"".join(EVENTS[kind]("Simulated", " 🦊", " words"))
    pieces = [sent[at : at + piece_bytes] for at in range(0, len(sent), piece_bytes)]
    out = b"".join(map(relay.feed_bytes, pieces))
    assert relay.ended
    assert text_in(out + relay.write_closing(REPORT, None)) == "Simulated 🦊 words"
    assert (relay.finish_reason, relay.produced_chars) == ("stop", len("Simulated 🦊 words"))
    assert (relay.usage["prompt_tokens"], relay.usage["completion_tokens"]) == (3, 2)


@EVERY_PAIR
def test_nothing_is_written_before_the_first_content_and_what_breaks_off_is_a_failure(
    kind: str, name: str
) -> None:
    relay, events = relay_of(kind, name), EVENTS[kind]("Now")
    first = next(n for n, event in enumerate(events) if b'"Now"' in event)

    assert relay.feed_bytes(b"".join(events[:first])) == b""
    assert (relay.seen, relay.started) == (True, False)
    assert text_in(relay.feed_bytes(events[first])) == "Now"
    assert relay.started
    with pytest.raises(UpstreamFailure) as broken:
        relay.feed_bytes(b"")
    assert broken.value.outage


@EVERY_PAIR
def test_an_answer_without_content_has_an_opening_and_an_end(kind: str, name: str) -> None:
    relay = relay_of(kind, name)
    assert relay.feed_bytes(b"".join(EVENTS[kind]())) == b""
    assert b"acme/small" in relay.write_closing(REPORT, None)


@EVERY_PAIR
def test_an_event_over_the_cap_is_a_failure(kind: str, name: str) -> None:
    with pytest.raises(UpstreamFailure):
        relay_of(kind, name, b"data: " + b"x" * (EVENT_BYTES_MAX + 1))


def test_the_official_helper_can_add_up_what_comes_more_than_once() -> None:
    """The role and the finish are told once; elements of lists have their place."""
    urls = [f"https://a.test/{n}" for n in range(3)]
    cited = [{"type": "url_citation", "url_citation": {"url": url}} for url in urls]
    details = [{"type": "reasoning.summary", "summary": text} for text in "ab"]
    deltas: list[dict[str, Any]] = [
        *({"reasoning_details": [each]} for each in details),
        {"content": "Hi"},
        {"content": "!", "annotations": cited[:2]},
        {"annotations": cited[2:]},
    ]
    chunks: list[Any] = [{"delta": {"role": "assistant", **delta}} for delta in deltas]
    chunks.append({"delta": {"role": "assistant"}, "finish_reason": "stop"})
    relay, state = relay_of("openai", "chat"), ChatCompletionStreamState()

    out = relay.feed_bytes(b"".join(data_events(*({"choices": [chunk]} for chunk in chunks))))
    heard = read_events(
        out + relay.feed_bytes(b"data: [DONE]\n\n") + relay.write_closing(REPORT, None)
    )

    for chunk in heard:
        state.handle_chunk(ChatCompletionChunk.model_validate(chunk))
    message: Any = state.get_final_completion().choices[0].message.model_dump()
    assert (message["role"], message["content"]) == ("assistant", "Hi!")
    assert [each["url_citation"]["url"] for each in message["annotations"]] == urls
    assert [each["summary"] for each in message["reasoning_details"]] == ["a", "b"]
    finishes = [chunk["choices"][0]["finish_reason"] for chunk in heard]
    assert [finish for finish in finishes if finish is not None] == ["stop"]
    assert finishes[-2] == "stop"


def test_what_passes_is_word_for_word_what_the_upstream_said() -> None:
    relay, events = relay_of("anthropic", "messages"), messages_events("Said")
    begun, *passed = relay.feed_bytes(b"".join(events)).split(b"\n\n")[:-1]
    assert b'"odd":1' in begun
    assert b'"model":"acme/small"' in begun
    assert [event for event in events if event.removesuffix(b"\n\n") in passed] == events[1:5]


def test_the_upstreams_own_end_comes_with_the_charge() -> None:
    relay = relay_of("anthropic", "messages", *messages_events("Said"))
    end, stop = read_events(relay.write_closing(REPORT, {"attempt": 1}))
    assert (end["delta"]["stop_reason"], end["delta"]["stop_sequence"]) == ("stop_sequence", "END")
    assert end["usage"]["cost"] == 7e-9
    assert stop["router_metadata"] == {"attempt": 1}


def test_what_a_provider_says_beside_a_stream_is_told_at_its_end() -> None:
    begin, *others, last, done = chat_events("Said")
    first = {"choices": [{"delta": {}}], "x_groq": {"id": "r", "seed": 1}, "own": "first"}
    late = orjson.loads(last[6:]) | {"x_groq": {"id": "r", "usage": {}}, "own": "last"}
    relay = relay_of(
        "openai", "chat", *data_events(first), begin, *others, *data_events(late), done
    )
    end = read_events(relay.write_closing(REPORT, None))[-1]
    assert (end["x_groq"], end["own"]) == ({"id": "r", "seed": 1, "usage": {}}, "last")


@pytest.mark.parametrize("filler", [b"event: odd\ndata: {}\n\n", None])
def test_openings_without_end_are_bounded(filler: bytes | None) -> None:
    relay = relay_of("anthropic", "messages")
    filler = filler or named_events({"type": "odd", "more": "x" * (EVENT_BYTES_MAX // 10)})[0]
    for _ in range(200):
        relay.feed_bytes(filler)
        assert len(relay._held) < 110
    assert relay.started


def test_tool_arguments_arrive_byte_for_byte() -> None:
    fragments = ['{"city": "O', "sl", 'o",  "n":1.0}']
    head: dict[str, Any] = {
        "id": "call_1",
        "type": "function",
        "function": {"name": "f", "arguments": ""},
    }
    calls = [head, *({"function": {"arguments": each}} for each in fragments)]
    deltas = [{"delta": {"tool_calls": [{"index": 0, **call}]}} for call in calls]
    sent = data_events(*({"choices": [delta]} for delta in deltas))
    out = read_events(relay_of("openai", "messages").feed_bytes(b"".join(sent)))
    pieces = [value["delta"] for value in out if value["type"] == "content_block_delta"]
    assert [piece["partial_json"] for piece in pieces] == fragments


@pytest.mark.parametrize("name", FORMATS)
def test_a_limit_met_half_way_ends_an_answer_where_the_format_says_so(name: str) -> None:
    relay, word = relay_of("openai", name, *chat_events("Said")[:2]), "context_length_exceeded"
    failure = {"code": 400, "message": "Too long", "metadata": {"error_type": word}}
    finishes = word in FORMATS[name].finishing_errors
    assert finishes is (name == "responses")
    if finishes:
        closing = relay.write_closing(REPORT, None, failure=failure)
        assert b'"status":"incomplete"' in closing
        assert closing.endswith(b"data: [DONE]\n\n")
