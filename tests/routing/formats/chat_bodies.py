"""Small chat bodies, and what every test here asks of them: what was read, what was refused."""

from typing import Any

import pytest

from routing.formats.chat.request import ChatInvalid, ChatRequest, parse_chat

USER: dict[str, Any] = {"role": "user", "content": "hi"}
CALL: dict[str, Any] = {
    "id": "c1",
    "type": "function",
    "function": {"name": "f", "arguments": "{not json"},
}
FUNCTION: dict[str, Any] = {"type": "function", "function": {"name": "f"}}
DATA_URL = "data:image/png;base64,AAAA"


def chat(**fields: Any) -> dict[str, Any]:
    return {"model": "acme/small", "messages": [USER], **fields}


def accepted(session_header: str | None = None, /, **fields: Any) -> ChatRequest:
    return parse_chat(chat(**fields), session_header=session_header)


def refused(session_header: str | None = None, /, **fields: Any) -> ChatInvalid:
    with pytest.raises(ChatInvalid) as caught:
        parse_chat(chat(**fields), session_header=session_header)
    return caught.value


def paths(session_header: str | None = None, /, **fields: Any) -> list[str]:
    return [issue.path for issue in refused(session_header, **fields).issues]


def text_of(**fields: Any) -> str:
    return str(refused(**fields))
