"""An image says of which type it is, whichever way it comes in."""

from collections.abc import Callable
from typing import Any, Final

import pytest

from tests.routing.formats import chat_bodies
from tests.routing.formats.messages import bodies as messages
from tests.routing.formats.responses import bodies as responses

Body = dict[str, Any]


def _chat(part: Body, role: str = "user") -> Body:
    calls = {"role": "assistant", "tool_calls": [chat_bodies.CALL]}
    return {"messages": [calls, {"role": role, "content": [part], "tool_call_id": "c1"}]}


def _message(block: Body) -> Body:
    return {"messages": [messages.said("assistant", messages.USE), messages.said("user", block)]}


def _result(block: Body) -> Body:
    return _message({**messages.RESULT, "content": [block]})


def _image(url: str) -> Body:
    return {"type": "image_url", "image_url": {"url": url}}


def _block(url: str) -> Body:
    return {"type": "image", "source": {"type": "url", "url": url}}


def _part(url: str) -> Body:
    return {"type": "input_image", "image_url": url}


def _item(part: Body) -> Body:
    return {"input": [{"role": "user", "content": [part]}]}


def _output(part: Body) -> Body:
    return {"input": [responses.CALL, {**responses.CALL_OUTPUT, "output": [part]}]}


WAYS: Final[dict[str, tuple[Any, Callable[[str], Body]]]] = {
    "chat": (chat_bodies, lambda url: _chat(_image(url))),
    "chat, a tool's": (chat_bodies, lambda url: _chat(_image(url), "tool")),
    "chat, a file": (chat_bodies, lambda url: _chat({"type": "file", "file": {"file_data": url}})),
    "messages": (messages, lambda url: _message(_block(url))),
    "messages, a tool's": (messages, lambda url: _result(_block(url))),
    "messages, a document": (
        messages,
        lambda url: _message({"type": "document", "source": {"type": "url", "url": url}}),
    ),
    "responses": (responses, lambda url: _item(_part(url))),
    "responses, a tool's": (responses, lambda url: _output(_part(url))),
    "responses, a file": (responses, lambda url: _item({"type": "input_file", "file_data": url})),
}


@pytest.mark.parametrize("way", WAYS)
def test_an_image_is_of_a_type_that_upstreams_take(way: str) -> None:
    bodies, body = WAYS[way]
    for good in ("image/png", "image/jpeg", "image/jpg", "image/gif", "IMAGE/WEBP; charset=x"):
        bodies.accepted(**body(f"data:{good};base64,AAAA"))
    bodies.accepted(**body("https://images.example/picture.tiff"))
    for bad in ("image/tiff", "image/svg+xml", "image/", "Image/x-icon"):
        [issue] = bodies.refused(**body(f"data:{bad};base64,AAAA")).issues
        assert issue.message.endswith("expected image/jpeg, image/png, image/gif or image/webp")


@pytest.mark.parametrize("way", [way for way in WAYS if "file" not in way and "doc" not in way])
def test_what_is_no_image_is_no_image(way: str) -> None:
    bodies, body = WAYS[way]
    for bad in ("data:text/html,<p>", "data:application/pdf;base64,AAAA", "data:,A", "data:"):
        assert "image" in str(bodies.refused(**body(bad)))


def test_an_image_of_an_answer_may_come_back_whatever_its_type() -> None:
    odd = _image("data:image/avif;base64,AAAA")
    chat_bodies.accepted(messages=[{"role": "assistant", "images": [odd]}])
