"""What the fields of a body are in chat (inference 11)."""

from typing import Any

import pytest

from routing.formats.reasoning import Reasoning
from tests.routing.formats.responses.bodies import parse_fields


def fields(**given: Any) -> dict[str, Any]:
    """The translated body without what every body here has."""
    translated = dict(parse_fields(**given).body)
    del translated["messages"], translated["model"]
    return translated


SHAPE = {"name": "n", "schema": {}}
LOW = {"effort": "low", "summary": "auto"}
NULLS = (
    *("instructions", "max_output_tokens", "max_tool_calls", "temperature", "top_p", "reasoning"),
    *("frequency_penalty", "presence_penalty", "top_logprobs", "parallel_tool_calls", "include"),
    *("metadata", "previous_response_id", "background", "prompt", "truncation", "provider"),
    *("prompt_cache_key", "prompt_cache_options", "service_tier", "safety_identifier", "route"),
)


@pytest.mark.parametrize(
    ("given", "translated"),
    [
        ({"max_output_tokens": 5.0}, {"max_completion_tokens": 5}),
        ({"top_logprobs": 3.0}, {"logprobs": True, "top_logprobs": 3}),
        ({"top_logprobs": 0}, {}),
        ({"include": ["message.output_text.logprobs"]}, {"logprobs": True}),
        ({"include": ["web_search_call.results"]}, {}),
        ({"top_k": 5.0}, {"top_k": 5}),
        ({"seed": 7.0}, {"seed": 7}),
        ({"stop": ["x"]}, {"stop": ["x"]}),
        ({"temperature": 0, "top_p": 1}, {"temperature": 0, "top_p": 1}),
        ({"text": {"verbosity": "low"}}, {"verbosity": "low"}),
        ({"text": {"format": {"type": "text"}}}, {}),
        (
            {"text": {"format": {"type": "json_object"}}},
            {"response_format": {"type": "json_object"}},
        ),
        (
            {"text": {"format": {"type": "json_schema", **SHAPE, "strict": None}}},
            {"response_format": {"type": "json_schema", "json_schema": SHAPE}},
        ),
        ({"reasoning": {**LOW, "max_tokens": None, "mode": "pro"}}, {"reasoning": LOW}),
        ({"reasoning": {"max_tokens": 9.0}}, {"reasoning": {"max_tokens": 9}}),
        ({"safety_identifier": "s"}, {"user": "s"}),
        ({"safety_identifier": "s", "user": "u"}, {"user": "u"}),
        ({"safety_identifier": "s", "user": ""}, {"user": "s"}),
        ({"truncation": "auto"}, {"transforms": ["middle-out"]}),
        ({"truncation": "disabled"}, {"transforms": []}),
        ({"parallel_tool_calls": False}, {"parallel_tool_calls": False}),
        ({"prompt_cache_key": "k", "include": []}, {"prompt_cache_key": "k"}),
        ({"metadata": {"a": "b"}}, {"metadata": {"a": "b"}}),
        ({"store": False, "background": None, "previous_response_id": None}, {}),
        ({"zz": None, "yy": [1]}, {"zz": None, "yy": [1]}),
        ({"messages": 5, "max_tokens": "x", "n": 9, "reasoning_effort": 5}, {}),
        (dict.fromkeys(NULLS), {}),
    ],
)
def test_fields(given: dict[str, Any], translated: dict[str, Any]) -> None:
    assert fields(**given) == translated
    # The original is the caller's own.
    assert parse_fields(**given).original == {"model": "acme/small", "input": "hi", **given}


def test_what_the_pipeline_asks_about() -> None:
    request = parse_fields(
        max_output_tokens=7,
        reasoning={"enabled": True, "summary": "concise"},
        service_tier="fast",
        stream=True,
        debug={"echo_upstream_body": True},
        models=["c/d"],
        text={"format": {"type": "json_object"}},
        modalities=["text", "image"],
    )
    expected = {
        "format": "responses",
        "max_output_tokens": 7,
        "reasoning": Reasoning(effort="medium", enabled=True, summary="concise"),
        "service_tier": "priority",
        "stream": True,
        "echo_upstream_body": True,
        "candidates": ["acme/small", "c/d"],
        "response_format_type": "json_object",
        "output_modalities": {"text", "image"},
        "supplied_parameters": {"max_completion_tokens", "reasoning", "response_format"},
    }
    assert {name: getattr(request, name) for name in expected} == expected
