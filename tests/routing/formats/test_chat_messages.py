"""Messages and their content parts (inference 1.2 to 1.5)."""

from typing import Any

import pytest

from tests.routing.formats.chat_bodies import (
    CALL,
    DATA_URL,
    USER,
    accepted,
    paths,
    refused,
    text_of,
)

ROLES = '"system"|"developer"|"user"|"assistant"|"tool"|"function"'
ASSISTANT: dict[str, Any] = {"role": "assistant", "tool_calls": [CALL]}
DETAIL = {"type": "reasoning.text", "text": "hm", "format": "unknown", "index": 0, "id": None}


def message_paths(message: Any) -> list[str]:
    return [path.removeprefix("messages.0.") for path in paths(messages=[message])]


def part_paths(part: Any) -> list[str]:
    prefix = "messages.0.content.0."
    message = {"role": "user", "content": [part]}
    return [path.removeprefix(prefix) for path in paths(messages=[message])]


def test_row_3_messages_may_not_be_empty() -> None:
    assert text_of(messages=[]) == "messages: Too small: expected array to have >=1 items"


def test_row_5_an_unknown_role_is_named_at_its_path() -> None:
    text = f"messages.0.role: Invalid option: expected one of {ROLES}"
    assert text_of(messages=[{"role": "wizard", "content": "x"}]) == text
    assert text_of(messages=[{"content": "x"}]) == text
    assert text_of(messages=[{"role": ["user"], "content": "x"}]) == text


def test_a_message_is_an_object() -> None:
    assert text_of(messages=[USER, "x"]) == (
        "messages.1: Invalid input: expected object, received string"
    )


@pytest.mark.parametrize(
    "message",
    [
        {"role": "system", "content": "x", "name": "n"},
        {"role": "system", "content": [{"type": "text", "text": "x"}]},
        {"role": "developer", "content": ""},
        {"role": "user", "content": ""},
        {"role": "user", "content": "x", "name": "n", "unknown": object()},
        {"role": "user", "content": [{"type": "text", "text": ""}]},
        {"role": "assistant"},
        {"role": "assistant", "content": None},
        {"role": "assistant", "content": []},
        {"role": "assistant", "content": [{"type": "text", "text": "x"}], "refusal": None},
        {"role": "assistant", "reasoning": "r", "reasoning_content": None, "model": "a/b"},
        {"role": "assistant", "reasoning_details": [DETAIL], "tool_calls": [CALL]},
        {
            "role": "assistant",
            "content": None,
            "images": [{"type": "image_url", "image_url": {"url": DATA_URL}}],
            "audio": {"id": "a"},
            "annotations": [{"type": "url_citation"}],
        },
        {"role": "assistant", "tool_calls": None, "audio": None, "annotations": None},
    ],
)
def test_a_message_of_each_shape_passes(message: dict[str, Any]) -> None:
    accepted(messages=[message])


@pytest.mark.parametrize(
    ("message", "path"),
    [
        ({"role": "system"}, "content"),
        ({"role": "system", "content": None}, "content"),
        ({"role": "system", "content": [{"type": "image_url"}]}, "content.0.type"),
        ({"role": "developer", "content": 5}, "content"),
        ({"role": "user"}, "content"),
        ({"role": "user", "content": None}, "content"),
        ({"role": "user", "content": []}, "content"),
        ({"role": "user", "content": {}}, "content"),
        ({"role": "user", "content": "x", "name": 5}, "name"),
        ({"role": "user", "content": ["x"]}, "content.0"),
        ({"role": "assistant", "content": 5}, "content"),
        ({"role": "assistant", "refusal": 5}, "refusal"),
        ({"role": "assistant", "tool_calls": {}}, "tool_calls"),
        ({"role": "assistant", "tool_calls": [{**CALL, "id": None}]}, "tool_calls.0.id"),
        ({"role": "assistant", "tool_calls": [{**CALL, "type": "x"}]}, "tool_calls.0.type"),
        (
            {"role": "assistant", "tool_calls": [{**CALL, "function": {"name": "f"}}]},
            "tool_calls.0.function.arguments",
        ),
        ({"role": "assistant", "reasoning_details": ["x"]}, "reasoning_details.0"),
        ({"role": "assistant", "images": [{"type": "text", "text": "x"}]}, "images.0.type"),
        ({"role": "tool", "tool_call_id": "c1"}, "content"),
        ({"role": "tool", "tool_call_id": "c1", "content": []}, "content"),
        ({"role": "tool", "content": "x"}, "tool_call_id"),
    ],
)
def test_a_broken_message_is_named_at_its_path(message: dict[str, Any], path: str) -> None:
    assert message_paths(message) == [path]


def test_a_tool_message_answers_an_earlier_call() -> None:
    answer = {"role": "tool", "tool_call_id": "c1", "content": "x"}
    accepted(messages=[USER, ASSISTANT, answer])
    for messages in ([USER, answer], [USER, answer, ASSISTANT]):
        error = refused(messages=messages)
        assert error.error_type == "invalid_prompt"
        assert [issue.path for issue in error.issues] == ["messages.1.tool_call_id"]


