"""Input messages, blocks, tools and the choice among them (inference 4.2, 4.4 and 4.5)."""

from typing import Any

import pytest

from routing.formats.server_tools import SHORTHANDS
from tests.routing.formats.messages.bodies import (
    EPHEMERAL,
    IMAGE,
    PNG,
    RESULT,
    TEXT,
    TOOL,
    USE,
    USER,
    document,
    expect_refusal,
    message_by,
    parse_fields,
    paths,
)

CALLED = message_by("assistant", USE)
FOUND: dict[str, Any] = {"type": "search_result", "source": "s", "title": "t"}


def image(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": "image", "source": {"type": kind, **fields}}


def result_of(kind: str, content: Any) -> dict[str, Any]:
    return {"type": f"{kind}_tool_result", "tool_use_id": "s", "content": content}


# What no other test has in it; `test_nulls` takes each block with the least that it needs.
ANY_BLOCK: list[dict[str, Any]] = [
    {**TEXT, "citations": [{"type": "char_location"}], "cache_control": None},
    document("file", file_id="f") | {"title": "t", "citations": {"enabled": True}},
    result_of("web_search", {"error_code": "x"}),
    {"type": "compaction", "content": "c", "encrypted_content": "e"},
    *(result_of(kind, {}) for kind in ("advisor", "router_shell", "router_bash", "web_fetch")),
    *(result_of(kind, {}) for kind in ("code_execution", "bash_code_execution", "tool_search")),
    result_of("text_editor_code_execution", {}),
    {"type": "container_upload", "file_id": "f"},
]


@pytest.mark.parametrize("block", ANY_BLOCK, ids=lambda block: str(block["type"]))
def test_every_block_is_taken_with_fields_that_nobody_knows(block: dict[str, Any]) -> None:
    for role in ("user", "assistant"):
        request = parse_fields(messages=[CALLED, message_by(role, TEXT, {**block, "zz": 1})])
        assert request.message_count >= 2


@pytest.mark.parametrize("kind", ["tool_addition", "tool_removal"])
def test_tool_changes_are_for_the_system_which_says_nothing_but_text(kind: str) -> None:
    for tool in ({"type": "tool_reference", "name": "f"}, {"type": "mcp_toolset", "x": 1}):
        block = {"type": kind, "tool": tool}
        request = parse_fields(messages=[message_by("system", block, TEXT)])
        assert request.body["messages"] == [{"role": "system", "content": "x"}]
        for role in ("user", "assistant"):
            assert paths(messages=[message_by(role, block)]) == ["messages.0.content.0.type"]
    assert paths(messages=[message_by("system", IMAGE)]) == ["messages.0.content.0.type"]
    nameless = {"type": kind, "tool": {"type": "tool_reference"}}
    assert paths(messages=[message_by("system", nameless)]) == ["messages.0.content.0.tool.name"]


@pytest.mark.parametrize(
    ("block", "path"),
    [
        ({"type": "nope"}, "type"),
        ({"type": "image_url"}, "type"),
        ({**TEXT, "cache_control": {"type": "x"}}, "cache_control.type"),
        ({**TEXT, "cache_control": {**EPHEMERAL, "ttl": "2h"}}, "cache_control.ttl"),
        (image("file"), "source.type"),
        (image("url", url="ftp://x"), "source.url"),
        ({"type": "image", "source": {**PNG, "media_type": "image/bmp"}}, "source.media_type"),
        ({"type": "image", "source": {**PNG, "data": "data:x"}}, "source.data"),
        (document("text", data="A"), "source.media_type"),
        (document("file", file_id=""), "source.file_id"),
        (document("content", content=[USE]), "source.content.0.type"),
        ({**FOUND, "content": [IMAGE]}, "content.0.type"),
        ({**RESULT, "content": [USE]}, "content.0.type"),
    ],
)
def test_a_block_is_checked_inside(block: dict[str, Any], path: str) -> None:
    messages = [CALLED, message_by("user", TEXT, block)]
    assert paths(messages=messages) == [f"messages.1.content.1.{path}"]


@pytest.mark.parametrize(
    ("message", "path"),
    [
        *(({"role": role, "content": "x"}, "role") for role in ("wizard", "developer", "tool")),
        ({"role": "user", "content": []}, "content"),
    ],
)
def test_a_message_is_checked(message: dict[str, Any], path: str) -> None:
    assert paths(messages=[message]) == [f"messages.0.{path}"]


def test_a_result_of_no_call_is_an_unusable_prompt() -> None:
    stray = {**RESULT, "tool_use_id": "t9"}
    error = expect_refusal(messages=[CALLED, message_by("user", TEXT, RESULT, stray)])
    assert error.error_type == "invalid_prompt"
    assert [issue.path for issue in error.issues] == ["messages.1.content.2.tool_use_id"]
    assert paths(messages=[message_by("user", RESULT), CALLED]) == [
        "messages.0.content.0.tool_use_id"
    ]
    assert len(paths(messages=[USER, message_by("user", *[stray] * 9)])) == 5


SEARCH: dict[str, Any] = {"type": "web_search_20250305", "name": "web_search"}
BASH = {"type": "bash_20250124", "name": "bash"}
DATETIME = {"type": "router:datetime"}


@pytest.mark.parametrize("kind", ["tool_search_tool_bm25", "tool_search_tool_bm25_20251119", "", 5])
def test_tools_that_nobody_runs_are_refused(kind: Any) -> None:
    assert paths(tools=[TOOL, {"type": kind, "name": "x"}]) == ["tools.1.type"]


@pytest.mark.parametrize(
    "tool",
    [
        BASH,
        {"type": "computer_20250124", "name": "computer", "display_width_px": 1},
        {"type": "advisor_20260301", "name": "advisor", "model": "m"},
        {"type": "tool_search_tool_regex_20251119", "name": "tool_search_tool_regex"},
        {"type": "of_tomorrow"},
    ],
    ids=lambda tool: str(tool["type"]),
)
def test_a_providers_tool_stays_out_of_the_translation(tool: dict[str, Any]) -> None:
    request = parse_fields(tools=[tool, TOOL], tool_choice={"type": "auto"})
    assert [each["function"]["name"] for each in request.body["tools"]] == ["f"]
    assert request.original is not None
    assert request.original["tools"] == [tool, TOOL]
    assert request.native_tools == ()
    alone = parse_fields(tools=[tool], tool_choice={"type": "any"})
    assert not {"tools", "tool_choice"} & set(alone.body)
    assert not alone.tools_given


def test_a_providers_search_may_not_be_left_out() -> None:
    newer = {**SEARCH, "type": "web_search_20260209", "max_uses": 1, "user_location": None}
    request = parse_fields(tools=[SEARCH, newer, SEARCH, TOOL])
    assert request.native_tools == ("web_search_20250305", "web_search_20260209")
    assert len(request.body["tools"]) == 1
    for kind in SHORTHANDS:
        assert parse_fields(tools=[{**SEARCH, "type": kind}, TOOL]).native_tools == (kind,)
        assert paths(tools=[{**SEARCH, "type": kind, "name": "x"}]) == ["tools.0.name"]


@pytest.mark.parametrize(
    ("tool", "path"),
    [
        ({"name": "", "input_schema": {}}, "name"),
        ({**SEARCH, "name": "x"}, "name"),
        ({**SEARCH, "max_uses": 0}, "max_uses"),
        ({"type": "advisor_20260301", "name": "advisor"}, "model"),
        ({**DATETIME, "parameters": {"timezone": "Mars"}}, "parameters.timezone"),
        # No subagent of this format inherits functions.
        *(
            ({"type": "router:subagent", "parameters": {name: value}}, f"parameters.{name}")
            for name, value in (("inherit_functions", True), ("inherited_function_names", []))
        ),
    ],
)
def test_a_tool_is_checked_inside(tool: dict[str, Any], path: str) -> None:
    assert set(paths(tools=[tool])) >= {f"tools.0.{path}"}


def test_a_search_has_one_list_of_domains() -> None:
    search = {**SEARCH, "allowed_domains": ["a.example"], "blocked_domains": ["b.example"]}
    assert paths(tools=[TOOL, search]) == ["tools.1"]
    parse_fields(tools=[{**search, "blocked_domains": None}])


def test_a_custom_tool_is_a_function() -> None:
    schema = {"type": "object", "properties": {"a": {}}, "required": ["a"], "zz": 1}
    about = {"name": "a b", "description": "d", "strict": True}
    marks = {"cache_control": EPHEMERAL, "defer_loading": True}
    tool = {"type": "custom", "input_schema": schema, **about, **marks}
    assert parse_fields(tools=[tool, {**TOOL, "type": None, "cache_control": None}]).body[
        "tools"
    ] == [
        {"type": "function", "function": {**about, "parameters": schema}, **marks},
        {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}},
    ]


