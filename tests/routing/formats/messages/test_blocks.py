"""Input messages and blocks (inference 4.2)."""

from typing import Any

import pytest

from tests.routing.formats.messages.bodies import (
    EPHEMERAL,
    IMAGE,
    RESULT,
    TEXT,
    USE,
    accepted,
    paths,
    refused,
    said,
)

CALLED = said("assistant", USE)
ANY_BLOCK: list[dict[str, Any]] = [
    TEXT,
    {**TEXT, "citations": None},
    {**TEXT, "citations": [{"type": "char_location"}], "cache_control": None},
    IMAGE,
    {"type": "image", "source": {"type": "url", "url": "https://x/y.png"}},
    {
        "type": "document",
        "source": {"type": "base64", "media_type": "application/pdf", "data": "A"},
    },
    {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "A"}},
    {"type": "document", "source": {"type": "content", "content": "A"}, "title": None},
    {"type": "document", "source": {"type": "content", "content": [TEXT, IMAGE]}},
    {"type": "document", "source": {"type": "url", "url": "http://x"}, "context": "c"},
    {
        "type": "document",
        "source": {"type": "file", "file_id": "f"},
        "title": "t",
        "citations": {"enabled": True},
    },
    {"type": "search_result", "source": "s", "title": "t", "content": [TEXT]},
    {"type": "tool_use", "id": "t2", "name": "f"},
    {"type": "tool_result", "tool_use_id": "t1"},
    {"type": "tool_result", "tool_use_id": "t1", "content": [], "is_error": True},
    {"type": "thinking", "thinking": "", "signature": ""},
    {"type": "redacted_thinking", "data": "x"},
    {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
    {"type": "web_search_tool_result", "tool_use_id": "s", "content": [{"type": "x"}]},
    {"type": "web_search_tool_result", "tool_use_id": "s", "content": {"error_code": "x"}},
    {"type": "compaction", "content": None},
    {"type": "compaction", "content": "c", "encrypted_content": "e"},
    {"type": "advisor_tool_result", "tool_use_id": "s", "content": {}},
    {"type": "router_shell_tool_result", "tool_use_id": "s", "content": {}},
    {"type": "router_bash_tool_result", "tool_use_id": "s", "content": {}},
    {"type": "web_fetch_tool_result", "tool_use_id": "s", "content": {}},
    {"type": "code_execution_tool_result", "tool_use_id": "s", "content": {}},
    {"type": "bash_code_execution_tool_result", "tool_use_id": "s", "content": {}},
    {"type": "text_editor_code_execution_tool_result", "tool_use_id": "s", "content": {}},
    {"type": "tool_search_tool_result", "tool_use_id": "s", "content": {}},
    {"type": "container_upload", "file_id": "f"},
]
CHANGES: list[dict[str, Any]] = [
    {"type": kind, "tool": tool}
    for kind in ("tool_addition", "tool_removal")
    for tool in ({"type": "tool_reference", "name": "f"}, {"type": "mcp_toolset", "x": 1})
]


@pytest.mark.parametrize("role", ["user", "assistant"])
@pytest.mark.parametrize("block", ANY_BLOCK, ids=lambda block: str(block["type"]))
def test_every_block_is_taken_with_fields_that_nobody_knows(
    role: str, block: dict[str, Any]
) -> None:
    request = accepted(messages=[CALLED, said(role, TEXT, {**block, "zz": 1})])
    assert request.message_count >= 2


@pytest.mark.parametrize("block", CHANGES, ids=lambda block: str(block["type"]))
def test_tool_changes_are_for_the_system_alone(block: dict[str, Any]) -> None:
    request = accepted(messages=[said("system", block, TEXT)])
    assert request.body["messages"] == [{"role": "system", "content": "x"}]
    for role in ("user", "assistant"):
        assert paths(messages=[said(role, block)]) == ["messages.0.content.0.type"]


def test_the_system_says_nothing_but_text() -> None:
    assert paths(messages=[said("system", IMAGE)]) == ["messages.0.content.0.type"]
    wrong = {"type": "tool_addition", "tool": {"type": "tool_reference"}}
    assert paths(messages=[said("system", wrong)]) == ["messages.0.content.0.tool.name"]


