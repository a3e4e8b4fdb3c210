"""What a messages body means as a chat body (inference 11)."""

import base64
from typing import Any

import pytest

from routing.formats.chat.request import parse_chat
from routing.formats.reasoning import Reasoning
from tests.routing.formats.messages.bodies import (
    EPHEMERAL,
    IMAGE,
    RESULT,
    TEXT,
    TOOL,
    USE,
    USER,
    chat_of,
    document,
    message_by,
    parse_fields,
)

CALL = {"id": "t1", "type": "function", "function": {"name": "f", "arguments": '{"a":[1,"é"]}'}}
THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
REDACTED = {"type": "redacted_thinking", "data": "ZGF0YQ"}
CLAUDE = {"id": None, "format": "anthropic-claude-v1"}
DETAILS = [
    {"type": "reasoning.text", "text": "hm", "signature": "c2ln", "index": 0, **CLAUDE},
    {"type": "reasoning.encrypted", "data": "ZGF0YQ", "index": 1, **CLAUDE},
]
DATA_URL = "data:image/png;base64,AAAA"


def parts_of(*blocks: dict[str, Any]) -> Any:
    [message] = chat_of(message_by("user", *blocks))
    return message["content"]


def test_one_assistant_turn_is_one_message() -> None:
    turn = message_by("assistant", THOUGHT, REDACTED, TEXT, USE)
    assert chat_of(USER, turn) == [
        USER,
        {"role": "assistant", "content": "x", "reasoning_details": DETAILS, "tool_calls": [CALL]},
    ]
    assert chat_of(message_by("assistant", USE))[0]["content"] is None
    assert chat_of(message_by("assistant")) == [{"role": "assistant", "content": None}]


def test_results_stand_before_the_rest_of_their_message() -> None:
    results = [
        {**RESULT, "tool_use_id": "t2", "is_error": True},
        {**RESULT, "content": [TEXT, IMAGE], "cache_control": EPHEMERAL},
    ]
    called = message_by("assistant", USE, {**USE, "id": "t2"})
    image = {"type": "image_url", "image_url": {"url": DATA_URL}, "cache_control": EPHEMERAL}
    assert chat_of(called, message_by("user", TEXT, *results, TEXT))[1:] == [
        {"role": "tool", "tool_call_id": "t2", "content": "r", "is_error": True},
        {"role": "tool", "tool_call_id": "t1", "content": [TEXT, image]},
        {"role": "user", "content": [TEXT, TEXT]},
    ]


def test_a_result_may_be_empty_or_a_text_with_a_mark() -> None:
    def content(**fields: Any) -> Any:
        result = {"type": "tool_result", "tool_use_id": "t1", **fields}
        return chat_of(message_by("assistant", USE), message_by("user", result))[1]["content"]

    assert content() == content(content="") == content(content=[]) == ""
    marked = {"type": "text", "text": "r", "cache_control": EPHEMERAL}
    assert content(content="r", cache_control=EPHEMERAL) == [marked]
    assert content(content=[{"type": "tool_reference", "tool_name": "g"}]) == "g"


def test_images_and_search_results() -> None:
    for source, url in (
        (IMAGE["source"], DATA_URL),
        ({"type": "url", "url": "https://x/y.png"}, "https://x/y.png"),
    ):
        block = {"type": "image", "source": source, "cache_control": EPHEMERAL}
        image = {"type": "image_url", "image_url": {"url": url}, "cache_control": EPHEMERAL}
        assert parts_of(block) == [image]
    block = {"type": "search_result", "source": "http://s", "title": "T", "content": [TEXT, TEXT]}
    assert parts_of(block) == "T\nhttp://s\n\nx\nx"


def test_documents_of_text_are_files() -> None:
    def file_of(source: str, **fields: Any) -> Any:
        [part] = parts_of(document(source, **fields))
        return part["file"]

    encoded = base64.b64encode("é".encode()).decode()
    plain = {"file_data": f"data:text/plain;base64,{encoded}"}
    assert file_of("text", media_type="text/plain", data="é") == plain
    assert file_of("content", content="é") == plain


def test_what_a_document_says_of_itself_stays() -> None:
    about = {"title": "T", "context": "C", "cache_control": EPHEMERAL}
    parts = parts_of(document("content", content=[TEXT, IMAGE]) | about)
    assert [part.get("text") for part in parts] == ["T", "C", "x", None]
    assert [part.get("cache_control") for part in parts] == [None, None, None, EPHEMERAL]
    file = document("file", file_id="f") | {"context": "C"}
    assert [part["type"] for part in parts_of(file)] == ["text", "file"]


