"""What holds for every answer of an upstream of the messages API, and for what is none."""

import contextlib
from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from routing.exchange import Event
from routing.metering.usage import believable
from routing.upstreams.anthropic.wire import ANTHROPIC
from routing.upstreams.failures import UpstreamFailure, from_error_object
from tests.routing.upstreams.anthropic.streams import added_up, joined, read, stream_of

texts = st.text(max_size=12)
citations = st.fixed_dictionaries(
    {"type": st.just("web_search_result_location"), "cited_text": texts},
    optional={"url": st.sampled_from(["https://a", "https://b"]), "title": st.none() | texts},
)
inputs = st.dictionaries(texts, st.integers(-(2**63), 2**63) | texts | st.none(), max_size=3)
blocks = st.one_of(
    st.fixed_dictionaries(
        {"type": st.just("text"), "text": texts, "citations": st.none() | st.lists(citations)}
    ),
    st.fixed_dictionaries(
        {"type": st.just("thinking"), "thinking": texts, "signature": st.text(min_size=1)}
    ),
    st.fixed_dictionaries({"type": st.just("redacted_thinking"), "data": texts}),
    st.fixed_dictionaries(
        {"type": st.just("tool_use"), "id": texts, "name": texts, "input": inputs}
    ),
    st.fixed_dictionaries({"type": st.just("server_tool_use"), "id": texts, "input": inputs}),
)
counts = st.integers(0, 9999)
answers = st.fixed_dictionaries(
    {
        "type": st.just("message"),
        "id": texts,
        "content": st.lists(blocks, max_size=5),
        "stop_reason": st.sampled_from(["end_turn", "tool_use", "stop_sequence", "pause_turn"]),
        "stop_sequence": st.none() | texts,
        "usage": st.fixed_dictionaries(
            {"input_tokens": counts, "output_tokens": counts},
            optional={"cache_read_input_tokens": counts, "cache_creation_input_tokens": counts},
        ),
    }
)


@given(answers, st.integers(1, 5))
def test_a_stream_adds_up_to_the_whole_answer(answer: dict[str, Any], chars: int) -> None:
    whole = ANTHROPIC.answer(orjson.dumps(answer), "application/json")
    events = read(stream_of(answer, chars))
    streamed = added_up(events)
    details = joined(whole.message.get("reasoning_details", []))
    assert streamed.pop("reasoning_details", []) == details
    assert (streamed.pop("content") or "") == (whole.message["content"] or "")
    kept = {
        name: value
        for name, value in whole.message.items()
        if name not in ("content", "reasoning_details")
    }
    assert streamed == kept
    last = events[-2]
    assert (last.native_finish, last.stop_sequence) == (whole.native_finish, whole.stop_sequence)
    assert last.usage == whole.usage


# What the readers look at, so that arbitrary JSON gets deep into them.
WORDS = sorted(
    {"type", "message", "content", "content_block", "delta", "index", "usage", "error", "id"}
    | {"text", "thinking", "signature", "data", "name", "input", "citations", "citation", "url"}
    | {"source", "title", "stop_reason", "stop_sequence", "stop_details", "explanation", "code"}
    | {"partial_json", "input_tokens", "output_tokens", "cache_creation", "iterations"}
    | {"output_tokens_details", "thinking_tokens", "server_tool_use", "service_tier", "refusal"}
)
TYPES = sorted(
    {"message", "text", "thinking", "redacted_thinking", "tool_use", "error", "message_start"}
    | {"content_block_start", "content_block_delta", "content_block_stop", "message_delta"}
    | {"message_stop", "ping", "text_delta", "input_json_delta", "thinking_delta", "compaction"}
    | {"signature_delta", "citations_delta", "web_search_result_location", "overloaded_error"}
)
scalars = (
    st.none() | st.booleans() | st.integers(-2, 2**63) | st.floats(allow_nan=False) | texts
    | st.sampled_from(TYPES)
)  # fmt: skip
anything = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=4)
    ),
    max_leaves=12,
)
typed = st.fixed_dictionaries(
    {"type": st.sampled_from(TYPES)}, optional={word: anything for word in WORDS if word != "type"}
)
loose = st.fixed_dictionaries(
    {"type": st.sampled_from(TYPES)},
    optional={
        "index": st.integers(0, 2) | anything,
        "delta": typed | anything,
        "content_block": typed | anything,
        "message": typed | anything,
        "usage": typed | anything,
        "error": typed | anything,
        "content": st.lists(typed | anything, max_size=3) | anything,
    },
)


@given(st.lists(loose | anything, max_size=8))
def test_no_stream_breaks_the_reader(payloads: list[Any]) -> None:
    reader = ANTHROPIC.reader()
    for payload in map(orjson.dumps, payloads):
        try:
            events = reader.events(payload)
        except UpstreamFailure:
            continue
        for event in events:
            _check(event)


def _check(event: Event) -> None:
    """Everything is what those who go on with it take it for."""
    for word in (event.native_finish, event.upstream_id, event.service_tier, event.stop_sequence):
        assert word is None or isinstance(word, str)
    for name in ("content", "reasoning", "refusal"):
        assert isinstance(event.delta.get(name, ""), str)
    for call in event.delta.get("tool_calls", []):
        assert isinstance(call["index"], int)
        assert isinstance(call["function"]["arguments"], str)
    believable(event.usage, context_length=None)
    if event.error is not None:
        assert from_error_object(event.error).status >= 400


@given(loose | anything)
def test_no_answer_breaks_the_reader(value: Any) -> None:
    try:
        read_answer = ANTHROPIC.answer(orjson.dumps(value), "application/json")
    except UpstreamFailure:
        return
    assert isinstance(read_answer.message, dict)
    believable(read_answer.usage, context_length=None)
    if read_answer.error is not None:
        from_error_object(read_answer.error)


@given(st.binary(max_size=40), st.text(max_size=10))
def test_bytes_of_any_kind_are_an_answer_or_a_failure(body: bytes, content_type: str) -> None:
    with contextlib.suppress(UpstreamFailure):
        ANTHROPIC.answer(body, content_type)
    with contextlib.suppress(UpstreamFailure):
        ANTHROPIC.reader().events(body)
