"""The messages and the responses format: answers, streams, and what a strict provider refuses."""

import json
from typing import Any

import pytest

from tests.routing.simulator.conftest import Asked

SAID = "Simulated answer to: Hello there"
CITY = {"city": "simulated", "days": 3}
PARAMETERS = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 3}},
    "required": ["city", "days"],
}
TOOLS: dict[str, Any] = {
    "messages": {"name": "weather", "input_schema": PARAMETERS},
    "responses": {"type": "function", "name": "weather", "parameters": PARAMETERS},
}
ORDERS = {
    "messages": [
        *["message_start", "ping", "content_block_start", *["content_block_delta"] * 5],
        *["content_block_stop", "message_delta", "message_stop"],
    ],
    "responses": [
        *["response.created", "response.in_progress", "response.output_item.added"],
        *["response.content_part.added", *["response.output_text.delta"] * 5],
        *["response.output_text.done", "response.content_part.done"],
        *["response.output_item.done", "response.completed"],
    ],
}
THINKING = {"thinking": {"type": "enabled", "budget_tokens": 1024}, "max_tokens": 2048}


def user(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


def assistant(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def text(said: str = "Hello there", **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": said, **more}


@pytest.fixture
def messages(upstream, wire) -> Asked:
    return Asked(upstream, wire, "messages")


@pytest.fixture
def responses(upstream, wire) -> Asked:
    return Asked(upstream, wire, "responses")


@pytest.fixture(params=[*TOOLS])
def format(request) -> str:
    name: str = request.param
    return name


def pieces(events: list[tuple[str, Any]], name: str) -> list[Any]:
    """What the deltas of this name hold, in either format."""
    deltas = [value["delta"] for _, value in events if "delta" in value]
    return [each if isinstance(each, str) else each.get(name, "") for each in deltas]


def test_an_answer_counts_its_tokens(messages, responses):
    message, response = messages.document(), responses.document()
    names = ("type", "role", "content", "stop_reason", "stop_sequence")
    content = [text(SAID, citations=None)]
    told = ["message", "assistant", content, "end_turn", None]
    assert [message[name] for name in names] == told
    assert message["id"].startswith("msg_")
    assert (response["object"], response["status"]) == ("response", "completed")
    assert response["id"].startswith("resp_")
    assert [item["content"][0]["text"] for item in response["output"]] == [SAID]
    for usage in (message["usage"], response["usage"]):
        assert (usage["input_tokens"], usage["output_tokens"]) == (3, 5)


def test_a_stream_says_the_same_in_its_order(ask, format):
    events, whole = ask.events(), ask.document()
    assert [name for name, _ in events] == ORDERS[format]
    assert all(name == value["type"] for name, value in events)
    assert "".join(pieces(events, "text")) == SAID
    if format == "messages":
        values = dict(events)
        assert values["message_start"]["message"]["usage"]["input_tokens"] == 3
        assert values["message_delta"]["usage"]["output_tokens"] == 5
    else:
        assert [value["sequence_number"] for _, value in events] == list(range(len(events)))
        last = events[-1][1]["response"]
        assert last["output"][0]["content"] == whole["output"][0]["content"]
        assert (last["usage"], events[-4][1]["text"]) == (whole["usage"], SAID)


def test_a_streamed_call_has_its_arguments_in_fragments(ask, format):
    choice = {"type": "any"} if format == "messages" else "required"
    events = ask.events(tools=[TOOLS[format]], tool_choice=choice)
    starts = ("content_block_start", "response.output_item.added")
    [start] = [value for name, value in events if name in starts]
    begun = start.get("content_block") or start["item"]
    assert (begun["name"], begun.get("input") or begun.get("arguments") or "") == ("weather", "")
    fragments = pieces(events, "partial_json")
    assert len(fragments) > 1
    assert json.loads("".join(fragments)) == CITY


def test_thoughts_come_back_over_a_tool_call_or_are_refused(messages, upstream):
    call = {"name": "weather", "arguments": {"city": "Oslo"}}
    upstream.script("default", {"reasoning": "Hm", "redacted": "Psst", "tool_calls": [call]})
    wanted = {**THINKING, "tools": [TOOLS["messages"]]}
    said = messages.document(**wanted)["content"]
    assert [block["type"] for block in said] == ["thinking", "redacted_thinking", "tool_use"]
    result = user({**RESULT, "tool_use_id": said[2]["id"]})
    messages.document(messages=[HELLO, assistant(*said), result], **wanted)
    changed = {**said[0], "thinking": "Hmm"}
    for blocks, told in [
        ([changed, *said[1:]], "Invalid `signature` in `thinking` block"),
        (said[2:], "Expected `thinking`"),
    ]:
        talk = [HELLO, assistant(*blocks), result]
        assert told in messages.expect_refusal(400, messages=talk, **wanted)


SUMMARISED = {"reasoning": {"effort": "low", "summary": "auto"}}


def test_encrypted_thoughts_come_back_or_are_refused(responses):
    body = {"model": "reasoner", "tools": [TOOLS["responses"]], **SUMMARISED}
    body["include"] = ["reasoning.encrypted_content"]
    thought, call = responses.document(tool_choice="required", **body)["output"]
    result = {**OUTPUT, "call_id": call["call_id"]}
    talk = [ASKED, thought, call, result]
    assert responses.document(input=talk, **body)["status"] == "completed"
    for changed, told in [
        ([ASKED, {**thought, "encrypted_content": "bm8="}, call, result], "could not be verified"),
        ([ASKED, {**thought, "encrypted_content": None}, call, result], "not persisted"),
        ([thought, ASKED], "following item"),
    ]:
        assert told in responses.expect_refusal(400, input=changed, **body)


MARK: dict[str, Any] = {"cache_control": {"type": "ephemeral"}}
HELLO = user(text())
USE = {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "Sunny"}
GOOD = [HELLO, assistant(USE), user(RESULT)]
TEXT_INPUT = {**USE, "input": "{}"}
BAD_IMAGE = {"type": "base64", "media_type": "image/png", "data": "?"}
ASKED = user({"type": "input_text", "text": "Hello there"})
CALL = {"type": "function_call", "call_id": "call_1", "name": "weather", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "call_1", "output": "Sunny"}
TALKS: list[tuple[str, str, list[Any], str]] = [
    ("messages", "the assistant first", [assistant(text())], 'must use the "user" role'),
    ("messages", "a role", [{"role": "tool", "content": "x"}], "Unexpected role"),
    ("messages", "nothing", [], "at least one message"),
    ("messages", "no content", [user()], "non-empty content"),
    ("messages", "an empty text", [user(text(""))], "must be non-empty"),
    ("messages", "blanks", [user(text("  "))], "non-whitespace"),
    ("messages", "an unknown block", [user({"type": "input_text"})], "does not match any"),
    ("messages", "a strange key", [user(text(detail="low"))], "text.detail: Extra inputs"),
    ("messages", "five marks", [user(*[text(**MARK)] * 5)], "maximum of 4 blocks"),
    ("messages", "a result alone", [user(RESULT)], "unexpected `tool_use_id`"),
    ("messages", "a call alone", [*GOOD[:2], HELLO], "without `tool_result` blocks"),
    ("messages", "a result after text", [*GOOD[:2], user(text(), RESULT)], "come before"),
    ("messages", "a text as input", [HELLO, assistant(TEXT_INPUT), GOOD[2]], "valid dictionary"),
    ("messages", "a dot in an id", [HELLO, assistant({**USE, "id": "a.b"})], "match pattern"),
    ("messages", "a trailing blank", [HELLO, assistant(text("so "))], "trailing whitespace"),
    ("messages", "a bad image", [user({"type": "image", "source": BAD_IMAGE})], "valid base64"),
    ("responses", "a part of the wrong side", [{**ASKED, "role": "assistant"}], "Supported values"),
    ("responses", "an output alone", [OUTPUT], "No tool call found"),
    ("responses", "a call alone", [CALL], "No tool output found"),
    ("responses", "an id of another kind", [{**CALL, "id": "call_1"}, OUTPUT], "begins with 'fc'"),
    ("responses", "a long call id", [{**CALL, "call_id": "c" * 65}], "string too long"),
    ("responses", "a reference", [{"type": "item_reference", "id": "msg_1"}], "not found"),
    ("responses", "a role", [{"role": "tool", "content": "x"}], "Invalid value: 'tool'"),
    ("responses", "an item", [{"type": "tool_use"}], "Invalid value: 'tool_use'"),
]
NESTED = {"type": "function", "function": {"name": "a"}}
FIELDS: list[tuple[str, str, dict[str, Any], str]] = [
    ("messages", "no cap", {"max_tokens": None}, "max_tokens: Field required"),
    ("messages", "an unknown field", {"foo": 1}, "foo: Extra inputs are not permitted"),
    ("messages", "a field of chat", {"stop": ["x"]}, "stop: Extra inputs are not permitted"),
    ("messages", "a hot temperature", {"temperature": 1.5}, "temperature: range"),
    ("messages", "a choice alone", {"tool_choice": {"type": "any"}}, "while providing tools"),
    ("messages", "no object", {"tools": [{"name": "a", "input_schema": {}}]}, "input_schema.type"),
    ("messages", "twins", {"tools": [TOOLS["messages"]] * 2}, "must be unique"),
    ("messages", "a large budget", {"thinking": THINKING["thinking"]}, "must be greater than"),
    ("responses", "no input", {"input": None}, "Missing required parameter: 'input'"),
    ("responses", "an unknown field", {"messages": []}, "Unknown parameter: 'messages'"),
    ("responses", "a small cap", {"max_output_tokens": 15}, "expected a value >= 16"),
    ("responses", "an answer before", {"previous_response_id": "resp_1"}, "not found"),
    ("responses", "a nested tool", {"tools": [NESTED]}, "Unknown"),
    ("responses", "a budget", {"reasoning": {"max_tokens": 5}}, "'reasoning.max_tokens'"),
]
TALKED = {"messages": "messages", "responses": "input"}
REFUSED = FIELDS + [(form, name, {TALKED[form]: talk}, told) for form, name, talk, told in TALKS]


@pytest.mark.parametrize(
    ("form", "body", "told"),
    [pytest.param(form, body, told, id=f"{form}-{name}") for form, name, body, told in REFUSED],
)
def test_a_strict_provider_refuses(upstream, wire, form, body, told):
    assert told in Asked(upstream, wire, form).expect_refusal(400, **body)


def test_what_a_strict_provider_takes(messages, responses):
    messages.document(messages=GOOD)
    messages.document(system=[text("Be brief", **MARK)], metadata={"user_id": "u"}, top_k=3)
    messages.document(messages=[HELLO, assistant(text("Well,"))])
    talk = [ASKED, {**CALL, "id": "fc_1"}, OUTPUT]
    responses.document(input=talk, store=False, instructions="Be brief")
    responses.document(max_output_tokens=16, top_p=0.5, metadata={"a": "b"})
