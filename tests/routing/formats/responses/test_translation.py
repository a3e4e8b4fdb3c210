"""What the fields of a body are in chat (inference 11)."""

from typing import Any

import pytest

from routing.formats.reasoning import Reasoning
from tests.routing.formats.responses.bodies import accepted


def fields(**given: Any) -> dict[str, Any]:
    """The translated body without what every body here has."""
    translated = dict(accepted(**given).body)
    del translated["messages"], translated["model"]
    return translated


@pytest.mark.parametrize(
    ("given", "translated"),
    [
        ({"max_output_tokens": 5.0}, {"max_completion_tokens": 5}),
        ({"top_logprobs": 3.0}, {"logprobs": True, "top_logprobs": 3}),
        ({"top_logprobs": 0}, {}),
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
            {
                "text": {
                    "format": {"type": "json_schema", "name": "n", "schema": {}, "strict": None}
                }
            },
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "n", "schema": {}},
                }
            },
        ),
        (
            {"reasoning": {"effort": "low", "summary": "auto", "max_tokens": None, "mode": "pro"}},
            {"reasoning": {"effort": "low", "summary": "auto"}},
        ),
        ({"reasoning": {"max_tokens": 9.0}}, {"reasoning": {"max_tokens": 9}}),
        ({"reasoning": None}, {}),
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
    ],
)
def test_fields(given: dict[str, Any], translated: dict[str, Any]) -> None:
    assert fields(**given) == translated


def test_nulls_ask_for_nothing() -> None:
    nulls = dict.fromkeys(
        (
            *("instructions", "max_output_tokens", "max_tool_calls", "temperature", "top_p"),
            *("frequency_penalty", "presence_penalty", "top_logprobs", "parallel_tool_calls"),
            *("reasoning", "include", "metadata", "previous_response_id", "background", "prompt"),
            *("truncation", "prompt_cache_key", "prompt_cache_options", "service_tier"),
            *("safety_identifier", "provider", "route"),
        )
    )
    assert fields(**nulls) == {}


def test_what_the_pipeline_asks_about() -> None:
    request = accepted(
        max_output_tokens=7,
        reasoning={"enabled": True, "summary": "concise"},
        service_tier="fast",
        stream=True,
        debug={"echo_upstream_body": True},
        models=["c/d"],
        text={"format": {"type": "json_object"}},
        modalities=["text", "image"],
    )
    assert request.format == "responses"
    assert request.max_output_tokens == 7
    assert request.reasoning == Reasoning(effort="medium", enabled=True, summary="concise")
    assert request.service_tier == "priority"
    assert request.stream
    assert request.echo_upstream_body
    assert request.candidates == ["acme/small", "c/d"]
    assert request.response_format_type == "json_object"
    assert request.output_modalities == {"text", "image"}
    assert request.supplied_parameters == {"max_completion_tokens", "reasoning", "response_format"}


def test_the_original_is_the_callers_own() -> None:
    given = {"text": {"verbosity": "low"}, "zz": 1}
    assert accepted(**given).original == {"model": "acme/small", "input": "hi", **given}
