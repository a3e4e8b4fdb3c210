"""Chat bodies that operators put together on a command line."""

from typing import Any

from gateway.commands import Refused
from gateway.http.errors import MalformedJson
from gateway.http.jsonio import loads
from routing.formats.chat.request import ChatInvalid, ChatRequest, parse_chat

_MESSAGES = [{"role": "user", "content": ""}]


def json_object(text: str, argument: str) -> dict[str, Any]:
    """The object an argument holds. Raises `Refused` naming the argument."""
    try:
        value = loads(text.encode())
    except MalformedJson as error:
        raise Refused(f"{argument} is no JSON") from error
    if not isinstance(value, dict):
        raise Refused(f"{argument} is no object")
    return value


def chat_of(body: dict[str, Any]) -> ChatRequest:
    """The request, with a message of its own where the body has none. Raises `Refused`."""
    try:
        return parse_chat({"messages": _MESSAGES} | body, session_header=None)
    except ChatInvalid as error:
        raise Refused(str(error)) from error
