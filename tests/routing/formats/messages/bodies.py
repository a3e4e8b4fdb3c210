"""Small messages bodies, and what every test here asks of them: what was read, what was refused."""

from typing import Any

import pytest

from routing.formats.chat.request import ChatInvalid, ChatRequest
from routing.formats.messages.request import parse_messages

USER: dict[str, Any] = {"role": "user", "content": "hi"}
TOOL: dict[str, Any] = {"name": "f", "input_schema": {"type": "object"}}
USE: dict[str, Any] = {"type": "tool_use", "id": "t1", "name": "f", "input": {"a": [1, "é"]}}
RESULT: dict[str, Any] = {"type": "tool_result", "tool_use_id": "t1", "content": "r"}
TEXT: dict[str, Any] = {"type": "text", "text": "x"}
IMAGE: dict[str, Any] = {
    "type": "image",
    "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"},
}
EPHEMERAL: dict[str, Any] = {"type": "ephemeral"}


def body_of(**fields: Any) -> dict[str, Any]:
    return {"model": "acme/small", "max_tokens": 4096, "messages": [USER], **fields}


def accepted(session_header: str | None = None, /, **fields: Any) -> ChatRequest:
    return parse_messages(body_of(**fields), session_header=session_header)


def refused(session_header: str | None = None, /, **fields: Any) -> ChatInvalid:
    with pytest.raises(ChatInvalid) as caught:
        parse_messages(body_of(**fields), session_header=session_header)
    return caught.value


def paths(session_header: str | None = None, /, **fields: Any) -> list[str]:
    return [issue.path for issue in refused(session_header, **fields).issues]


def said(role: str, *blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": role, "content": list(blocks)}


def chat_of(*messages: dict[str, Any], **fields: Any) -> list[dict[str, Any]]:
    """The chat messages that messages become."""
    translated: list[dict[str, Any]] = accepted(messages=list(messages), **fields).body["messages"]
    return translated
