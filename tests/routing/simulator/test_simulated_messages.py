"""The messages format: what it answers, how it streams, what a strict provider refuses."""

import json
from typing import Any

import pytest

from tests.routing.simulator.conftest import Asked, named_events

WEATHER = {
    "name": "weather",
    "input_schema": {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 3}},
        "required": ["city", "days"],
    },
}
ORDER = [
    "message_start", "ping", "content_block_start", *["content_block_delta"] * 5,
    "content_block_stop", "message_delta", "message_stop",
]  # fmt: skip


def user(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


def assistant(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def text(said: str = "Hello there", **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": said, **more}


CALL = {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "Sunny"}
MARK: dict[str, Any] = {"cache_control": {"type": "ephemeral"}}
HELLO = user(text())


@pytest.fixture
def ask(upstream, wire) -> Asked:
    return Asked(upstream, wire, "messages")


def test_an_answer_is_a_message_that_counts_its_tokens(ask):
    answer = ask.document()
    assert (answer["type"], answer["role"]) == ("message", "assistant")
    assert answer["id"].startswith("msg_")
    assert answer["content"] == [text("Simulated answer to: Hello there", citations=None)]
    assert (answer["stop_reason"], answer["stop_sequence"]) == ("end_turn", None)
    assert (answer["usage"]["input_tokens"], answer["usage"]["output_tokens"]) == (3, 5)


def test_a_stream_says_the_same_in_its_order(ask):
    events = ask.events()
    assert [name for name, _ in events] == ORDER
    assert all(name == value["type"] for name, value in events)
    values = dict(events)
    assert values["message_start"]["message"]["usage"]["input_tokens"] == 3
    assert values["message_delta"]["usage"]["output_tokens"] == 5
    said = [value["delta"]["text"] for name, value in events if name == "content_block_delta"]
    assert "".join(said) == "Simulated answer to: Hello there"


@pytest.mark.parametrize(
    ("choice", "called"), [({"type": "any"}, 1), ({"type": "tool", "name": "weather"}, 1),
                           ({"type": "auto"}, 0), ({"type": "none"}, 0)]
)  # fmt: skip
def test_a_tool_is_called_as_the_choice_says(ask, choice, called):
    answer = ask.document(tools=[WEATHER], tool_choice=choice)
    used = [block for block in answer["content"] if block["type"] == "tool_use"]
    assert len(used) == called
    assert all(block["input"] == {"city": "simulated", "days": 3} for block in used)
    assert answer["stop_reason"] == ("tool_use" if called else "end_turn")


def test_a_streamed_call_has_its_input_in_fragments(ask):
    events = ask.events(tools=[WEATHER], tool_choice={"type": "any"})
    [start] = [value for name, value in events if name == "content_block_start"]
    assert start["content_block"]["input"] == {}
    deltas = [value["delta"] for name, value in events if name == "content_block_delta"]
    assert {delta["type"] for delta in deltas} == {"input_json_delta"}
    joined = "".join(delta["partial_json"] for delta in deltas)
    assert json.loads(joined) == {"city": "simulated", "days": 3}


def test_thinking_comes_first_and_is_signed(ask):
    wanted = {"thinking": {"type": "enabled", "budget_tokens": 1024}, "max_tokens": 2048}
    whole = ask.document(**wanted)["content"]
    events = ask.events(**wanted)
    assert [block["type"] for block in whole] == ["thinking", "text"]
    deltas = [value["delta"] for name, value in events if name == "content_block_delta"]
    kinds = list(dict.fromkeys(delta["type"] for delta in deltas))
    assert kinds == ["thinking_delta", "signature_delta", "text_delta"]
    [signature] = [delta["signature"] for delta in deltas if "signature" in delta]
    assert signature == whole[0]["signature"]
    assert "".join(delta.get("thinking", "") for delta in deltas) == whole[0]["thinking"]


def test_thoughts_come_back_over_a_tool_call_or_are_refused(ask, upstream):
    upstream.script("default", {"reasoning": "Hm", "redacted": "Psst", "tool_calls": [
        {"name": "weather", "arguments": {"city": "Oslo"}}]})  # fmt: skip
    wanted = {
        "thinking": {"type": "enabled", "budget_tokens": 1024},
        "max_tokens": 2048,
        "tools": [WEATHER],
    }
    said = ask.document(**wanted)["content"]
    assert [b["type"] for b in said] == ["thinking", "redacted_thinking", "tool_use"]
    result = user({**RESULT, "tool_use_id": said[2]["id"]})

    ask.document(messages=[HELLO, assistant(*said), result], **wanted)

    changed = {**said[0], "thinking": "Hmm"}
    told = ask.refused(400, messages=[HELLO, assistant(changed, *said[1:]), result], **wanted)
    assert "Invalid `signature` in `thinking` block" in told
    told = ask.refused(400, messages=[HELLO, assistant(said[2]), result], **wanted)
    assert "Expected `thinking`" in told


def test_a_stop_sequence_is_named(ask):
    answer = ask.document(messages=[user(text("one two three"))], stop_sequences=["three", " two"])
    assert answer["content"][0]["text"] == "Simulated answer to: one"
    assert (answer["stop_reason"], answer["stop_sequence"]) == ("stop_sequence", " two")


def test_a_schema_is_answered_with_json(ask):
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    wanted = {"format": {"type": "json_schema", "schema": schema}}
    assert json.loads(ask.document(output_config=wanted)["content"][0]["text"]) == {"n": 1}


def test_images_count_and_marks_write_and_read_the_cache(ask):
    image = {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}}
    marked = user(text("a" * 400, **MARK), image, text("b" * 40))
    first, second = (ask.document(messages=[marked])["usage"] for _ in range(2))
    assert first["cache_creation_input_tokens"] == second["cache_read_input_tokens"] == 100
    assert first["cache_read_input_tokens"] == second["cache_creation_input_tokens"] == 0
    assert first["input_tokens"] == second["input_tokens"] == 85 + 10


def test_scripted_usage_is_told_by_this_formats_counting(ask, upstream):
    details = {"cached_tokens": 40, "cache_write_tokens": 10}
    usage = {"prompt_tokens": 100, "completion_tokens": 7, "prompt_tokens_details": details}
    upstream.script("default", {"usage": usage}, {"usage": {"input_tokens": 1}})
    told = ask.document()["usage"]
    assert told["input_tokens"] == 50
    assert (told["cache_read_input_tokens"], told["cache_creation_input_tokens"]) == (40, 10)
    assert ask.document()["usage"] == {"input_tokens": 1}


def test_tokens_are_counted_on_their_own(upstream, wire):
    counted = Asked(upstream, wire, "messages/count_tokens")
    assert counted.document() == {"input_tokens": 3}
    assert "foo: Extra inputs" in counted.refused(400, foo=1)


def test_the_credential_is_judged_before_the_version_and_that_before_the_body(ask):
    assert "x-api-key" in ask.refused(401, headers={}, foo=1)
    assert "anthropic-version" in ask.refused(400, headers={"x-api-key": "sk"}, foo=1)


GOOD = [HELLO, assistant(CALL), user(RESULT)]
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no cap": ({"max_tokens": None}, "max_tokens: Field required"),
    "an unknown field": ({"foo": 1}, "foo: Extra inputs are not permitted"),
    "a field of the chat format": ({"stop": ["x"]}, "stop: Extra inputs are not permitted"),
    "the assistant first": ({"messages": [assistant(text())]}, 'must use the "user" role'),
    "an unknown role": ({"messages": [{"role": "tool", "content": "x"}]}, "Unexpected role"),
    "no messages": ({"messages": []}, "at least one message"),
    "no content": ({"messages": [user()]}, "non-empty content"),
    "an empty text": ({"messages": [user(text(""))]}, "must be non-empty"),
    "blanks": ({"messages": [user(text("  "))]}, "non-whitespace"),
    "an unknown block": ({"messages": [user({"type": "input_text"})]}, "does not match any"),
    "a strange key": ({"messages": [user(text(detail="low"))]}, "text.detail: Extra inputs"),
    "five marks": ({"messages": [user(*[text(**MARK)] * 5)]}, "maximum of 4 blocks"),
    "a result without a call": ({"messages": [user(RESULT)]}, "unexpected `tool_use_id`"),
    "a call without a result": ({"messages": [*GOOD[:2], HELLO]}, "without `tool_result` blocks"),
    "a result after text": ({"messages": [*GOOD[:2], user(text(), RESULT)]}, "come before"),
    "input that is text": ({"messages": [HELLO, assistant({**CALL, "input": "{}"}), GOOD[2]]},
                           "Input should be a valid dictionary"),
    "an id with a dot": ({"messages": [HELLO, assistant({**CALL, "id": "a.b"})]}, "match pattern"),
    "a trailing blank": ({"messages": [HELLO, assistant(text("so "))]}, "trailing whitespace"),
    "a hot temperature": ({"temperature": 1.5}, "temperature: range"),
    "a choice without tools": ({"tool_choice": {"type": "any"}}, "while providing tools"),
    "a schema of no object": ({"tools": [{"name": "a", "input_schema": {}}]}, "input_schema.type"),
    "twins": ({"tools": [WEATHER, WEATHER]}, "must be unique"),
    "a budget over the cap": ({"thinking": {"type": "enabled", "budget_tokens": 1024}},
                              "must be greater than"),
    "a bad image": ({"messages": [user({"type": "image", "source": {
        "type": "base64", "media_type": "image/png", "data": "?"}})]}, "valid base64"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_strict_provider_refuses(ask, name):
    body, told = REFUSED[name]
    assert told in ask.refused(400, **body)


def test_what_a_strict_provider_takes(ask):
    ask.document(messages=GOOD)
    ask.document(system=[text("Be brief", **MARK)], metadata={"user_id": "u"}, top_k=3)
    ask.document(messages=[HELLO, assistant(text("Well,"))])


def test_a_lenient_persona_takes_anything(upstream, wire):
    upstream.control("PUT", "/_persona/lenient", {"strict": False})
    assert Asked(upstream, wire, "messages", "lenient").document(foo=1)["type"] == "message"


def test_scripted_text_brings_the_events_it_needs(upstream, wire):
    upstream.script("default", {"events": [{"text": "Hi"}, {"text": " you"}, {"finish": "length"}]})
    wire.send(upstream.request_bytes("messages", "m", stream=True))
    _, headers = wire.head()
    events = named_events(wire.body(headers))
    assert [name for name, _ in events] == [*ORDER[:3], *ORDER[3:5], *ORDER[-3:]]
    assert events[-2][1]["delta"]["stop_reason"] == "max_tokens"