@pytest.mark.parametrize(
    ("block", "path"),
    [
        ({"type": "nope"}, "type"),
        ({"type": "image_url"}, "type"),
        ({}, "type"),
        ({"type": 5}, "type"),
        ({"type": "text"}, "text"),
        ({"type": "text", "text": None}, "text"),
        ({**TEXT, "citations": 5}, "citations"),
        ({**TEXT, "cache_control": {"type": "x"}}, "cache_control.type"),
        ({**TEXT, "cache_control": {**EPHEMERAL, "ttl": "2h"}}, "cache_control.ttl"),
        ({"type": "image"}, "source"),
        ({"type": "image", "source": {"type": "file"}}, "source.type"),
        ({"type": "image", "source": {"type": "url", "url": "ftp://x"}}, "source.url"),
        (
            {"type": "image", "source": {**IMAGE["source"], "media_type": "image/bmp"}},
            "source.media_type",
        ),
        ({"type": "image", "source": {**IMAGE["source"], "data": "data:x"}}, "source.data"),
        ({"type": "document", "source": {"type": "base64", "data": "A"}}, "source.media_type"),
        ({"type": "document", "source": {"type": "text", "data": "A"}}, "source.media_type"),
        ({"type": "document", "source": {"type": "content"}}, "source.content"),
        ({"type": "document", "source": {"type": "file", "file_id": ""}}, "source.file_id"),
        (
            {"type": "document", "source": {"type": "content", "content": [USE]}},
            "source.content.0.type",
        ),
        ({"type": "search_result", "title": "t", "content": []}, "source"),
        (
            {"type": "search_result", "source": "s", "title": "t", "content": [IMAGE]},
            "content.0.type",
        ),
        ({"type": "tool_use", "id": "a"}, "name"),
        ({"type": "tool_use", "name": "a"}, "id"),
        ({"type": "tool_result"}, "tool_use_id"),
        ({**RESULT, "content": 5}, "content"),
        ({**RESULT, "content": [USE]}, "content.0.type"),
        ({**RESULT, "content": [{"type": "tool_reference"}]}, "content.0.tool_name"),
        ({**RESULT, "is_error": "x"}, "is_error"),
        ({"type": "thinking", "thinking": "x"}, "signature"),
        ({"type": "thinking", "signature": "x"}, "thinking"),
        ({"type": "redacted_thinking"}, "data"),
        ({"type": "server_tool_use", "id": "s"}, "name"),
        ({"type": "web_search_tool_result", "tool_use_id": "s"}, "content"),
        ({"type": "web_search_tool_result", "tool_use_id": "s", "content": "x"}, "content"),
        ({"type": "compaction"}, "content"),
        ({"type": "advisor_tool_result", "tool_use_id": "s", "content": []}, "content"),
        ({"type": "router_bash_tool_result", "content": {}}, "tool_use_id"),
    ],
)
def test_a_block_is_checked_inside(block: dict[str, Any], path: str) -> None:
    messages = [CALLED, said("user", TEXT, block)]
    assert paths(messages=messages) == [f"messages.1.content.1.{path}"]


@pytest.mark.parametrize(
    ("message", "path"),
    [
        ({"role": "wizard", "content": "x"}, "role"),
        ({"role": "developer", "content": "x"}, "role"),
        ({"role": "tool", "content": "x"}, "role"),
        ({"content": "x"}, "role"),
        ({"role": "user"}, "content"),
        ({"role": "user", "content": None}, "content"),
        ({"role": "user", "content": []}, "content"),
        ({"role": "assistant", "content": 5}, "content"),
    ],
)
def test_a_message_is_checked(message: dict[str, Any], path: str) -> None:
    assert paths(messages=[message]) == [f"messages.0.{path}"]


def test_an_unknown_block_is_told_with_those_there_are() -> None:
    text = str(refused(messages=[said("user", {"type": "nope"})]))
    assert text.startswith('messages.0.content.0.type: Invalid option: expected one of "text"|')


def test_a_result_of_no_call_is_an_unusable_prompt() -> None:
    stray = {**RESULT, "tool_use_id": "t9"}
    error = refused(messages=[CALLED, said("user", TEXT, RESULT, stray)])
    assert error.error_type == "invalid_prompt"
    assert [issue.path for issue in error.issues] == ["messages.1.content.2.tool_use_id"]
    too_early = refused(messages=[said("user", RESULT), CALLED])
    assert [issue.path for issue in too_early.issues] == ["messages.0.content.0.tool_use_id"]
    many = refused(messages=[said("user", *[stray] * 9)])
    assert len(many.issues) == 5
