"""Conversations that go through any two formats come back as they were.

What may get lost is on the page of translations; everything else must survive.
"""

import itertools
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.routing.translation.conversations import Fact, conversations, facts_of
from tests.routing.translation.steps import KINDS, parse_body, upstream_body

MANY = settings(max_examples=500, deadline=None, suppress_health_check=list(HealthCheck))
VERY_MANY = settings(MANY, max_examples=20_000)
TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": f"Does {name}.",
            "parameters": {"type": "object", "properties": {"a": {"type": "string"}}},
            "strict": False,
        },
    }
    for name in ("weather", "find_it", "a-b")
]
SCHEMA = {
    "type": "object",
    "properties": {"n": {"type": "integer"}},
    "required": ["n"],
    "additionalProperties": False,
}
SHAPE = {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA, "strict": True}}
CHOICES: list[Any] = [
    "auto", "none", "required", {"type": "function", "function": {"name": "weather"}},
]  # fmt: skip
options = st.fixed_dictionaries(
    {"max_completion_tokens": st.integers(16, 9000)},
    optional={
        "tool_choice": st.sampled_from(CHOICES),
        "parallel_tool_calls": st.just(False),
        "response_format": st.just(SHAPE),
        "temperature": st.sampled_from([0, 0.25, 1]),
    },
)
# Caller's format and upstream's, each named by the wire kind that speaks it.
pairs = st.sampled_from([pair for pair in itertools.product(KINDS, KINDS) if pair[0] != pair[1]])


@st.composite
def cases(draw: st.DrawFn) -> tuple[str, str, dict[str, Any]]:
    caller, upstream = draw(pairs)
    # Reasoning survives where it is read again: at an upstream of the kind that wrote it.
    readers = {caller, upstream} - {"openai"}
    messages = draw(conversations(sorted(readers)[0]))
    if len(readers) == 2:
        # Neither of the two holds the other's reasoning but as it was told in an answer.
        messages = [_without_thoughts(message) for message in messages]
    return caller, upstream, {"messages": messages, "tools": TOOLS, **draw(options)}


def _without_thoughts(message: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in message.items() if name != "reasoning_details"}


def request_facts(body: dict[str, Any]) -> tuple[list[Fact], list[Any], Any, Any]:
    """Everything a body asks for, its limit and sampling apart."""
    tools = [tool["function"] for tool in body.get("tools") or []]
    known = [(tool["name"], tool.get("description"), tool["parameters"]) for tool in tools]
    shape = body.get("response_format")
    choice = body.get("tool_choice", "auto")
    parallel = body.get("parallel_tool_calls") is not False
    return (
        facts_of(body["messages"]),
        known,
        shape and shape["json_schema"]["schema"],
        (choice, parallel if choice != "none" else True),
    )


def check(case: tuple[str, str, dict[str, Any]]) -> None:
    caller, upstream, chat = case
    request = parse_body("openai", {"model": "acme/small", **chat})
    if caller != "openai":
        # As its caller would write it: the body of that format which says the same.
        request = parse_body(caller, upstream_body(caller, request))
    there = parse_body(upstream, upstream_body(upstream, request))

    assert request_facts(there.body) == request_facts(request.body) == request_facts(chat)
    assert there.max_output_tokens == request.max_output_tokens == chat["max_completion_tokens"]
    assert there.body.get("temperature") == chat.get("temperature")


@given(cases())
@MANY
def test_nothing_is_lost_between_any_two_formats(case: Any) -> None:
    check(case)


@pytest.mark.nightly
@given(cases())
@VERY_MANY
def test_nothing_is_lost_in_twenty_thousand_conversations(case: Any) -> None:
    check(case)
