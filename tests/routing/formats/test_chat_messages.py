"""Messages and their content parts (inference 1.2 to 1.5), and images of every format."""

from collections.abc import Callable
from typing import Any, Final

import pytest

from tests.routing.formats import chat_bodies
from tests.routing.formats.chat_bodies import (
    CALL,
    DATA_URL,
    USER,
    Bodies,
    expect_refusal,
    parse_fields,
    paths,
    text_of,
)
from tests.routing.formats.messages import bodies as messages
from tests.routing.formats.responses import bodies as responses

Body = dict[str, Any]
ROLES = '"system"|"developer"|"user"|"assistant"|"tool"|"function"'
CALLED: Body = {"role": "assistant", "tool_calls": [CALL]}
DETAIL = {"type": "reasoning.text", "text": "hm", "format": "unknown", "index": 0, "id": None}
TEXT = {"type": "text", "text": "x"}


def image(url: Any, **fields: Any) -> Body:
    return {"type": "image_url", "image_url": {"url": url, **fields}}


def file(**fields: Any) -> Body:
    return {"type": "file", "file": fields}


def sound(**fields: Any) -> Body:
    return {"type": "input_audio", "input_audio": {"data": "AA", **fields}}


def message_by(role: str, content: Any, **fields: Any) -> Body:
    return {"role": role, "content": content, **fields}


def test_an_unknown_role_and_what_is_no_message_are_named_at_their_path() -> None:
    text = f"messages.0.role: Invalid option: expected one of {ROLES}"
    for odd in ({"role": "wizard"}, {}, {"role": ["user"]}):
        assert text_of(messages=[{**odd, "content": "x"}]) == text
    assert text_of(messages=[]) == "messages: Too small: expected array to have >=1 items"
    assert text_of(messages=[USER, "x"]) == (
        "messages.1: Invalid input: expected object, received string"
    )


@pytest.mark.parametrize(
    "message",
    [
        message_by("developer", "", name="n", unknown=object()),
        message_by("user", [{"type": "text", "text": ""}]),
        message_by("assistant", []),
        message_by(
            "assistant", None, reasoning_details=[DETAIL], audio={"id": "a"}, annotations=[{}]
        ),
    ],
)
def test_a_message_may_be_empty_and_stand_anywhere(message: Body) -> None:
    parse_fields(messages=[message, USER, USER, message])


@pytest.mark.parametrize(
    ("message", "path"),
    [
        (message_by("system", [image("http://x")]), "content.0.type"),
        (message_by("user", []), "content"),
        (message_by("assistant", None, tool_calls=[{**CALL, "type": "x"}]), "tool_calls.0.type"),
        (message_by("assistant", None, images=[TEXT]), "images.0.type"),
        (message_by("tool", [], tool_call_id="c1"), "content"),
    ],
)
def test_a_broken_message_is_named_at_its_path(message: Body, path: str) -> None:
    assert paths(messages=[message]) == [f"messages.0.{path}"]


def test_a_tool_message_answers_an_earlier_call() -> None:
    answer = message_by("tool", "x", tool_call_id="c1")
    chars = parse_fields(messages=[USER, CALLED, answer]).prompt_text_chars
    for said in ([USER, answer], [USER, answer, CALLED]):
        error = expect_refusal(messages=said)
        assert error.error_type == "invalid_prompt"
        assert [issue.path for issue in error.issues] == ["messages.1.tool_call_id"]
    # A key that such a message does not name may hold anything.
    names: tuple[Any, ...] = (5, True, [], {"a": 1}, None)
    for name in names:
        odd = parse_fields(messages=[USER, CALLED, {**answer, "name": name}])
        assert odd.prompt_text_chars == chars


@pytest.mark.parametrize(
    "part",
    [
        {**TEXT, "prompt_cache_breakpoint": {"mode": "explicit"}, "zz": 1},
        image("HTTPS://x/y.png", detail="original"),
        sound(format="anything"),
        {"type": "video_url", "video_url": {"url": "http://x/v.mp4"}},
        {"type": "input_video", "video_url": {"url": "data:video/mp4;base64,AA"}},
        file(file_data="https://x/a.pdf", filename="a.pdf"),
    ],
)
def test_a_part_of_each_type_passes(part: Body) -> None:
    parse_fields(
        messages=[message_by("user", [part]), CALLED, message_by("tool", [part], tool_call_id="c1")]
    )


