"""What holds for the readers of both formats that are not chat's: any answer, any broken bytes."""

import contextlib
import json
from collections.abc import Sequence
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.entities.exchange import Answer, Event, Wire
from routing.metering.usage import read_reported_usage
from routing.upstreams.anthropic.wire import ANTHROPIC
from routing.upstreams.failures import UpstreamFailure, from_error_object
from routing.upstreams.responses.wire import _TAKERS, RESPONSES
from tests.routing.upstreams.streams import (
    Telling,
    added_up,
    messages_stream,
    read,
    response,
    thoughts,
    tokens,
)

texts = st.text(max_size=12)
spoken = st.text(min_size=1, max_size=12)


def one(kind: str, **fields: Any) -> st.SearchStrategy[Any]:
    """A thing of a type, with these fields; those that are no strategies are constants."""
    made = {
        name: v if isinstance(v, st.SearchStrategy) else st.just(v) for name, v in fields.items()
    }
    return st.fixed_dictionaries({"type": st.just(kind), **made})


def some(inner: st.SearchStrategy[Any], most: int = 2) -> st.SearchStrategy[list[Any]]:
    return st.lists(inner, max_size=most)


# Of the messages API.
citations = st.fixed_dictionaries(
    {"type": st.just("web_search_result_location"), "cited_text": texts},
    optional={"url": st.sampled_from(["https://a", "https://b"]), "title": st.none() | texts},
)
inputs = st.dictionaries(texts, st.integers(-(2**63), 2**63) | texts | st.none(), max_size=3)
blocks = st.one_of(
    one("text", text=texts, citations=st.none() | some(citations)),
    one("thinking", thinking=texts, signature=spoken),
    one("redacted_thinking", data=texts),
    one("tool_use", id=spoken, name=texts, input=inputs),
    one("server_tool_use", id=texts, input=inputs),
)
counts = st.integers(0, 9999)
usages = st.fixed_dictionaries(
    {"input_tokens": counts, "output_tokens": counts},
    optional={"cache_read_input_tokens": counts, "cache_creation_input_tokens": counts},
)
answers = one(
    "message",
    id=texts,
    content=some(blocks, 5),
    stop_reason=st.sampled_from(["end_turn", "tool_use", "stop_sequence", "pause_turn"]),
    stop_sequence=st.none() | texts,
    usage=usages,
)

# Of the responses API.
logprobs = st.floats(-9, 0).map(lambda p: {"token": "t", "logprob": p, "top_logprobs": []})
notes = st.sampled_from(
    [
        {"type": "url_citation", "url": "u", "title": "t", "start_index": 0, "end_index": 2},
        {"type": "file_citation", "file_id": "f", "filename": "n", "index": 0},
    ]
)
parts = st.one_of(
    one("output_text", text=spoken, annotations=some(notes), logprobs=some(logprobs)),
    one("output_text", text="", annotations=[], logprobs=[]),
    one("refusal", refusal=texts),
)
items = st.one_of(
    one("message", role="assistant", content=some(parts, 3)),
    one(
        "reasoning",
        summary=some(one("summary_text", text=spoken)),
        content=some(one("reasoning_text", text=spoken)),
        encrypted_content=st.none() | spoken,
    ),
    one("function_call", name=spoken, arguments=texts),
    one("image_generation_call", result="AA", output_format=st.sampled_from(["png", "webp"])),
    one("web_search_call", status="completed"),
)
outputs = some(items, 5).map(
    lambda made: [{**item, "id": f"i{n}", "call_id": f"c{n}"} for n, item in enumerate(made)]
)
tellings = st.builds(Telling, st.booleans(), st.booleans(), st.booleans(), st.integers(1, 5))
# An adapter, a whole answer and the events that say the same.
told = st.one_of(
    st.builds(
        lambda a, chars: (ANTHROPIC, a, messages_stream(a, chars)), answers, st.integers(1, 5)
    ),
    st.builds(lambda o, how: (RESPONSES, response(o), [*how.events(o)]), outputs, tellings),
)


@given(told)
def test_a_stream_adds_up_to_the_whole_answer(said: tuple[Wire, Any, list[Any]]) -> None:
    wire, answer, events = said
    whole = wire.answer(orjson.dumps(answer), "application/json")
    streamed = read(wire, events)
    assert comparable(added_up(streamed)) == comparable(whole.message)
    assert tokens(streamed) == (whole.logprobs or {"content": []})["content"]
    last = next(event for event in reversed(streamed) if event.native_finish)
    assert last.native_finish == whole.native_finish
    assert (last.stop_sequence, last.usage) == (whole.stop_sequence, whole.usage)


def comparable(message: dict[str, Any]) -> dict[str, Any]:
    """Without the order of what stands beside the text; no content and an empty one are alike."""
    beside = {name: sorted(message.get(name, ()), key=repr) for name in ("images", "annotations")}
    said = {"content": message["content"] or "", "reasoning_details": thoughts(message)}
    return {**message, **beside, **said}


values = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2**64 - 1) | st.floats(allow_nan=False) | texts,
    lambda inner: (
        some(inner, 3)
        | st.dictionaries(
            st.sampled_from(["type", "text", "id", "url", "token"]), inner, max_size=3
        )
    ),
    max_leaves=6,
)