def test_any_order_of_roles_is_accepted() -> None:
    accepted(messages=[USER, USER, {"role": "assistant", "content": "a"}] * 2)


@pytest.mark.parametrize(
    "part",
    [
        {"type": "text", "text": "x", "cache_control": {"type": "ephemeral", "ttl": "5m"}},
        {"type": "text", "text": "x", "prompt_cache_breakpoint": None},
        {"type": "text", "text": "x", "prompt_cache_breakpoint": {"mode": "explicit"}, "zz": 1},
        {"type": "image_url", "image_url": {"url": "HTTPS://x/y.png", "detail": "original"}},
        {"type": "image_url", "image_url": {"url": DATA_URL}},
        {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "anything"}},
        {"type": "video_url", "video_url": {"url": "http://x/v.mp4"}},
        {"type": "input_video", "video_url": {"url": "data:video/mp4;base64,AA"}},
        {"type": "file", "file": {"file_data": "data:application/pdf;base64,AA"}},
        {"type": "file", "file": {"file_data": "https://x/a.pdf", "filename": "a.pdf"}},
        {"type": "file", "file": {"file_id": "f1"}},
    ],
)
def test_a_part_of_each_type_passes(part: dict[str, Any]) -> None:
    accepted(messages=[{"role": "user", "content": [part]}])
    accepted(messages=[ASSISTANT, {"role": "tool", "tool_call_id": "c1", "content": [part]}])


@pytest.mark.parametrize(
    ("part", "path"),
    [
        ({"type": "hologram"}, "type"),
        ({"text": "x"}, "type"),
        ({"type": "text"}, "text"),
        ({"type": "text", "text": None}, "text"),
        ({"type": "text", "text": "x", "cache_control": {"type": "x"}}, "cache_control.type"),
        ({"type": "text", "text": "x", "cache_control": {}}, "cache_control.type"),
        (
            {"type": "text", "text": "x", "prompt_cache_breakpoint": {}},
            "prompt_cache_breakpoint.mode",
        ),
        ({"type": "image_url", "image_url": "http://x"}, "image_url"),
        ({"type": "image_url", "image_url": {}}, "image_url.url"),
        ({"type": "image_url", "image_url": {"url": "ftp://x"}}, "image_url.url"),
        ({"type": "image_url", "image_url": {"url": "file:///etc/x"}}, "image_url.url"),
        ({"type": "image_url", "image_url": {"url": DATA_URL, "detail": "x"}}, "image_url.detail"),
        ({"type": "input_audio", "input_audio": {"data": "AA"}}, "input_audio.format"),
        (
            {"type": "input_audio", "input_audio": {"data": "http://x", "format": "wav"}},
            "input_audio.data",
        ),
        ({"type": "video_url", "video_url": {"url": "x"}}, "video_url.url"),
        ({"type": "file", "file": {}}, "file"),
        ({"type": "file", "file": {"filename": "a"}}, "file"),
        ({"type": "file", "file": {"file_data": "AAAA"}}, "file.file_data"),
        ({"type": "file"}, "file"),
    ],
)
def test_a_broken_part_is_named_at_its_path(part: dict[str, Any], path: str) -> None:
    assert part_paths(part) == [path]


@pytest.mark.parametrize(
    "detail",
    [
        {"type": "reasoning.text", "text": None, "signature": "s"},
        {"type": "reasoning.summary", "summary": "s"},
        {"type": "reasoning.encrypted", "data": "d", "format": "one-we-never-heard-of"},
        {"type": "reasoning.server_tool_call", "tool_name": "t", "arguments": "{}", "result": "r"},
        {"type": "reasoning.of.the.future", "anything": [1]},
        {},
    ],
)
def test_reasoning_details_are_replayed_even_when_unknown(detail: dict[str, Any]) -> None:
    accepted(messages=[{"role": "assistant", "reasoning_details": [detail]}])


@pytest.mark.parametrize(
    ("detail", "field"),
    [
        ({"type": "reasoning.summary"}, "summary"),
        ({"type": "reasoning.encrypted"}, "data"),
        ({"type": "reasoning.text", "text": 5}, "text"),
        ({"type": "reasoning.text", "index": 1.5}, "index"),
        ({"type": "reasoning.server_tool_call"}, "tool_name"),
    ],
)
def test_a_known_reasoning_detail_has_what_gives_it_meaning(
    detail: dict[str, Any], field: str
) -> None:
    message = {"role": "assistant", "reasoning_details": [detail]}
    assert message_paths(message) == [f"reasoning_details.0.{field}"]


@pytest.mark.parametrize("name", [5, True, [], {"a": 1}, None])
def test_a_key_that_a_tool_message_does_not_name_may_hold_anything(name: Any) -> None:
    result = {"role": "tool", "tool_call_id": CALL["id"], "content": "r"}
    chars = accepted(messages=[USER, ASSISTANT, result]).prompt_text_chars
    odd = accepted(messages=[USER, ASSISTANT, {**result, "name": name}])
    assert odd.prompt_text_chars == chars