@pytest.mark.parametrize(
    ("part", "path"),
    [
        ({"type": "hologram"}, "type"),
        ({**TEXT, "cache_control": {"type": "x"}}, "cache_control.type"),
        (image("ftp://x"), "image_url.url"),
        (image("file:///etc/x"), "image_url.url"),
        (image(DATA_URL, detail="x"), "image_url.detail"),
        (sound(data="http://x", format="wav"), "input_audio.data"),
        ({"type": "video_url", "video_url": {"url": "x"}}, "video_url.url"),
        (file(), "file"),
        (file(filename="a"), "file"),
        (file(file_data="AAAA"), "file.file_data"),
    ],
)
def test_a_broken_part_is_named_at_its_path(part: Body, path: str) -> None:
    assert paths(messages=[message_by("user", [part])]) == [f"messages.0.content.0.{path}"]


@pytest.mark.parametrize(
    ("kind", "fields", "wrong"),
    [
        ("text", {"text": None, "signature": "s"}, None),
        ("summary", {"summary": "s"}, None),
        ("encrypted", {"data": "d", "format": "one-we-never-heard-of"}, None),
        ("server_tool_call", {"tool_name": "t", "arguments": "{}", "result": "r"}, None),
        ("of.the.future", {"anything": [1]}, None),
        ("text", {"text": 5}, "text"),
    ],
)
def test_a_known_reasoning_detail_is_checked_and_an_unknown_one_replayed(
    kind: str, fields: Body, wrong: str | None
) -> None:
    detail = {"type": f"reasoning.{kind}", **fields}
    said = [message_by("assistant", None, reasoning_details=[{}, detail])]
    if wrong is None:
        parse_fields(messages=said)
    else:
        assert paths(messages=said) == [f"messages.0.reasoning_details.1.{wrong}"]


def chat_with(part: Body, role: str = "user") -> Body:
    return {"messages": [CALLED, message_by(role, [part], tool_call_id="c1")]}


def messages_with(block: Body) -> Body:
    return {
        "messages": [
            messages.message_by("assistant", messages.USE),
            messages.message_by("user", block),
        ]
    }


def responses_with(part: Body, *, of_tool: bool = False) -> Body:
    output = [responses.CALL, {**responses.CALL_OUTPUT, "output": [part]}]
    return {"input": output if of_tool else [message_by("user", [part])]}


def block_of(url: str) -> Body:
    return {"type": "image", "source": {"type": "url", "url": url}}


# Each way in which an image may come, and in a file.
WAYS: Final[dict[str, tuple[Bodies, Callable[[str], Body]]]] = {
    "chat": (chat_bodies.BODIES, lambda url: chat_with(image(url))),
    "chat, a tool's": (chat_bodies.BODIES, lambda url: chat_with(image(url), "tool")),
    "chat, a file": (chat_bodies.BODIES, lambda url: chat_with(file(file_data=url))),
    "messages": (messages.BODIES, lambda url: messages_with(block_of(url))),
    "messages, a tool's": (
        messages.BODIES,
        lambda url: messages_with({**messages.RESULT, "content": [block_of(url)]}),
    ),
    "messages, a file": (
        messages.BODIES,
        lambda url: messages_with(messages.document("url", url=url)),
    ),
    "responses": (
        responses.BODIES,
        lambda url: responses_with({"type": "input_image", "image_url": url}),
    ),
    "responses, a tool's": (
        responses.BODIES,
        lambda url: responses_with({"type": "input_image", "image_url": url}, of_tool=True),
    ),
    "responses, a file": (
        responses.BODIES,
        lambda url: responses_with({"type": "input_file", "file_data": url}),
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_an_image_is_of_a_type_that_upstreams_take_whichever_way_it_comes(way: str) -> None:
    bodies, body = WAYS[way]
    for good in ("image/png", "image/jpeg", "image/jpg", "image/gif", "IMAGE/WEBP; charset=x"):
        bodies.parse_fields(**body(f"data:{good};base64,AAAA"))
    bodies.parse_fields(**body("https://images.example/picture.tiff"))
    for bad in ("image/tiff", "image/svg+xml", "image/", "Image/x-icon"):
        [issue] = bodies.expect_refusal(**body(f"data:{bad};base64,AAAA")).issues
        assert issue.message.endswith("expected image/jpeg, image/png, image/gif or image/webp")
    if "file" not in way:
        for bad in ("data:text/html,<p>", "data:application/pdf;base64,AAAA", "data:,A", "data:"):
            assert "image" in bodies.text_of(**body(bad))


def test_an_image_of_an_answer_may_come_back_whatever_its_type() -> None:
    parse_fields(
        messages=[message_by("assistant", None, images=[image("data:image/avif;base64,AAAA")])]
    )
