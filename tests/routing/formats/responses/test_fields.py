"""The top level of a responses body: every field and bound (inference 5.1, rows 68 and 69)."""

from typing import Any

import pytest

from tests.routing.formats.responses.bodies import accepted, body, paths, refused, text_of

GOOD: list[tuple[str, list[Any]]] = [
    ("model", ["acme/small"]),
    ("models", [[], ["a/b", "c/d", "e/f"]]),
    ("input", ["", "hi", [{"role": "user", "content": "hi"}]]),
    ("instructions", ["be brief", "", None]),
    ("max_output_tokens", [1, 5.0, None]),
    ("max_tool_calls", [1, 30, None]),
    ("stop_server_tools_when", [[{"type": "step_count_is", "step_count": 1}]]),
    ("temperature", [0, 2, 1.5, None]),
    ("top_p", [0, 1, None]),
    ("top_k", [0, -1, 40, 5.0]),
    ("frequency_penalty", [-2, 2, None]),
    ("presence_penalty", [-2, 2, None]),
    ("top_logprobs", [0, 20, None]),
    ("tools", [[]]),
    ("tool_choice", ["auto", "none"]),
    ("parallel_tool_calls", [True, False, None]),
    ("modalities", [["text"], ["text", "image"], []]),
    ("image_config", [{}, {"aspect_ratio": "1:1", "n": 1, "sizes": [1]}]),
    ("metadata", [{}, {"k" * 64: "v" * 512}, {str(n): "" for n in range(16)}, None]),
    ("previous_response_id", [None]),
    ("store", [False]),
    ("background", [False, None]),
    ("prompt", [None]),
    ("truncation", ["auto", "disabled", None]),
    ("prompt_cache_key", ["k", None]),
    ("prompt_cache_options", [{"mode": "explicit"}, None]),
    ("cache_control", [{"type": "ephemeral", "ttl": "1h"}]),
    ("service_tier", ["auto", "default", "fast", "flex", "priority", "scale", None]),
    ("safety_identifier", ["s", None]),
    ("user", ["", "é" * 256]),
    ("session_id", ["", "s" * 256]),
    ("trace", [{"trace_id": "t", "own": [1]}]),
    ("debug", [{"echo_upstream_body": True}]),
    ("plugins", [[{"id": "moderation"}]]),
    ("provider", [{"order": ["alpha"]}, None]),
    ("route", ["fallback", "sort", None]),
    ("stream", [True, False]),
    ("preset", ["p"]),
    (
        "include",
        [
            None,
            [],
            [
                "file_search_call.results",
                "message.input_image.image_url",
                "computer_call_output.output.image_url",
                "reasoning.encrypted_content",
                "code_interpreter_call.outputs",
            ],
        ],
    ),
    ("min_p", [0, 0.5, None]),
    ("stop", ["x", ["a", "b", "c", "d"], None]),
    ("seed", [2**63 - 1, -(2**63), None]),
    ("logit_bias", [{"50256": -100}, None]),
    ("repetition_penalty", [2, None]),
    ("top_a", [1, None]),
]
BAD: list[tuple[str, list[Any]]] = [
    ("model", [5]),
    ("models", [["a/b"] * 4, "a/b"]),
    ("input", [None, 5, {}, []]),
    ("instructions", [5, [], {}]),
    ("max_output_tokens", [0, -1, 5.5, "5", True]),
    ("max_tool_calls", [0, 31, 1.5, "1"]),
    ("stop_server_tools_when", [[]]),
    ("temperature", [-0.1, 2.1, "1", True]),
    ("top_p", [-0.1, 1.1]),
    ("top_k", [1.5]),
    ("frequency_penalty", [-2.1, 2.1]),
    ("presence_penalty", [-2.1, 2.1]),
    ("top_logprobs", [-1, 21, 1.5]),
    ("tools", [{}]),
    ("tool_choice", ["any", 5, "required"]),
    ("parallel_tool_calls", ["true", 1]),
    ("modalities", ["text"]),
    ("image_config", [[]]),
    ("metadata", [[], {str(n): "" for n in range(17)}]),
    ("previous_response_id", ["r1", "", 0]),
    ("store", [True, 0]),
    ("background", [True, "false"]),
    ("prompt", [{"id": "pmpt_1"}, "pmpt_1"]),
    ("truncation", ["middle"]),
    ("prompt_cache_key", [5]),
    ("service_tier", ["fastest", 5]),
    ("safety_identifier", [5]),
    ("user", ["é" * 257, 5]),
    ("session_id", ["s" * 257]),
    ("trace", ["t"]),
    ("debug", [5]),
    ("provider", ["alpha"]),
    ("route", ["x"]),
    ("stream", ["true", 1]),
    ("preset", [5]),
    ("include", ["file_search_call.results", "web_search_call.action.sources"]),
    ("stop", [5, ["x"] * 5]),
    ("seed", [2**63, "1"]),
]


