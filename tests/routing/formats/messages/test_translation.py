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
    accepted,
    chat_of,
    said,
)

CALL = {"id": "t1", "type": "function", "function": {"name": "f", "arguments": '{"a":[1,"é"]}'}}
THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
REDACTED = {"type": "redacted_thinking", "data": "ZGF0YQ"}
DETAILS = [
    {
        "type": "reasoning.text",
        "text": "hm",
        "signature": "c2ln",
        "index": 0,
        "id": None,
        "format": "anthropic-claude-v1",
    },
    {
        "type": "reasoning.encrypted",
        "data": "ZGF0YQ",
        "index": 1,
        "id": None,
        "format": "anthropic-claude-v1",
    },
]


def parts_of(*blocks: dict[str, Any]) -> Any:
    [message] = chat_of(said("user", *blocks))
    return message["content"]


def file_of(**document: Any) -> Any:
    [part] = parts_of({"type": "document", **document})
    return part["file"]


def test_system_and_texts() -> None:
    assert chat_of(USER, system="be") == [{"role": "system", "content": "be"}, USER]
    assert chat_of(USER, system="") == [USER]
    marked = {**TEXT, "cache_control": {**EPHEMERAL, "ttl": "1h"}}
    assert chat_of(USER, system=[TEXT, marked])[0]["content"] == [TEXT, marked]
    assert chat_of(USER, said("system", TEXT))[1] == {"role": "system", "content": "x"}
    assert parts_of({**TEXT, "citations": None, "zz": 1}) == "x"


def test_one_assistant_turn_is_one_message() -> None:
    turn = said("assistant", THOUGHT, REDACTED, TEXT, USE)
    assert chat_of(USER, turn) == [
        USER,
        {"role": "assistant", "content": "x", "reasoning_details": DETAILS, "tool_calls": [CALL]},
    ]
    assert chat_of(said("assistant", USE))[0]["content"] is None
    assert chat_of(said("assistant")) == [{"role": "assistant", "content": None}]


def test_results_stand_before_the_rest_of_their_message() -> None:
    second = {**USE, "id": "t2"}
    results = [
        {**RESULT, "tool_use_id": "t2", "is_error": True},
        {**RESULT, "content": [TEXT, IMAGE], "cache_control": EPHEMERAL},
    ]
    chat = chat_of(said("assistant", USE, second), said("user", TEXT, *results, TEXT))
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    assert chat[1:] == [
        {"role": "tool", "tool_call_id": "t2", "content": "r", "is_error": True},
        {
            "role": "tool",
            "tool_call_id": "t1",
            "content": [TEXT, {**image, "cache_control": EPHEMERAL}],
        },
        {"role": "user", "content": [TEXT, TEXT]},
    ]


def test_a_result_may_be_empty_or_a_text_with_a_mark() -> None:
    def content(**fields: Any) -> Any:
        result = {"type": "tool_result", "tool_use_id": "t1", **fields}
        return chat_of(said("assistant", USE), said("user", result))[1]["content"]

    assert content() == content(content="") == content(content=[]) == ""
    assert content(content="r", cache_control=EPHEMERAL) == [
        {"type": "text", "text": "r", "cache_control": EPHEMERAL}
    ]
    assert content(content=[{"type": "tool_reference", "tool_name": "g"}]) == "g"


@pytest.mark.parametrize(
    ("source", "url"),
    [
        (IMAGE["source"], "data:image/png;base64,AAAA"),
        ({"type": "url", "url": "https://x/y.png"}, "https://x/y.png"),
    ],
)
def test_images(source: dict[str, Any], url: str) -> None:
    block = {"type": "image", "source": source, "cache_control": EPHEMERAL}
    expected = {"type": "image_url", "image_url": {"url": url}, "cache_control": EPHEMERAL}
    assert parts_of(block) == [expected]


def test_documents_are_files() -> None:
    pdf = {"type": "base64", "media_type": "application/pdf", "data": "AAAA"}
    data = "data:application/pdf;base64,AAAA"
    assert file_of(source=pdf, title="t.pdf") == {"file_data": data, "filename": "t.pdf"}
    assert file_of(source={"type": "url", "url": "https://x"}) == {"file_data": "https://x"}
    assert file_of(source={"type": "file", "file_id": "f"}) == {"file_id": "f"}
    encoded = base64.b64encode("é".encode()).decode()
    plain = {"file_data": f"data:text/plain;base64,{encoded}"}
    assert file_of(source={"type": "text", "media_type": "text/plain", "data": "é"}) == plain
    assert file_of(source={"type": "content", "content": "é"}) == plain


def test_what_a_document_says_of_itself_stays() -> None:
    inner = {"type": "content", "content": [TEXT, IMAGE]}
    parts = parts_of(
        {
            "type": "document",
            "source": inner,
            "title": "T",
            "context": "C",
            "cache_control": EPHEMERAL,
        }
    )
    assert [part.get("text") for part in parts] == ["T", "C", "x", None]
    assert [part.get("cache_control") for part in parts] == [None, None, None, EPHEMERAL]
    file = {"type": "document", "source": {"type": "file", "file_id": "f"}, "context": "C"}
    assert [part["type"] for part in parts_of(file)] == ["text", "file"]