@pytest.mark.parametrize(
    ("choice", "chat"),
    [
        ({"type": "auto"}, "auto"),
        ({"type": "any"}, "required"),
        ({"type": "none"}, "none"),
        ({"type": "tool", "name": "f"}, {"type": "function", "function": {"name": "f"}}),
        ({"type": "tool", "name": "datetime"}, DATETIME),
        ({"type": "tool", "name": "bash"}, None),
    ],
)
def test_a_choice_is_translated(choice: dict[str, Any], chat: Any) -> None:
    body = parse_fields(tools=[BASH, DATETIME, TOOL], tool_choice=choice).body
    assert body.get("tool_choice") == chat
    assert "parallel_tool_calls" not in body
    if choice["type"] != "none":
        alone = {**choice, "disable_parallel_tool_use": True}
        beside = {**choice, "disable_parallel_tool_use": False}
        body = parse_fields(tools=[BASH, DATETIME, TOOL], tool_choice=alone).body
        assert body["parallel_tool_calls"] is False
        body = parse_fields(tools=[BASH, DATETIME, TOOL], tool_choice=beside).body
        assert "parallel_tool_calls" not in body


@pytest.mark.parametrize(
    ("choice", "path"),
    [
        ({"type": "required"}, "tool_choice.type"),
        ({"type": "tool", "name": "g"}, "tool_choice.name"),
    ],
)
def test_a_choice_is_checked_and_needs_a_tool(choice: Any, path: str) -> None:
    assert paths(tools=[TOOL], tool_choice=choice) == [path]
    assert paths(tool_choice={"type": "any"}) == ["tool_choice"]
    for kind in ("auto", "none"):
        parse_fields(tool_choice={"type": kind})
