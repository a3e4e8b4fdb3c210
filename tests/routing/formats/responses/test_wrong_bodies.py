"""Whatever is wrong in a body is refused by name (inference 5.1 to 5.3)."""

from typing import Any

import pytest
from hypothesis import given, settings

from routing.formats.chat.request import ChatRequest
from routing.formats.responses.request import parse_responses
from tests.routing.formats.responses.bodies import (
    CALL,
    CALL_OUTPUT,
    DATA_URL,
    FUNCTION,
    body,
)
from tests.routing.formats.responses.test_request_properties import anything
from tests.routing.formats.wrong_bodies import is_read_or_refused, one_wrong, some_wrong

REASONING = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [{"type": "summary_text", "text": "s"}],
    "content": [{"type": "reasoning_text", "text": "t"}],
    "signature": "s",
}
SAID = {
    "role": "assistant",
    "content": [
        {"type": "output_text", "text": "a", "annotations": [{"type": "url_citation", "url": "u"}]},
        {"type": "refusal", "refusal": "no"},
    ],
}
ASKED = {
    "role": "user",
    "content": [
        {"type": "input_text", "text": "a", "cache_control": {"type": "ephemeral"}},
        {"type": "input_image", "image_url": DATA_URL, "detail": "low"},
        {"type": "input_file", "file_data": DATA_URL, "filename": "f"},
        {"type": "input_audio", "input_audio": {"data": "A", "format": "mp3"}},
    ],
}
CUSTOM_CALL = {"type": "custom_tool_call", "call_id": "c2", "name": "sh", "input": "x"}
CUSTOM_OUTPUT = {"type": "custom_tool_call_output", "call_id": "c2", "output": ASKED["content"]}
SPACE = {
    "type": "namespace",
    "name": "n",
    "description": "d",
    "tools": [{"type": "function", "name": "g"}, {"type": "custom", "name": "c"}],
}
BODIES: list[dict[str, Any]] = [
    body(
        input=[
            *(ASKED, REASONING, SAID, CALL, CALL_OUTPUT, CUSTOM_CALL, CUSTOM_OUTPUT),
            {"role": "system", "content": [{"type": "input_text", "text": "s"}]},
            {"type": "image_generation_call", "result": "/9j/"},
            {"type": "web_search_call", "id": "ws_1"},
        ],
        instructions="i",
    ),
    body(
        tools=[
            *(FUNCTION, SPACE, {"type": "custom", "name": "c", "format": {"type": "text"}}),
            {"type": "shell"},
            {"type": "web_search", "parameters": {"max_results": 1}},
            {"type": "router:datetime", "parameters": {"timezone": "UTC"}},
            {"type": "router:subagent", "parameters": {"name": "a", "inherit_functions": False}},
            {"type": "router:shell", "parameters": {}},
        ],
        tool_choice={
            "type": "allowed_tools",
            "mode": "auto",
            "tools": [{"type": "function", "name": "f"}, {"type": "shell"}],
        },
        max_tool_calls=3,
    ),
    body(tools=[FUNCTION, SPACE], tool_choice={"type": "function", "name": "g"}),
    body(
        text={
            "format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}},
            "verbosity": "low",
        },
        reasoning={"effort": "low", "summary": "auto"},
        include=["reasoning.encrypted_content"],
        models=["acme/large"],
        provider={"order": ["a"], "sort": {"by": "price"}, "max_price": {"prompt": 1}},
        plugins=[{"id": "web", "enabled": False}],
        stop_server_tools_when=[{"type": "step_count_is", "step_count": 3}],
        top_logprobs=2,
        truncation="auto",
        metadata={"a": "b"},
        safety_identifier="me",
        user="me",
    ),
]


def parse(given_body: dict[str, Any]) -> ChatRequest:
    return parse_responses(given_body, session_header=None)


def test_a_body_with_one_wrong_value_is_read_or_refused() -> None:
    for wrong in one_wrong(BODIES):
        assert is_read_or_refused(parse, wrong), wrong


@settings(deadline=None, max_examples=300)
@given(some_wrong(BODIES, anything))
def test_a_body_with_some_wrong_values_is_read_or_refused(wrong: dict[str, Any]) -> None:
    assert is_read_or_refused(parse, wrong)


@pytest.mark.parametrize("shown", BODIES)
def test_the_bodies_are_right_before(shown: dict[str, Any]) -> None:
    assert parse(shown).format == "responses"