def original_of(*messages: dict[str, Any]) -> list[dict[str, Any]]:
    original = parse_fields(messages=list(messages)).original
    assert original is not None
    kept: list[dict[str, Any]] = original["messages"]
    return kept


def test_what_only_message_upstreams_understand_is_left_out_and_kept_in_the_original() -> None:
    use = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
    found: dict[str, Any] = {"type": "web_search_tool_result", "tool_use_id": "s", "content": []}
    turn = message_by("assistant", use, found, {"type": "compaction", "content": "c"})
    assert chat_of(message_by("user", TEXT), turn) == [{"role": "user", "content": "x"}]
    assert original_of(message_by("user", TEXT), turn)[1] == turn
    assert chat_of(turn) == [{"role": "user", "content": ""}]
    # An answer of the gateway's own tools does not even reach message upstreams.
    shell = {"type": "router_shell_tool_result", "tool_use_id": "s", "content": {}}
    other = {**use, "id": "other"}
    kept = original_of(USER, message_by("assistant", use, shell, other, TEXT))
    assert kept == [USER, message_by("assistant", other, TEXT)]
    assert original_of(USER, message_by("assistant", use, shell)) == [USER]


THINKING = {"type": "enabled", "budget_tokens": 2048.0}
ADAPTIVE = {"type": "adaptive"}


@pytest.mark.parametrize(
    ("thinking", "effort", "reasoning"),
    [
        (None, None, None),
        (THINKING, None, Reasoning(max_tokens=2048)),
        (THINKING, "low", Reasoning("low", 2048)),
        ({"type": "disabled"}, None, Reasoning("none", enabled=False)),
        (ADAPTIVE, None, Reasoning("medium", enabled=True)),
        ({"type": "between_tools"}, None, Reasoning("medium", enabled=True)),
        (ADAPTIVE, "max", Reasoning("max", enabled=True)),
        (None, "high", Reasoning("high")),
    ],
)
def test_thinking_and_effort_are_reasoning(thinking: Any, effort: Any, reasoning: Any) -> None:
    request = parse_fields(thinking=thinking, output_config={"effort": effort})
    assert request.reasoning == reasoning
    assert ("reasoning" in request.supplied_parameters) == (reasoning is not None)


def test_the_output_format_is_a_response_format() -> None:
    schema = {"type": "object", "properties": {}}
    request = parse_fields(output_config={"format": {"type": "json_schema", "schema": schema}})
    assert request.response_format_type == "json_schema"
    form = request.body["response_format"]["json_schema"]
    assert (form["schema"], form["strict"]) == (schema, True)


def test_the_plain_parameters() -> None:
    same: dict[str, Any] = {
        "temperature": 1,
        "top_p": 0.5,
        "stream": True,
        "cache_control": EPHEMERAL,
        "trace": {"trace_id": "x", "own": 1},
        "provider": {"only": ["alpha"]},
        "preset": "p",
        "route": "sort",
    }
    stops = list("abcdef")
    given = {"max_tokens": 5.0, "top_k": 3.0, "stop_sequences": stops}
    body = parse_fields(**same, **given, metadata={"user_id": "u"}, context_management={}).body
    expected = {**same, "max_completion_tokens": 5, "top_k": 3, "stop": stops, "user": "u"}
    assert {name: body[name] for name in expected} == expected
    assert type(body["max_completion_tokens"]) is type(body["top_k"]) is int
    assert not {"max_tokens", "metadata", "context_management"} & set(body)
    assert parse_fields(user="mine", metadata={"user_id": "u"}).user == "mine"
    assert "stop" not in parse_fields(stop_sequences=[]).body


def test_the_translation_is_a_chat_body() -> None:
    unsigned = {"type": "thinking", "thinking": "hm", "signature": ""}
    request = parse_fields(
        system=[TEXT],
        messages=[
            USER,
            message_by("assistant", THOUGHT, unsigned, USE),
            message_by("user", RESULT, IMAGE),
        ],
        tools=[TOOL],
        tool_choice={"type": "any"},
        thinking={"type": "enabled", "budget_tokens": 1024},
        output_config={"format": {"type": "json_schema", "schema": {}}},
        stop_sequences=["a"],
        fallbacks=[{"model": "b"}],
        service_tier="standard_only",
    )
    again = parse_chat(request.body, session_header=None)
    for name in ("candidates", "reasoning", "supplied_parameters", "text_bytes"):
        assert getattr(again, name) == getattr(request, name)
    assert (request.format, again.format) == ("messages", "chat")
