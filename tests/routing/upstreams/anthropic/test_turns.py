"""Chat messages become the turns that the messages API takes."""

from typing import Any

import pytest

from tests.gateway.outbound.asking import assistant, call, result, text, user
from tests.routing.upstreams.anthropic.said import (
    EPHEMERAL,
    HOUR,
    PNG_URL,
    turns_for,
)

SIGNED = {"type": "reasoning.text", "index": 0, "format": "anthropic-claude-v1"}


def turn(role: str, *texts: str) -> tuple[str, list[Any]]:
    return role, [text(each) for each in texts]


@pytest.mark.parametrize(
    ("messages", "turns"),
    [
        ([{"role": "system", "content": "s"}], [turn("user", ".")]),
        ([assistant("a")], [turn("user", "."), turn("assistant", "a")]),
        ([user("")], [turn("user", ".")]),
        ([user(" \n"), user("x")], [turn("user", "x")]),
        ([user("x"), assistant(None), user("y")], [turn("user", "x", "y")]),
        (
            [user("a"), assistant("b"), assistant("c"), user("d"), user("e")],
            [turn("user", "a"), turn("assistant", "b", "c"), turn("user", "d", "e")],
        ),
        (
            [user("x", name="bob"), assistant("y ", name="eve")],
            [turn("user", "bob: x"), turn("assistant", "eve: y")],
        ),
        # Only the end of an answer to continue is trimmed.
        (
            [user("x "), assistant("kept "), user("y"), assistant("cut \n")],
            [
                *[turn("user", "x "), turn("assistant", "kept ")],
                *[turn("user", "y"), turn("assistant", "cut")],
            ],
        ),
        (
            [user("x"), assistant(None, refusal="no"), user("y")],
            [turn("user", "x"), turn("assistant", "no"), turn("user", "y")],
        ),
    ],
)
def test_turns_alternate_and_begin_with_the_user(messages: Any, turns: Any) -> None:
    assert turns_for(*messages) == turns


def test_calls_and_their_results() -> None:
    calls = [call("a", '{"n": 12345678901234567890}'), call("b", "{")]
    marked = [text("two", cache_control=EPHEMERAL)]
    results = [result("a", "one"), result("b", marked, is_error=True)]
    turns = turns_for(user("x"), assistant("hm", tool_calls=calls), user("and this"), *results)
    used = [
        {"type": "tool_use", "id": "a", "name": "f", "input": {"n": 12345678901234567890}},
        {"type": "tool_use", "id": "b", "name": "f", "input": {}},
    ]
    assert turns[1] == ("assistant", [text("hm"), *used])
    second = {"type": "tool_result", "tool_use_id": "b", "content": [text("two")]}
    assert turns[2] == (
        "user",
        [
            {"type": "tool_result", "tool_use_id": "a", "content": "one"},
            {**second, "is_error": True, "cache_control": EPHEMERAL},
            text("and this"),
        ],
    )


@pytest.mark.parametrize("arguments", ["", "[1]", '"x"', "null", "nope", "NaN"])
def test_arguments_that_are_no_object_become_an_empty_one(arguments: str) -> None:
    # An empty result has no content.
    turns = turns_for(user("x"), assistant(tool_calls=[call("a", arguments)]), result("a", ""))
    assert turns[1][1][0]["input"] == {}
    assert turns[2][1] == [{"type": "tool_result", "tool_use_id": "a"}]


def test_an_id_used_twice_is_made_two() -> None:
    again = [assistant(tool_calls=[call("a")]), result("a")]
    turns = turns_for(user("x"), *again, *again, assistant(tool_calls=[call("a_2")]))
    used = [turn[1][0].get("id") or turn[1][0].get("tool_use_id") for turn in turns[1:]]
    assert used == ["a", "a", "a_2", "a_2", "a_2_2"]


