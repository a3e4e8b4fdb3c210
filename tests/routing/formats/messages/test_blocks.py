"""Input messages and blocks (inference 4.2): what passes, and where the rest is refused."""

from typing import Any

import pytest

from tests.routing.formats.messages.bodies import (
    EPHEMERAL,
    IMAGE,
    PNG,
    RESULT,
    TEXT,
    USE,
    USER,
    accepted,
    document,
    paths,
    refused,
    said,
)

CALLED = said("assistant", USE)
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
        request = accepted(messages=[CALLED, said(role, TEXT, {**block, "zz": 1})])
        assert request.message_count >= 2


@pytest.mark.parametrize("kind", ["tool_addition", "tool_removal"])
def test_tool_changes_are_for_the_system_which_says_nothing_but_text(kind: str) -> None:
    for tool in ({"type": "tool_reference", "name": "f"}, {"type": "mcp_toolset", "x": 1}):
        block = {"type": kind, "tool": tool}
        request = accepted(messages=[said("system", block, TEXT)])
        assert request.body["messages"] == [{"role": "system", "content": "x"}]
        for role in ("user", "assistant"):
            assert paths(messages=[said(role, block)]) == ["messages.0.content.0.type"]
    assert paths(messages=[said("system", IMAGE)]) == ["messages.0.content.0.type"]
    nameless = {"type": kind, "tool": {"type": "tool_reference"}}
    assert paths(messages=[said("system", nameless)]) == ["messages.0.content.0.tool.name"]


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
    messages = [CALLED, said("user", TEXT, block)]
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
    error = refused(messages=[CALLED, said("user", TEXT, RESULT, stray)])
    assert error.error_type == "invalid_prompt"
    assert [issue.path for issue in error.issues] == ["messages.1.content.2.tool_use_id"]
    assert paths(messages=[said("user", RESULT), CALLED]) == ["messages.0.content.0.tool_use_id"]
    assert len(paths(messages=[USER, said("user", *[stray] * 9)])) == 5
