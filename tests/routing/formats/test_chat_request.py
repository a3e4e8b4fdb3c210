"""What is read from a chat body that passed."""

from typing import Any

import pytest
from pydantic import TypeAdapter

from gateway.http.jsonio import dumps
from routing.formats.chat.request import PARAMETER_VOCABULARY, parse_chat
from routing.formats.chat.schema import ChatBody
from routing.formats.fields import RequestJsonSchema
from routing.formats.reasoning import BUDGET_RATIOS, Reasoning, effort_for_budget
from tests.routing.formats.chat_bodies import CALL, DATA_URL, FUNCTION, USER, accepted, chat

IMAGE = {"type": "image_url", "image_url": {"url": DATA_URL}}


def test_a_minimal_body_has_plain_defaults() -> None:
    request = parse_chat({"messages": [USER]}, session_header=None)
    assert request.model is None
    assert request.candidates == []
    assert request.stream is False
    assert request.max_output_tokens is None
    assert request.session_id is None
    assert request.provider is None
    assert request.reasoning is None
    assert request.plugins == []
    assert request.server_tools == []
    assert request.input_modalities == frozenset()
    assert request.output_modalities == {"text"}
    assert request.supplied_parameters == frozenset()
    assert (request.message_count, request.media_parts) == (1, 0)


@pytest.mark.parametrize(
    ("model", "models", "candidates"),
    [
        ("a", ["b", "a", "c"], ["a", "b", "c"]),
        ("a", [], ["a"]),
        (None, ["b", "c", "b"], ["b", "c"]),
    ],
)
def test_candidates_keep_their_order_without_duplicates(
    model: str | None, models: list[str], candidates: list[str]
) -> None:
    body: dict[str, Any] = {"messages": [USER], "models": models}
    if model is not None:
        body["model"] = model
    assert parse_chat(body, session_header=None).candidates == candidates


def test_the_newer_spelling_of_the_output_limit_wins() -> None:
    assert accepted(max_tokens=5, max_completion_tokens=7).max_output_tokens == 7
    assert accepted(max_tokens=5.0, max_completion_tokens=None).max_output_tokens == 5
    assert isinstance(accepted(max_tokens=5.0).max_output_tokens, int)


@pytest.mark.parametrize(
    ("header", "body", "session"),
    [
        ("h", "b", "b"),
        ("h", "", "h"),
        ("", "", None),
        (None, "b", "b"),
    ],
)
def test_row_12_the_session_of_the_body_wins(
    header: str | None, body: str, session: str | None
) -> None:
    assert accepted(header, session_id=body).session_id == session


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
    assert accepted(**fields).reasoning == reasoning


@pytest.mark.parametrize(
    ("budget", "limit", "effort"),
    [(0, 100, "none"), (5, None, "medium"), (12, 100, "minimal"), (50, 100, "medium")],
)
def test_a_budget_becomes_the_nearest_effort(budget: int, limit: int | None, effort: str) -> None:
    assert effort_for_budget(budget, limit) == effort
    assert effort_for_budget(10**40, 1) in BUDGET_RATIOS


def test_supplied_parameters_are_the_vocabulary_words_that_ask_for_something() -> None:
    request = accepted(
        temperature=0, top_p=None, tools=[], stop=[], logit_bias={}, stream=True, foo=1, seed=5
    )
    assert request.supplied_parameters == {"temperature", "seed"}
    assert len(PARAMETER_VOCABULARY) == 26


def test_small_readings() -> None:
    request = accepted(
        service_tier="fast",
        user="u",
        trace={"trace_id": "t"},
        metadata={"a": "b"},
        preset="p",
        modalities=["image", "text"],
        tools=[FUNCTION, {"type": "web_search"}, {"type": "router:web_search"}],
    )
    assert request.service_tier == "priority"
    assert request.user == "u"
    assert request.trace == {"trace_id": "t"}
    assert request.metadata == {"a": "b"}
    assert request.preset == "p"
    assert request.output_modalities == {"image", "text"}
    assert request.server_tools == ["router:web_search"]
    assert request.tools_given


def test_the_echo_needs_a_stream() -> None:
    debug = {"echo_upstream_body": True}
    assert accepted(debug=debug, stream=True).echo_upstream_body is True
    assert accepted(debug=debug).echo_upstream_body is False
    assert accepted(debug={}, stream=True).echo_upstream_body is False


def test_text_is_measured_in_bytes_and_characters() -> None:
    request = accepted(messages=[{"role": "user", "content": "é😀a"}])
    assert (request.text_bytes, request.prompt_text_chars) == (7, 3)
    long = accepted(messages=[{"role": "user", "content": "é" * 200_000}])
    assert long.text_bytes == 400_000


def test_everything_that_becomes_prompt_text_is_counted() -> None:
    details = [{"type": "reasoning.encrypted", "data": "dddd"}]
    response_format = {"type": "json_schema", "json_schema": {"name": "n", "schema": {}}}
    request = accepted(
        messages=[
            {"role": "system", "content": [{"type": "text", "text": "12345"}]},
            {"role": "user", "content": "1234", "name": "ab"},
            {
                "role": "assistant",
                "content": None,
                "reasoning": "xyz",
                "tool_calls": [CALL],
                "reasoning_details": details,
            },
            {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "7"}]},
        ],
        tools=[FUNCTION],
        response_format=response_format,
    )
    call = len(CALL["function"]["name"] + CALL["function"]["arguments"])
    as_json = sum(len(dumps(value)) for value in (details, [FUNCTION], response_format))
    assert request.text_bytes == 5 + 4 + 2 + 3 + call + 1 + as_json
    assert request.message_count == 4


def test_media_parts_and_their_modalities_are_counted() -> None:
    request = accepted(
        messages=[
            {
                "role": "user",
                "content": [
                    IMAGE,
                    {"type": "text", "text": "x"},
                    {"type": "input_audio", "input_audio": {"data": "AA", "format": "wav"}},
                    {"type": "input_video", "video_url": {"url": "http://x/"}},
                    {"type": "file", "file": {"file_id": "f"}},
                ],
            },
            {"role": "assistant", "images": [IMAGE]},
        ]
    )
    assert request.media_parts == 5
    assert request.input_modalities == {"image", "audio", "video", "file"}
    assert request.text_bytes == 1


def test_large_texts_are_not_copied() -> None:
    body = chat(messages=[{"role": "user", "content": "x" * 100_000}])
    request = parse_chat(body, session_header=None)
    assert request.body["messages"][0]["content"] is body["messages"][0]["content"]


def test_a_hundred_thousand_messages_are_read_and_forwarded_as_they_are() -> None:
    messages = [USER] * 100_000
    request = accepted(messages=messages)
    assert request.message_count == 100_000
    assert request.text_bytes == 200_000


def test_the_schema_describes_itself_for_openapi() -> None:
    described = TypeAdapter(ChatBody).json_schema(schema_generator=RequestJsonSchema)
    assert described["required"] == ["messages"]
    assert set(described["properties"]) == set(ChatBody.__annotations__)
    assert described["$defs"]["ToolMessage"]["required"] == ["role", "content", "tool_call_id"]
    assert "UNDEFINED" not in repr(described)