@pytest.mark.parametrize(
    "content", ["found", [text("a", cache_control=EPHEMERAL)], "", [text(" ")]]
)
def test_a_mark_on_a_tool_message_stands_on_the_result(content: Any) -> None:
    own = result("c", content, cache_control=HOUR)
    ((_, (block,)),) = turns_for(user("hi"), assistant(tool_calls=[call("c")]), own)[-1:]
    assert block["cache_control"] == HOUR
    assert "cache_control" not in repr(block.get("content"))


ENCRYPTED = {"type": "reasoning.encrypted", "data": "d"}


def thinking(said: str, signature: str) -> dict[str, Any]:
    return {"type": "thinking", "thinking": said, "signature": signature}


@pytest.mark.parametrize(
    ("details", "blocks"),
    [
        (
            [{**SIGNED, "text": "a"}, {**SIGNED, "text": "b"}, {**SIGNED, "signature": "s"}],
            [thinking("ab", "s")],
        ),
        (
            [ENCRYPTED, {"type": "reasoning.text", "text": None, "signature": "s"}],
            [{"type": "redacted_thinking", "data": "d"}, thinking("", "s")],
        ),
        # Pieces of a block whose end is missing do not end up in the next one.
        (
            [{**SIGNED, "text": "lost"}, {**SIGNED, "index": 1, "text": "kept", "signature": "s"}],
            [thinking("kept", "s")],
        ),
        ([{**ENCRYPTED, "format": "openai-responses-v1"}], []),
        ([{"type": "reasoning.summary", "summary": "s", "format": "unknown"}, {"type": "new"}], []),
    ],
)
def test_reasoning_is_replayed_where_its_seal_is_there(details: Any, blocks: Any) -> None:
    said = assistant("said", reasoning="r", reasoning_details=details)
    assert turns_for(user("x"), said, user("y"))[1] == ("assistant", [*blocks, text("said")])


def base64(media_type: str, data: str) -> dict[str, Any]:
    return {"type": "base64", "media_type": media_type, "data": data}


def plain(data: str) -> dict[str, Any]:
    return {"type": "text", "media_type": "text/plain", "data": data}


PDF = base64("application/pdf", "JVBERi0xLjQ=")
IMAGES = [
    ("https://x/y.png", {"type": "url", "url": "https://x/y.png"}),
    ("DATA:image/JPG;base64,AAAA", base64("image/jpeg", "AAAA")),
    ("data:image/gif,GIF8%39", base64("image/gif", "R0lGODk=")),
]
FILES = [
    ({"file_data": "data:application/octet-stream;base64,JVBERi0xLjQ="}, PDF),
    ({"file_data": "data:text/plain;charset=utf-8;base64,w6k="}, plain("é")),
    ({"file_data": "data:application/json,%7B%7D", "filename": ""}, plain("{}")),
    # What is no UTF-8 stays as it came.
    ({"file_data": "data:text/plain;base64,/w=="}, base64("text/plain", "/w==")),
    ({"file_data": "data:application/zip;base64,UEs="}, base64("application/zip", "UEs=")),
    ({"file_data": "https://x/a.pdf"}, {"type": "url", "url": "https://x/a.pdf"}),
]


@pytest.mark.parametrize(
    ("kind", "value", "block"),
    [
        *[("image_url", {"url": url}, {"type": "image", "source": made}) for url, made in IMAGES],
        *[("file", file, {"type": "document", "source": source}) for file, source in FILES],
        (
            "file",
            {"file_data": PNG_URL, "filename": "a.png"},
            {"type": "image", "source": base64("image/png", "iVBORw0KGgo=")},
        ),
    ],
)
def test_images_and_files_are_blocks(kind: str, value: Any, block: dict[str, Any]) -> None:
    # A name stands before what is no text.
    [(_, blocks)] = turns_for(user([{"type": kind, kind: value}], name="bob"))
    assert blocks == [text("bob: "), block]


def test_audio_and_video_have_no_block() -> None:
    audio = {"type": "input_audio", "input_audio": {"data": "AA", "format": "wav"}}
    video = {"type": "video_url", "video_url": {"url": "https://x/y"}}
    assert turns_for(user([text("x"), audio, video])) == [turn("user", "x")]
