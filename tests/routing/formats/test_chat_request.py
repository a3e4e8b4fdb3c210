"""What is read from a chat body that passed."""

from typing import Any

import pytest

from gateway.http.jsonio import dumps
from routing.formats.reasoning import Reasoning
from tests.routing.formats.chat_bodies import (
    BODIES,
    CALL,
    DATA_URL,
    FUNCTION,
    USER,
    expect_refusal,
    parse_fields,
    paths,
)

IMAGE = {"type": "image_url", "image_url": {"url": DATA_URL}}


def test_a_minimal_body_has_plain_defaults() -> None:
    request = BODIES.parse({"messages": [USER]})
    assert (request.model, request.candidates, request.session_id) == (None, [], None)
    assert (request.stream, request.max_output_tokens) == (False, None)
    assert (request.provider, request.reasoning) == (None, None)
    assert (request.plugins, request.server_tools) == ([], [])
    assert not request.input_modalities
    assert request.output_modalities == {"text"}
    assert request.supplied_parameters == frozenset()
    assert (request.message_count, request.media_parts) == (1, 0)


@pytest.mark.parametrize(
    ("fields", "candidates"),
    [
        ({"model": "a", "models": ["b", "a", "c"]}, ["a", "b", "c"]),
        ({"model": "a", "models": []}, ["a"]),
        ({"models": ["b", "c", "b"]}, ["b", "c"]),
    ],
)
def test_candidates_keep_their_order_without_duplicates(
    fields: dict[str, Any], candidates: list[str]
) -> None:
    assert BODIES.parse({"messages": [USER], **fields}).candidates == candidates


def test_the_newer_spelling_of_the_output_limit_wins() -> None:
    assert parse_fields(max_tokens=5, max_completion_tokens=7).max_output_tokens == 7
    limit = parse_fields(max_tokens=5.0, max_completion_tokens=None).max_output_tokens
    assert repr(limit) == "5"


@pytest.mark.parametrize(
    ("fields", "reasoning"),
    [
        ({"include_reasoning": True}, Reasoning()),
        ({"include_reasoning": False}, Reasoning(exclude=True)),
        ({"reasoning": {}}, Reasoning()),
        ({"reasoning": {"exclude": False}, "include_reasoning": False}, Reasoning()),
        (
            {"reasoning": {"effort": "low"}, "include_reasoning": False},
            Reasoning("low", None, True),
        ),
        ({"reasoning_effort": "high"}, Reasoning("high")),
        ({"reasoning": {"effort": None}, "reasoning_effort": "high"}, Reasoning("high")),
        ({"reasoning": {"enabled": True}}, Reasoning("medium", enabled=True)),
        ({"reasoning": {"enabled": True, "max_tokens": 9}}, Reasoning(None, 9, enabled=True)),
        ({"reasoning": {"enabled": False}}, Reasoning("none", enabled=False)),
        ({"reasoning": {"summary": "auto", "max_tokens": 5.0}}, Reasoning(None, 5, summary="auto")),
        ({"reasoning_effort": None, "include_reasoning": None}, None),
    ],
)
def test_reasoning_and_its_shorthands_become_one(
    fields: dict[str, Any], reasoning: Reasoning | None
) -> None:
    assert parse_fields(**fields).reasoning == reasoning


SHAPE = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}}


@pytest.mark.parametrize(
    ("fields", "required"),
    [
        ({}, set()),
        ({"temperature": 0.5, "top_k": 3}, {"temperature", "top_k"}),
        ({"max_tokens": 5}, {"max_tokens"}),
        ({"max_completion_tokens": 5}, {"max_tokens"}),
        ({"max_tokens": 5, "max_completion_tokens": 5}, {"max_tokens"}),
        ({"reasoning": {"effort": "low"}}, {"reasoning"}),
        ({"reasoning_effort": "low"}, {"reasoning"}),
        ({"include_reasoning": False}, {"reasoning"}),
        ({"response_format": {"type": "json_object"}}, {"response_format"}),
        ({"response_format": SHAPE}, {"response_format", "structured_outputs"}),
        ({"tools": [FUNCTION], "tool_choice": "auto"}, {"tools", "tool_choice"}),
        # Nothing is asked for by these.
        ({"temperature": None, "tools": [], "logit_bias": {}, "reasoning": {}}, set()),
        ({"stream": True, "user": "u", "metadata": {"a": "b"}, "provider": {"zdr": True}}, set()),
        ({"models": ["acme/x"], "session_id": "s", "trace": {}, "service_tier": "flex"}, set()),
        ({"foo": 1}, set()),
    ],
)
def test_what_an_endpoint_must_support(fields: dict[str, Any], required: set[str]) -> None:
    assert parse_fields(**fields).required_parameters == required


def test_small_readings() -> None:
    plain: dict[str, Any] = {"user": "u", "trace": {"trace_id": "t"}, "metadata": {"a": "b"}}
    tools = [FUNCTION, {"type": "web_search"}, {"type": "router:web_search"}]
    request = parse_fields(
        **plain, preset="p", service_tier="fast", modalities=["image", "text"], tools=tools
    )
    assert {name: getattr(request, name) for name in plain} == plain
    assert (request.preset, request.service_tier) == ("p", "priority")
    assert request.output_modalities == {"image", "text"}
    assert (request.server_tools, request.tools_given) == (["router:web_search"], True)


def test_the_echo_needs_a_stream() -> None:
    debug = {"echo_upstream_body": True}
    assert parse_fields(debug=debug, stream=True).echo_upstream_body is True
    assert parse_fields(debug=debug).echo_upstream_body is False
    assert parse_fields(debug={}, stream=True).echo_upstream_body is False