@pytest.mark.parametrize(("name", "values"), GOOD, ids=[name for name, _ in GOOD])
def test_values_within_bounds(name: str, values: list[Any]) -> None:
    for value in values:
        assert accepted(**{name: value}).original == body(**{name: value})


@pytest.mark.parametrize(("name", "values"), BAD, ids=[name for name, _ in BAD])
def test_values_out_of_bounds(name: str, values: list[Any]) -> None:
    for value in values:
        assert {path.partition(".")[0] for path in paths(**{name: value})} == {name}, value


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"include": ["message.output_text"]}, "include.0"),
        ({"conversation": "conv_1"}, "conversation"),
        ({"conversation": {"id": "conv_1"}}, "conversation"),
        ({"modalities": ["audio"]}, "modalities.0"),
        ({"metadata": {"k" * 65: ""}}, "metadata." + "k" * 64 + "…"),
        ({"metadata": {"a[0]": ""}}, "metadata.a[0]"),
        ({"metadata": {"a]": ""}}, "metadata.a]"),
        ({"metadata": {"k": "v" * 513}}, "metadata.k"),
        ({"metadata": {"k": 5}}, "metadata.k"),
        ({"provider": {"zz": 1}}, "provider"),
        ({"plugins": [{"id": "nope"}]}, "plugins.0.id"),
        ({"trace": {"trace_id": 5}}, "trace.trace_id"),
        ({"text": []}, "text"),
        ({"text": {"format": "text"}}, "text.format"),
        ({"text": {"format": {"type": "grammar"}}}, "text.format.type"),
        ({"text": {"format": {"type": "json_schema", "schema": {}}}}, "text.format.name"),
        ({"text": {"format": {"type": "json_schema", "name": "n"}}}, "text.format.schema"),
        ({"text": {"verbosity": "loud"}}, "text.verbosity"),
        ({"reasoning": "high"}, "reasoning"),
        ({"reasoning": {"effort": "huge"}}, "reasoning.effort"),
        ({"reasoning": {"summary": "long"}}, "reasoning.summary"),
        ({"reasoning": {"enabled": "yes"}}, "reasoning.enabled"),
        ({"reasoning": {"max_tokens": -1}}, "reasoning.max_tokens"),
        ({"reasoning": {"context": "some"}}, "reasoning.context"),
        ({"reasoning": {"mode": "fast"}}, "reasoning.mode"),
    ],
)
def test_values_are_checked_inside(fields: dict[str, Any], path: str) -> None:
    assert paths(**fields) == [path]


def test_every_part_of_reasoning_may_be_null() -> None:
    names = ("effort", "summary", "enabled", "max_tokens", "context", "mode")
    accepted(reasoning=None)
    accepted(reasoning=dict.fromkeys(names))
    accepted(text={"verbosity": None})


def test_input_is_required() -> None:
    assert paths(input=None) == ["input"]
    fields = body()
    del fields["input"]
    assert text_of(input=5).startswith("input: Invalid input: expected string or array")


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"previous_response_id": "r1"}, "send the whole conversation"),
        ({"store": True}, "nothing is stored"),
        ({"background": True}, "not offered"),
        ({"prompt": {"id": "p"}}, "send instructions"),
    ],
)
def test_row_68_what_needs_a_memory_is_refused_in_clear_words(
    fields: dict[str, Any], words: str
) -> None:
    [name] = fields
    error = refused(**fields)
    assert error.error_type == "invalid_request"
    assert str(error).startswith(f"{name}: Invalid input: ")
    assert words in str(error)


def test_row_69_step_bounds_do_not_hold_beside_stop_conditions() -> None:
    conditions = [{"type": "max_cost", "max_cost_in_dollars": 1}]
    assert text_of(max_tool_calls=31) == "max_tool_calls: Too big: expected number to be <=30"
    accepted(max_tool_calls=31, stop_server_tools_when=conditions)


def test_the_session_header_is_measured_and_gives_way_to_the_body() -> None:
    assert paths("s" * 257) == ["x-session-id"]
    assert paths("s" * 257, model=5) == ["model", "x-session-id"]
    assert accepted("header").session_id == "header"
    assert accepted("header", session_id="own").session_id == "own"


def test_unknown_fields_are_no_error() -> None:
    assert accepted(zz=1).body["zz"] == 1


def test_log_probabilities_are_asked_for_by_name() -> None:
    assert accepted(include=["message.output_text.logprobs"]).body["logprobs"] is True
    assert "logprobs" not in accepted(include=["web_search_call.results"]).body