@given(told, st.data())
def test_wrong_values_anywhere_break_nothing(
    said: tuple[Wire, Any, list[Any]], data: st.DataObject
) -> None:
    # Copies: what strategies give out is shared between examples.
    wire = said[0]
    answer, events = orjson.loads(orjson.dumps(said[1:]))
    for value in (answer, data.draw(st.sampled_from(events))):
        for _ in range(data.draw(st.integers(1, 3))):
            place, name = data.draw(st.sampled_from(places(value)))
            place[name] = data.draw(values)
    read_or_refuse(wire, events)
    with contextlib.suppress(UpstreamFailure):
        check_shape(wire.answer(orjson.dumps(answer), "application/json"))


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every place inside a value where another could stand."""
    keys: list[Any] = []
    if isinstance(value, dict | list):
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    inner = [place for key in keys for place in places(value[key])]
    return [(value, key) for key in keys] + inner


def read_or_refuse(wire: Wire, told: Sequence[Any]) -> None:
    reader = wire.reader()
    for value in told:
        try:
            events = reader.events(orjson.dumps(value))
        except UpstreamFailure:
            continue
        for event in events:
            check_shape(event)


def check_shape(said: Event | Answer) -> None:
    """The chat shape, which everything behind the adapter relies on."""
    delta = said.delta if isinstance(said, Event) else said.message
    for name in ("content", "refusal", "reasoning"):
        assert isinstance(delta.get(name), str | None)
    for call in delta.get("tool_calls", ()):
        assert isinstance(call.get("index", 0), int)
        assert isinstance(call["function"]["arguments"], str)
        assert isinstance(call["function"].get("name", ""), str)
        assert isinstance(call.get("id"), str | None)
    for name in ("reasoning_details", "images", "annotations"):
        assert all(isinstance(piece, dict) for piece in delta.get(name, ()))
    for word in (said.native_finish, said.upstream_id, said.service_tier, said.stop_sequence):
        assert isinstance(word, str | None)
    json.dumps([delta, said.logprobs])
    read_reported_usage(said.usage, context_length=None)
    if said.error is not None:
        assert from_error_object(said.error).status >= 400


@pytest.mark.parametrize("wire", [ANTHROPIC, RESPONSES], ids=["messages", "responses"])
@given(st.binary(max_size=40) | values.map(orjson.dumps), st.text(max_size=10))
def test_bytes_of_any_kind_are_an_answer_or_a_failure(
    wire: Wire, payload: bytes, content_type: str
) -> None:
    with contextlib.suppress(UpstreamFailure):
        wire.answer(payload, content_type)
    with contextlib.suppress(UpstreamFailure):
        wire.reader().events(payload)


JSON = "application/json"
DEEP = b"[" * 200 + b"]" * 200


@pytest.mark.parametrize(
    ("wire", "body", "content_type"),
    [
        *((wire, each, JSON) for wire in (ANTHROPIC, RESPONSES) for each in (b"", b"{", b"[]")),
        *((wire, each, JSON) for wire in (ANTHROPIC, RESPONSES) for each in (b"{}", b"\xff")),
        (ANTHROPIC, b'{"content": "text"}', JSON),
        (ANTHROPIC, b'{"type": "error"}', JSON),
        (ANTHROPIC, b'{"content": []}', "text/html"),
        (ANTHROPIC, b'{"content": %b}' % DEEP, JSON),
        (RESPONSES, b'{"output": {}}', JSON),
        (RESPONSES, b'{"output": []}', "text/event-stream"),
    ],
)
def test_what_is_no_answer(wire: Wire, body: bytes, content_type: str) -> None:
    with pytest.raises(UpstreamFailure) as caught:
        wire.answer(body, content_type)
    assert (caught.value.status, caught.value.error_type) == (502, "provider_unavailable")


NO_EVENT = [b"", b"{", b"[]", b"5", b"null", b"\xff", b'{"a": NaN}']


@pytest.mark.parametrize(
    ("wire", "payload"),
    [
        *((wire, payload) for wire in (ANTHROPIC, RESPONSES) for payload in NO_EVENT),
        (ANTHROPIC, b'{"type":"ping","x":%b}' % DEEP),
    ],
)
def test_what_is_no_event(wire: Wire, payload: bytes) -> None:
    with pytest.raises(UpstreamFailure):
        wire.reader().events(payload)


START = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
PIECE = {"type": "response.output_text.delta", "delta": "a"}


@pytest.mark.parametrize(
    ("wire", "opening", "end"),
    [
        (ANTHROPIC, START, b"[DONE]"),
        (ANTHROPIC, START, b'{"type":"message_stop"}'),
        (RESPONSES, PIECE, b"[DONE]"),
    ],
)
def test_an_end_ends_what_has_begun(wire: Wire, opening: Any, end: bytes) -> None:
    reader = wire.reader()
    with pytest.raises(UpstreamFailure):
        reader.events(end)
    assert not reader.ended
    reader.events(orjson.dumps(opening))
    reader.events(end)
    assert reader.ended


def test_deep_nesting_breaks_no_reader_of_responses() -> None:
    deep = b"[" * 1000 + b"]" * 1000
    at = b'"delta":"a","item_id":%b,"output_index":%b,"content_index":%b' % (deep, deep, deep)
    for kind in [*sorted(_TAKERS), "response.output_text.delta"]:
        for name in ("response", "item", "part", "delta", "error", "annotation", "code", "x"):
            payload = b'{"type":"%b",%b,"%b":%b}' % (kind.encode(), at, name.encode(), deep)
            read_or_refuse(RESPONSES, [orjson.Fragment(payload)])
    whole = b'{"output":[{"type":"message","content":%b}],"status":%b,"id":%b}' % (deep, deep, deep)
    check_shape(RESPONSES.answer(whole, ""))