def test_text_is_measured_in_bytes_and_characters() -> None:
    request = parse_fields(messages=[{"role": "user", "content": "é😀a"}])
    assert (request.text_bytes, request.prompt_text_chars) == (7, 3)
    assert parse_fields(messages=[{"role": "user", "content": "é" * 200_000}]).text_bytes == 400_000


def test_everything_that_becomes_prompt_text_is_counted() -> None:
    details = [{"type": "reasoning.encrypted", "data": "dddd"}]
    thought = {"reasoning": "xyz", "tool_calls": [CALL], "reasoning_details": details}
    request = parse_fields(
        messages=[
            {"role": "system", "content": [{"type": "text", "text": "12345"}]},
            {"role": "user", "content": "1234", "name": "ab"},
            {"role": "assistant", "content": None, **thought},
            {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "7"}]},
        ],
        tools=[FUNCTION],
        response_format=SHAPE,
    )
    call = len(CALL["function"]["name"] + CALL["function"]["arguments"])
    as_json = sum(len(dumps(value)) for value in (details, [FUNCTION], SHAPE))
    assert request.text_bytes == 5 + 4 + 2 + 3 + call + 1 + as_json
    assert request.message_count == 4


def test_media_parts_and_their_modalities_are_counted() -> None:
    parts = [
        IMAGE,
        {"type": "text", "text": "x"},
        {"type": "input_audio", "input_audio": {"data": "AA", "format": "wav"}},
        {"type": "input_video", "video_url": {"url": "http://x/"}},
        {"type": "file", "file": {"file_id": "f"}},
    ]
    said = [{"role": "user", "content": parts}, {"role": "assistant", "images": [IMAGE]}]
    request = parse_fields(messages=said)
    assert (request.media_parts, request.text_bytes) == (5, 1)
    assert request.input_modalities == {"image", "audio", "video", "file"}


def test_large_texts_are_not_copied_and_many_messages_are_read() -> None:
    text = "x" * 100_000
    [message] = parse_fields(messages=[{"role": "user", "content": text}]).body["messages"]
    assert message["content"] is text
    request = parse_fields(messages=[USER] * 100_000)
    assert (request.message_count, request.text_bytes) == (100_000, 200_000)


# Functions as they were called before there were tools: read as tools, answered as functions.
F: dict[str, Any] = FUNCTION["function"]
CALLED: dict[str, Any] = {"name": "f", "arguments": "{not json"}
CALLING: dict[str, Any] = {"role": "assistant", "content": None, "function_call": CALLED}
FOUND: dict[str, Any] = {"role": "function", "name": "f", "content": "42"}


def test_functions_are_tools_of_which_one_is_called() -> None:
    request = parse_fields(functions=[F], function_call={"name": "f"})
    assert (request.offers_functions, request.tools_given) == (True, True)
    assert not {"functions", "function_call"} & set(request.body)
    assert request.body["tools"] == [FUNCTION]
    assert request.body["tool_choice"] == {"type": "function", "function": {"name": "f"}}
    assert request.body["parallel_tool_calls"] is False
    datetime = {"type": "router:datetime"}
    assert parse_fields(tools=[datetime], functions=[F]).body["tools"] == [datetime, FUNCTION]
    for choice in ("auto", "none"):
        assert parse_fields(functions=[F], function_call=choice).body["tool_choice"] == choice
        assert parse_fields(function_call=choice).body["tool_choice"] == choice
    none_offered: list[Any] = [{"functions": []}, {"functions": None, "function_call": None}]
    for absent in none_offered:
        request = parse_fields(**absent)
        assert (request.offers_functions, request.tools_given) == (False, False)
        assert "parallel_tool_calls" not in request.body


def test_calls_of_functions_and_their_results_find_each_other() -> None:
    request = parse_fields(messages=[USER, CALLING, FOUND, CALLING, {**FOUND, "content": None}])
    first, second = ({"id": each, "type": "function"} for each in ("call00001", "call00003"))
    assert request.body["messages"] == [
        USER,
        {"role": "assistant", "content": None, "tool_calls": [{**first, "function": CALLED}]},
        {"role": "tool", "tool_call_id": "call00001", "content": "42"},
        {"role": "assistant", "content": None, "tool_calls": [{**second, "function": CALLED}]},
        {"role": "tool", "tool_call_id": "call00003", "content": ""},
    ]
    assert not request.offers_functions
    none: tuple[Any, ...] = (None, {"name": "", "arguments": ""})
    for empty in none:
        plain = {"role": "assistant", "content": "Hi"}
        assert parse_fields(messages=[{**plain, "function_call": empty}]).body["messages"] == [
            plain
        ]


def test_what_is_wrong_with_functions_is_named_in_the_callers_words() -> None:
    stray = expect_refusal(messages=[USER, CALLING, FOUND, FOUND])
    assert [issue.path for issue in stray.issues] == ["messages.3.name"]
    assert stray.error_type == "invalid_prompt"
    assert paths(functions=[{"name": "no spaces"}]) == ["functions.0.name"]
    assert paths(functions=[F], function_call={"name": "g"}) == ["function_call.name"]
    assert paths(functions=[F], function_call="required") == ["function_call"]
    assert paths(functions=[F], function_call="auto", tool_choice="auto") == ["function_call"]
    assert paths(messages=[{"role": "function", "content": "42"}]) == ["messages.0.name"]
