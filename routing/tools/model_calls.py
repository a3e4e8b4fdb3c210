"""Helpers of tools that ask models: the chat body, the conversation as a text."""

from collections.abc import Mapping
from typing import Any, Final

from gateway.http.jsonio import JsonObject
from routing.tools.interface import ToolFailed

# Settings that go to the other model as they are.
_PASSED: Final = ("model", "max_completion_tokens", "temperature", "max_tool_calls")
TASK_CHARS_MAX: Final = 200_000


def require_text(arguments: Mapping[str, Any], name: str) -> str:
    """An argument that must be a text. Raises `ToolFailed`."""
    text = arguments.get(name)
    if not isinstance(text, str) or not text.strip():
        raise ToolFailed(f"{name} must be a text")
    return text[:TASK_CHARS_MAX]


def build_body(
    settings: Mapping[str, Any], messages: list[JsonObject], **fields: object
) -> JsonObject:
    """The chat body of a question, with the caller's settings for the tool."""
    body: JsonObject = {name: settings[name] for name in _PASSED if settings.get(name)}
    reasoning = {k: v for k, v in (settings.get("reasoning") or {}).items() if v is not None}
    if reasoning:
        body["reasoning"] = reasoning
    return body | fields | {"messages": messages}


def with_instructions(instructions: str | None, *messages: JsonObject) -> list[JsonObject]:
    """The messages, behind instructions where there are any."""
    head = [{"role": "system", "content": instructions}] if instructions else []
    return [*head, *messages]


def user_message(text: str) -> JsonObject:
    return {"role": "user", "content": text}


def format_transcript(messages: list[JsonObject]) -> str:
    """A conversation as a text to be read by another model."""
    lines = []
    for message in messages:
        content = message.get("content")
        text = content if isinstance(content, str) else ""
        if isinstance(content, list):
            text = "\n".join(part["text"] for part in content if part.get("type") == "text")
        called = [call["function"]["name"] for call in message.get("tool_calls") or ()]
        beside = f"[calls {', '.join(called)}]" if called else ""
        if text or beside:
            lines.append(f"{message['role']}: {' '.join(filter(None, (text, beside)))}")
    return "\n\n".join(lines)[-TASK_CHARS_MAX:]
