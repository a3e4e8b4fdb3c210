"""Small responses bodies, and what each test asks of them: what was read, what was refused."""

from typing import Any

import pytest

from routing.formats.chat.request import ChatInvalid, ChatRequest
from routing.formats.responses.format import RESPONSES

CALL: dict[str, Any] = {
    "type": "function_call",
    "call_id": "c1",
    "name": "f",
    "arguments": "{not json",
}
CALL_OUTPUT: dict[str, Any] = {"type": "function_call_output", "call_id": "c1", "output": "22"}
FUNCTION: dict[str, Any] = {"type": "function", "name": "f", "parameters": None}
DATA_URL = "data:image/png;base64,AAAA"


def body(**fields: Any) -> dict[str, Any]:
    return {"model": "acme/small", "input": "hi", **fields}


def accepted(session_header: str | None = None, /, **fields: Any) -> ChatRequest:
    return RESPONSES.parse(body(**fields), session_header=session_header, models_max=3)


def refused(session_header: str | None = None, /, **fields: Any) -> ChatInvalid:
    with pytest.raises(ChatInvalid) as caught:
        accepted(session_header, **fields)
    return caught.value


def paths(session_header: str | None = None, /, **fields: Any) -> list[str]:
    return [issue.path for issue in refused(session_header, **fields).issues]


def text_of(**fields: Any) -> str:
    return str(refused(**fields))


def messages(*items: Any, **fields: Any) -> list[dict[str, Any]]:
    """What the items are in chat."""
    translated: list[dict[str, Any]] = accepted(input=list(items), **fields).body["messages"]
    return translated


def message(item: dict[str, Any]) -> dict[str, Any]:
    """The one chat message of an item."""
    [only] = messages(item)
    return only


def item_paths(*items: Any) -> list[str]:
    """Where the items are refused, below `input`."""
    return [path.removeprefix("input.") for path in paths(input=list(items))]
