"""Whatever is wrong in a body is refused by name (inference 4.1 to 4.6)."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from routing.formats.chat.request import ChatRequest
from routing.formats.messages.request import parse_messages
from routing.formats.messages.schema import MessagesBody
from tests.routing.formats.messages.bodies import (
    EPHEMERAL,
    IMAGE,
    RESULT,
    TEXT,
    TOOL,
    USE,
    USER,
    body_of,
    said,
)
from tests.routing.formats.responses.test_request_properties import anything
from tests.routing.formats.wrong_bodies import is_read_or_refused, one_wrong, some_wrong

DOCUMENT = {
    "type": "document",
    "source": {"type": "content", "content": [TEXT, IMAGE]},
    "title": "t",
    "context": "c",
}
FOUND = {"type": "search_result", "source": "s", "title": "t", "content": [TEXT]}
THOUGHT = [
    {"type": "thinking", "thinking": "t", "signature": "s"},
    {"type": "redacted_thinking", "data": "d"},
]
SEARCHED: list[dict[str, Any]] = [
    {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}},
    {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []},
]
BODIES: list[dict[str, Any]] = [
    body_of(
        system=[{**TEXT, "cache_control": EPHEMERAL}],
        messages=[
            said("user", TEXT, IMAGE, DOCUMENT, FOUND),
            said("assistant", *THOUGHT, *SEARCHED, TEXT, USE),
            said("user", {**RESULT, "content": [TEXT, IMAGE], "is_error": True}, TEXT),
            {"role": "assistant", "content": "a"},
        ],
    ),
    body_of(
        tools=[
            {**TOOL, "strict": True, "cache_control": EPHEMERAL},
            {"type": "web_search_20250305", "name": "web_search", "max_uses": 1},
            {"type": "bash_20250124", "name": "bash"},
            {"type": "router:datetime", "parameters": {"timezone": "UTC"}},
            {"type": "router:advisor", "parameters": {"name": "a"}},
        ],
        tool_choice={"type": "tool", "name": "f", "disable_parallel_tool_use": True},
    ),
    body_of(
        thinking={"type": "enabled", "budget_tokens": 2048},
        output_config={
            "effort": "low",
            "format": {"type": "json_schema", "schema": {"type": "object"}},
        },
        context_management={"edits": [{"type": "clear_tool_uses_20250919"}]},
        metadata={"user_id": "me"},
        fallbacks=[{"model": "acme/large"}],
        stop_sequences=["x"],
        service_tier="auto",
        speed="fast",
        provider={"order": ["a"], "sort": {"by": "price"}},
        plugins=[{"id": "web", "enabled": False}],
        seed=1,
    ),
]
NAMES = sorted(MessagesBody.__annotations__)


def parse(given_body: dict[str, Any]) -> ChatRequest:
    return parse_messages(given_body, session_header=None)


def test_a_body_with_one_wrong_value_is_read_or_refused() -> None:
    for wrong in one_wrong(BODIES):
        assert is_read_or_refused(parse, wrong), wrong


@settings(deadline=None, max_examples=300)
@given(some_wrong(BODIES, anything))
def test_a_body_with_some_wrong_values_is_read_or_refused(wrong: dict[str, Any]) -> None:
    assert is_read_or_refused(parse, wrong)


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(NAMES), anything, max_size=6), st.just([USER]) | anything)
def test_any_body_is_read_or_refused(fields: dict[str, Any], messages: Any) -> None:
    assert is_read_or_refused(parse, {"model": "a/b", **fields, "messages": messages})


@pytest.mark.parametrize("shown", BODIES)
def test_the_bodies_are_right_before(shown: dict[str, Any]) -> None:
    assert parse(shown).format == "messages"
