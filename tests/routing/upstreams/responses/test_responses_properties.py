"""What holds for any conversation, any answer and any bytes."""

import json
from collections.abc import Sequence
from typing import Any

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from routing.exchange import Answer, Event
from routing.upstreams.failures import UpstreamFailure, from_error_object
from routing.upstreams.responses.reading import _TAKERS
from routing.upstreams.responses.wire import RESPONSES
from tests.routing.upstreams.responses.conversations import conversations
from tests.routing.upstreams.responses.facts import facts_of_items, facts_of_messages
from tests.routing.upstreams.responses.item_rules import check_body
from tests.routing.upstreams.responses.prompts import sent
from tests.routing.upstreams.responses.streams import (
    Telling,
    gathered,
    outputs,
    read,
    response,
    tellings,
    tokens,
)

MANY = settings(deadline=None, max_examples=300)

numbers = st.integers(min_value=-(2**63), max_value=2**64 - 1) | st.floats(
    allow_nan=False, allow_infinity=False
)
words = st.sampled_from(
    [
        *("message", "reasoning", "function_call", "output_text", "refusal", "completed", "failed"),
        *("incomplete", "image_generation_call", "custom_tool_call", "url_citation", ""),
    ]
)
names = st.sampled_from(
    [
        *("type", "id", "item_id", "call_id", "name", "arguments", "input", "delta", "text"),
        *("item", "part", "content", "summary", "output", "response", "status", "usage", "error"),
        *("output_index", "content_index", "summary_index", "annotation", "annotations", "url"),
        *("logprobs", "token", "logprob", "bytes", "top_logprobs", "encrypted_content", "result"),
        *("input_tokens", "input_tokens_details", "incomplete_details", "reason", "code"),
        *("message", "refusal", "signature", "format", "error_type", "service_tier", "\0"),
    ]
)
values = st.recursive(
    st.none() | st.booleans() | numbers | words | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=5),
    max_leaves=25,
)
bodies = st.dictionaries(names, values, max_size=6)
events = st.builds(
    lambda body, name: {**body, "type": name}, bodies, st.sampled_from(sorted(_TAKERS))
)
text_deltas = bodies.map(lambda body: {**body, "type": "response.output_text.delta"})


@MANY
@given(conversations)
def test_what_is_sent_keeps_to_the_format(messages: list[dict[str, Any]]) -> None:
    check_body(sent({"messages": messages}))


@MANY
@given(conversations)
def test_conversations_lose_nothing_but_what_the_list_says(messages: list[dict[str, Any]]) -> None:
    body = sent({"messages": messages})
    assert facts_of_items(body) == facts_of_messages(messages)


@MANY
@given(outputs, tellings)
def test_a_stream_says_what_the_whole_answer_says(
    output: list[dict[str, Any]], telling: Telling
) -> None:
    whole = RESPONSES.answer(orjson.dumps(response(output)), "application/json")
    streamed = read(telling.events(output))
    assert unordered(gathered(streamed)) == unordered(whole.message)
    assert tokens(streamed) == (whole.logprobs or {"content": []})["content"]
    assert streamed[-1].native_finish == whole.native_finish
    assert streamed[-1].usage == whole.usage


def unordered(message: dict[str, Any]) -> dict[str, Any]:
    """Without the order in which things are said that stand beside the text."""
    details = [
        {name: value for name, value in detail.items() if name != "index"}
        for detail in message.pop("reasoning_details", ())
    ]
    message["reasoning_details"] = sorted(details, key=lambda detail: str(detail["id"]))
    for name in ("images", "annotations"):
        message[name] = sorted(message.get(name, ()), key=repr)
    return message


@MANY
@given(st.lists(events | text_deltas | bodies, max_size=8))
def test_no_event_breaks_a_reader(told: list[dict[str, Any]]) -> None:
    read_or_refuse(told)


def read_or_refuse(told: Sequence[Any]) -> None:
    reader = RESPONSES.reader()
    for value in told:
        try:
            said = reader.events(orjson.dumps(value))
        except UpstreamFailure:
            return
        for event in said:
            check_shape(event)


@MANY
@given(st.lists(st.binary(max_size=30) | values.map(orjson.dumps), max_size=4))
def test_no_bytes_break_a_reader(payloads: list[bytes]) -> None:
    reader = RESPONSES.reader()
    for payload in payloads:
        try:
            reader.events(payload)
        except UpstreamFailure:
            return


@MANY
@given(bodies, values, st.binary(max_size=30))
def test_no_body_breaks_an_answer(body: dict[str, Any], output: Any, noise: bytes) -> None:
    for raw in (orjson.dumps(body | {"output": output}), orjson.dumps(body), noise):
        try:
            check_shape(RESPONSES.answer(raw, "application/json"))
        except UpstreamFailure:
            continue


@MANY
@given(outputs, tellings, st.data())
def test_a_wrong_value_anywhere_breaks_nothing(
    output: list[dict[str, Any]], telling: Telling, data: st.DataObject
) -> None:
    # A copy: what strategies give out is shared between examples.
    told = orjson.loads(orjson.dumps(list(telling.events(output))))
    broken = data.draw(st.sampled_from(told))
    place, name = data.draw(st.sampled_from(places(broken)))
    place[name] = data.draw(values)
    read_or_refuse(told)


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every place inside a value where another could stand."""
    keys: list[Any] = []
    if isinstance(value, dict):
        keys = list(value)
    elif isinstance(value, list):
        keys = list(range(len(value)))
    inner = [place for key in keys for place in places(value[key])]
    return [(value, key) for key in keys] + inner


def test_deep_nesting_breaks_nothing() -> None:
    deep = b"[" * 1000 + b"]" * 1000
    fields = (b"response", b"item", b"part", b"delta", b"error", b"annotation", b"code", b"x")
    for name in [*sorted(_TAKERS), "response.output_text.delta"]:
        for field in fields:
            places = b'"delta":"a","item_id":%b,"output_index":%b,"content_index":%b' % (
                (deep,) * 3
            )
            payload = b'{"type":"%b",%b,"%b":%b}' % (name.encode(), places, field, deep)
            read_or_refuse([orjson.Fragment(payload)] * 2)
    whole = b'{"output":[{"type":"message","content":%b}],"status":%b,"id":%b}' % (deep, deep, deep)
    check_shape(RESPONSES.answer(whole, ""))


def check_shape(said: Event | Answer) -> None:
    """The chat shape, which everything behind the adapter relies on."""
    delta = said.delta if isinstance(said, Event) else said.message
    for name in ("content", "refusal", "reasoning"):
        assert isinstance(delta.get(name), str | None)
    for call in delta.get("tool_calls", ()):
        assert isinstance(call["function"]["arguments"], str)
        assert isinstance(call["function"].get("name", ""), str)
        assert isinstance(call.get("id", ""), str)
    for name in ("reasoning_details", "images", "annotations"):
        assert all(isinstance(piece, dict) for piece in delta.get(name, ()))
    for text in (said.native_finish, said.upstream_id, said.service_tier):
        assert isinstance(text, str | None)
    json.dumps([delta, said.logprobs])
    if said.error is not None:
        assert isinstance(from_error_object(said.error), UpstreamFailure)
