"""The responses format: what it answers, how it streams, what a strict provider refuses."""

import json
from typing import Any

import pytest

from tests.routing.simulator.conftest import Asked

WEATHER = {
    "type": "function",
    "name": "weather",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 3}},
        "required": ["city", "days"],
    },
}
ENCRYPTED = {"include": ["reasoning.encrypted_content"]}
SUMMARISED = {"reasoning": {"effort": "low", "summary": "auto"}}
TEXT_ORDER = [
    "response.created", "response.in_progress", "response.output_item.added",
    "response.content_part.added", *["response.output_text.delta"] * 5,
    "response.output_text.done", "response.content_part.done", "response.output_item.done",
    "response.completed",
]  # fmt: skip


def user(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "content": list(parts)}


ASKED = user({"type": "input_text", "text": "Hello there"})
CALL = {"type": "function_call", "call_id": "call_1", "name": "weather", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "call_1", "output": "Sunny"}


@pytest.fixture
def ask(upstream, wire) -> Asked:
    return Asked(upstream, wire, "responses")


def test_an_answer_is_a_response_that_counts_its_tokens(ask):
    answer = ask.document()
    assert (answer["object"], answer["status"]) == ("response", "completed")
    assert answer["id"].startswith("resp_")
    [item] = answer["output"]
    assert item["content"][0]["text"] == "Simulated answer to: Hello there"
    assert (answer["usage"]["input_tokens"], answer["usage"]["output_tokens"]) == (3, 5)


def test_a_stream_says_the_same_in_its_order(ask):
    events = ask.events()
    assert [name for name, _ in events] == TEXT_ORDER
    assert [value["sequence_number"] for _, value in events] == list(range(len(events)))
    whole, last = ask.document(), events[-1][1]["response"]
    assert last["output"][0]["content"] == whole["output"][0]["content"]
    assert last["usage"] == whole["usage"]
    deltas = [value["delta"] for name, value in events if name.endswith("text.delta")]
    assert "".join(deltas) == events[-4][1]["text"] == "Simulated answer to: Hello there"


def test_a_streamed_call_has_its_arguments_in_fragments(ask):
    events = ask.events(tools=[WEATHER], tool_choice="required")
    added = next(value for name, value in events if name == "response.output_item.added")
    assert (added["item"]["name"], added["item"]["arguments"]) == ("weather", "")
    deltas = [value["delta"] for name, value in events if name.endswith("arguments.delta")]
    assert len(deltas) > 1
    assert json.loads("".join(deltas)) == {"city": "simulated", "days": 3}
    assert events[-1][1]["response"]["output"][0]["arguments"] == "".join(deltas)


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        ({}, {"summary": []}),
        (SUMMARISED, {"summary": [{"type": "summary_text"}]}),
        ({"model": "open-reasoner"}, {"summary": [], "content": [{"type": "reasoning_text"}]}),
    ],
)
def test_thoughts_show_as_far_as_they_are_asked_for(ask, body, shown):
    body = {"model": "reasoner", **body}
    item = ask.document(**body)["output"][0]
    parts = {name: [{"type": part["type"]} for part in item[name]] for name in shown}
    assert parts == shown
    assert "encrypted_content" not in item
    assert ask.events(**body)[-1][1]["response"]["output"][0] | {"id": ""} == item | {"id": ""}


def test_encrypted_thoughts_come_back_or_are_refused(ask):
    body = {"model": "reasoner", "tools": [WEATHER], **ENCRYPTED, **SUMMARISED}
    thought, call = ask.document(tool_choice="required", **body)["output"]
    result = {**OUTPUT, "call_id": call["call_id"]}
    assert ask.document(input=[ASKED, thought, call, result], **body)["status"] == "completed"
    for changed, told in [
        ({**thought, "encrypted_content": "bm8="}, "could not be verified"),
        ({**thought, "encrypted_content": None}, "not persisted"),
    ]:
        assert told in ask.refused(400, input=[ASKED, changed, call, result], **body)
    assert "following item" in ask.refused(400, input=[thought, ASKED], **body)


@pytest.mark.parametrize(
    ("step", "status", "details"),
    [
        ({"finish_reason": "length"}, "incomplete", {"reason": "max_output_tokens"}),
        ({"finish_reason": "content_filter"}, "incomplete", {"reason": "content_filter"}),
        ({"finish_reason": "error"}, "failed", None),
    ],
)
def test_the_status_says_how_it_ended(ask, upstream, step, status, details):
    upstream.script("default", step, repeat=True)
    answer = ask.document()
    assert (answer["status"], answer["incomplete_details"]) == (status, details)
    name, last = ask.events()[-1]
    assert (name, last["response"]["status"]) == (f"response.{status}", status)


def test_a_schema_is_answered_with_json_and_images_count(ask):
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    shape = {"format": {"type": "json_schema", "name": "n", "schema": schema}}
    image = {"type": "input_image", "image_url": "https://example.com/a.png", "detail": "auto"}
    answer = ask.document(text=shape, input=[user(image, *ASKED["content"])])
    assert json.loads(answer["output"][0]["content"][0]["text"]) == {"n": 1}
    assert answer["usage"]["input_tokens"] == 85 + 3


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no input": ({"input": None}, "Missing required parameter: 'input'"),
    "an unknown field": ({"messages": []}, "Unknown parameter: 'messages'"),
    "a small cap": ({"max_output_tokens": 15}, "expected a value >= 16"),
    "a part of the wrong side": (
        {"input": [{"role": "assistant", "content": ASKED["content"]}]}, "Supported values are"
    ),
    "an output without a call": ({"input": [OUTPUT]}, "No tool call found"),
    "a call without an output": ({"input": [CALL]}, "No tool output found"),
    "an id of another kind": ({"input": [{**CALL, "id": "call_1"}, OUTPUT]}, "begins with 'fc'"),
    "a long call id": ({"input": [{**CALL, "call_id": "c" * 65}]}, "string too long"),
    "a reference": ({"input": [{"type": "item_reference", "id": "msg_1"}]}, "not found"),
    "an answer before": ({"previous_response_id": "resp_1"}, "not found"),
    "a nested tool": ({"tools": [{"type": "function", "function": {"name": "a"}}]}, "Unknown"),
    "a role": ({"input": [{"role": "tool", "content": "x"}]}, "Invalid value: 'tool'"),
    "an item": ({"input": [{"type": "tool_use"}]}, "Invalid value: 'tool_use'"),
    "a budget": ({"reasoning": {"max_tokens": 5}}, "Unknown parameter: 'reasoning.max_tokens'"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_strict_provider_refuses(ask, name):
    body, told = REFUSED[name]
    assert told in ask.refused(400, **body)


def test_a_credential_is_needed(ask):
    assert "API key" in ask.refused(401, headers={})


def test_what_a_strict_provider_takes(ask):
    ask.document(
        input=[ASKED, {**CALL, "id": "fc_1"}, OUTPUT], store=False, instructions="Be brief"
    )
    ask.document(max_output_tokens=16, top_p=0.5, metadata={"a": "b"})