def test_a_search_result_is_a_text() -> None:
    block = {"type": "search_result", "source": "http://s", "title": "T", "content": [TEXT, TEXT]}
    assert parts_of(block) == "T\nhttp://s\n\nx\nx"


def test_what_only_message_upstreams_understand_is_left_out_and_kept_in_the_original() -> None:
    server: list[dict[str, Any]] = [
        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
        {"type": "web_search_tool_result", "tool_use_id": "s", "content": []},
        {"type": "compaction", "content": "c"},
    ]
    request = accepted(messages=[said("user", TEXT), said("assistant", *server)])
    assert request.body["messages"] == [{"role": "user", "content": "x"}]
    assert request.original is not None
    assert request.original["messages"][1]["content"] == server
    alone = accepted(messages=[said("assistant", *server)])
    assert alone.body["messages"] == [{"role": "user", "content": ""}]


def test_a_router_tools_answer_does_not_even_reach_message_upstreams() -> None:
    use = {"type": "server_tool_use", "id": "s", "name": "shell", "input": {}}
    result = {"type": "router_shell_tool_result", "tool_use_id": "s", "content": {}}
    kept = {**use, "id": "other"}
    original = accepted(messages=[USER, said("assistant", use, result, kept, TEXT)]).original
    assert original is not None
    assert original["messages"][1]["content"] == [kept, TEXT]
    only = accepted(messages=[USER, said("assistant", use, result)]).original
    assert only is not None
    assert only["messages"] == [USER]


@pytest.mark.parametrize(
    ("fields", "reasoning"),
    [
        ({}, None),
        ({"thinking": {"type": "enabled", "budget_tokens": 2048.0}}, Reasoning(max_tokens=2048)),
        (
            {
                "thinking": {"type": "enabled", "budget_tokens": 2048},
                "output_config": {"effort": "low"},
            },
            Reasoning("low", 2048),
        ),
        ({"thinking": {"type": "disabled"}}, Reasoning("none", enabled=False)),
        ({"thinking": {"type": "adaptive"}}, Reasoning("medium", enabled=True)),
        ({"thinking": {"type": "between_tools"}}, Reasoning("medium", enabled=True)),
        (
            {"thinking": {"type": "adaptive"}, "output_config": {"effort": "max"}},
            Reasoning("max", enabled=True),
        ),
        ({"output_config": {"effort": "high"}}, Reasoning("high")),
        ({"output_config": {"effort": None}}, None),
    ],
)
def test_thinking_and_effort_are_reasoning(fields: dict[str, Any], reasoning: Any) -> None:
    request = accepted(**fields)
    assert request.reasoning == reasoning
    assert ("reasoning" in request.supplied_parameters) == (reasoning is not None)


def test_the_output_format_is_a_response_format() -> None:
    schema = {"type": "object", "properties": {}}
    request = accepted(output_config={"format": {"type": "json_schema", "schema": schema}})
    assert request.response_format_type == "json_schema"
    form = request.body["response_format"]["json_schema"]
    assert (form["schema"], form["strict"]) == (schema, True)


def test_the_plain_parameters() -> None:
    stops = list("abcdef")
    body = accepted(
        max_tokens=5.0,
        temperature=1,
        top_p=0.5,
        top_k=3.0,
        stop_sequences=stops,
        stream=True,
        cache_control=EPHEMERAL,
        metadata={"user_id": "u"},
        trace={"trace_id": "x", "own": 1},
        provider={"only": ["alpha"]},
        preset="p",
        route="sort",
        context_management={"edits": []},
    ).body
    assert (body["max_completion_tokens"], body["top_k"]) == (5, 3)
    assert type(body["max_completion_tokens"]) is type(body["top_k"]) is int
    assert (body["temperature"], body["top_p"], body["stop"]) == (1, 0.5, stops)
    assert (body["stream"], body["cache_control"], body["user"]) == (True, EPHEMERAL, "u")
    assert (body["trace"], body["provider"]) == ({"trace_id": "x", "own": 1}, {"only": ["alpha"]})
    assert (body["preset"], body["route"]) == ("p", "sort")
    assert not {"max_tokens", "metadata", "context_management"} & set(body)
    assert accepted(user="mine", metadata={"user_id": "u"}).user == "mine"
    assert "stop" not in accepted(stop_sequences=[]).body


def test_the_translation_is_a_chat_body() -> None:
    thought = {"type": "thinking", "thinking": "hm", "signature": ""}
    request = accepted(
        system=[TEXT],
        messages=[USER, said("assistant", THOUGHT, thought, USE), said("user", RESULT, IMAGE)],
        tools=[TOOL],
        tool_choice={"type": "any"},
        thinking={"type": "enabled", "budget_tokens": 1024},
        output_config={"format": {"type": "json_schema", "schema": {}}},
        stop_sequences=["a"],
        fallbacks=[{"model": "b"}],
        service_tier="standard_only",
    )
    again = parse_chat(request.body, session_header=None)
    assert (again.candidates, again.reasoning) == (request.candidates, request.reasoning)
    assert again.supplied_parameters == request.supplied_parameters
    assert again.text_bytes == request.text_bytes
    assert (request.format, again.format) == ("messages", "chat")
