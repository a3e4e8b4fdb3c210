"""Helpers of tools that ask models: the chat body, the conversation as a text."""

from collections.abc import Mapping
from typing import Any, Final

from gateway.http.jsonio import JsonObject
from routing.tools.interface import ToolFailed

# Settings that go to the other model as they are.
_PASSED: Final = ("model", "max_completion_tokens", "temperature", "max_tool_calls")
TASK_CHARS_MAX: Final = 200_000


def required_text(arguments: Mapping[str, Any], name: str) -> str:
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


def agent_name(kind: str, settings: Mapping[str, Any]) -> str:
    """The function name of one of several tools of a type."""
    name = str(settings.get("name") or "").strip()
    return f"{kind}_{name}" if name else kind


def format_transcript(messages: list[JsonObject]) -> str:
    """A conversation as a text to be read by another model."""
    lines = []
    for message in messages:
        text = _text(message.get("content"))
        called = [call["function"]["name"] for call in message.get("tool_calls") or ()]
        beside = f"[calls {', '.join(called)}]" if called else ""
        if text or beside:
            lines.append(f"{message['role']}: {' '.join(filter(None, (text, beside)))}")
    return "\n\n".join(lines)[-TASK_CHARS_MAX:]


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(part["text"] for part in parts if part.get("type") == "text")
