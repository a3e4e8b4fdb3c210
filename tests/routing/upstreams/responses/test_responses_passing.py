"""What an endpoint is sent for a caller who speaks the same format."""

from typing import Any

import pytest

from tests.routing.upstreams.responses.prompts import USUAL, passed, prompt, terms

ITEMS: list[dict[str, Any]] = [
    {"role": "user", "content": "hi"},
    {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "E", "new": 1},
    {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "f", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c1", "output": "x"},
    {"type": "shell_call", "id": "sh_1", "action": {"commands": ["ls"]}},
]
SEALED = "reasoning.encrypted_content"


def test_a_choice_among_tools_of_an_item_goes_with_it() -> None:
    added = {"type": "additional_tools", "role": "developer", "tools": [{"type": "mcp"}]}

    assert passed({"input": [added], "tool_choice": "required"})["tool_choice"] == "required"


@pytest.mark.parametrize("supported", [{"logprobs"}, set()])
def test_log_probabilities_are_asked_of_those_who_have_them(supported: set[str]) -> None:
    name = "message.output_text.logprobs"

    made = passed({"include": [name]}, terms(supported=frozenset(supported)))

    assert made.get("include") == ([name] if supported else None)


def test_items_and_tools_go_as_they_came() -> None:
    tools = [{"type": "custom", "name": "t", "format": {"type": "text"}}, {"type": "mcp", "x": [1]}]
    choice = {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "mcp"}]}
    made = passed({"input": ITEMS, "tools": tools, "tool_choice": choice, "instructions": "i"})
    assert made == {
        "model": "up-1",
        "input": ITEMS,
        "instructions": "i",
        "store": False,
        "stream": False,
        "tools": tools,
        "tool_choice": choice,
        "include": [SEALED],
    }


def test_the_gateways_fields_stay_here() -> None:
    gateways = {
        "models": ["a/b"],
        "provider": {},
        "plugins": [],
        "route": "fallback",
        "preset": "p",
        "session_id": "s",
        "trace": {},
        "user": "me",
        "safety_identifier": "me",
        "debug": {},
        "stop_server_tools_when": [],
        "metadata": {"a": "b"},
        "store": False,
        "background": False,
        "previous_response_id": None,
        "prompt": None,
        "truncation": "auto",
        "max_tool_calls": 3,
        "foo": 1,
    }
    made = passed(gateways, terms(user_hash="hash"))
    assert made == {
        "model": "up-1",
        "input": "hi",
        "store": False,
        "stream": False,
        "user": "hash",
        "include": [SEALED],
    }


def test_what_the_endpoint_does_not_list_is_left_out() -> None:
    original = {
        "temperature": 1,
        "top_p": 0.5,
        "top_logprobs": 2,
        "service_tier": "flex",
        "tools": [{"type": "mcp"}],
        "tool_choice": "auto",
        "parallel_tool_calls": True,
        "text": {"format": {"type": "text"}, "verbosity": "low"},
        "include": [SEALED],
        "reasoning": {"effort": "low"},
    }
    made = passed(original, terms(supported=frozenset()), effort="low")
    assert set(made) == {"model", "input", "store", "stream"}


def test_what_it_lists_is_sent() -> None:
    original = {
        "temperature": 1,
        "top_logprobs": 2.0,
        "service_tier": "fast",
        "foo": 1,
        "seed": 4,
        "text": {"format": {"type": "text"}, "verbosity": None},
        "max_output_tokens": 50,
        "include": ["code_interpreter_call.outputs", SEALED],
    }
    at = terms(supported=USUAL | {"foo", "seed"}, output_cap=20)
    made = passed(original, at, max_output_tokens=50, stream=True)
    assert made == {
        "model": "up-1",
        "input": "hi",
        "store": False,
        "stream": True,
        "temperature": 1,
        "top_logprobs": 2,
        "service_tier": "priority",
        "foo": 1,
        "seed": 4,
        "text": {"format": {"type": "text"}},
        "max_output_tokens": 20,
        "include": ["code_interpreter_call.outputs", SEALED],
    }


@pytest.mark.parametrize(
    ("given", "wishes", "reasoning", "include"),
    [
        (None, {}, None, [SEALED]),
        ({"effort": None, "summary": "auto"}, {}, {"summary": "auto"}, [SEALED]),
        ({"enabled": True}, {"effort": "medium"}, {"effort": "medium"}, [SEALED]),
        ({"enabled": False}, {"effort": "none"}, {"effort": "none"}, None),
        (
            {"max_tokens": 20, "mode": "pro", "context": "auto"},
            {"effort": "low"},
            {"effort": "low", "mode": "pro", "context": "auto"},
            [SEALED],
        ),
    ],
)
def test_reasoning_is_resolved_and_always_sealed(
    given: Any, wishes: dict[str, Any], reasoning: Any, include: Any
) -> None:
    made = passed({"reasoning": given}, **wishes)
    assert made.get("reasoning") == reasoning
    assert made.get("include") == include


def test_items_that_mean_nothing_to_the_upstream_are_left_out() -> None:
    own = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "E"}
    text = [{"type": "reasoning_text", "text": "t"}]
    made_here = f"rs_{'a' * 32}_0"
    items = [
        {"type": "reasoning", "id": made_here, "summary": [], "content": text},
        {"type": "reasoning", "id": "rs_2", "summary": [], "content": text, "format": "unknown"},
        {"type": "reasoning", "id": "rs_3", "summary": [{"type": "summary_text", "text": "s"}]},
        {"type": "router:datetime", "id": "x", "status": "completed"},
        {"type": "reasoning", "summary": [], "signature": "s", "format": "anthropic-claude-v1"},
        {**own, "format": "openai-responses-v1"},
        {"type": "reasoning", "id": "rs_4", "summary": [], "content": text},
        {"role": "user", "content": "hi"},
    ]
    assert passed({"input": items})["input"] == [own, *items[-2:]]


def test_the_callers_own_body_is_left_as_it_is() -> None:
    original = {"input": ITEMS, "include": [SEALED], "reasoning": {"effort": "low"}}
    before = repr(original)
    passed(original, effort="low")
    assert repr(original) == before
    assert prompt().original is None
