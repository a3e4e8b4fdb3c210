"""Chat messages as an OpenAI-style upstream takes them.

Messages pass through as the caller wrote them; only what such an upstream would refuse is changed,
and only the changed messages are copied.
"""

from collections.abc import Callable
from typing import Any, Final, TypeVar

# Keys that mark cache breakpoints; an endpoint takes them when it lists the first.
_CACHE_KEYS: Final = ("cache_control", "prompt_cache_breakpoint")

T = TypeVar("T")


def forwarded_messages(
    messages: list[dict[str, Any]], *, supported: frozenset[str]
) -> list[dict[str, Any]]:
    """The messages to send; the very same list when nothing needs to change."""
    system_only = "developer" not in supported
    cache_marks = "cache_control" in supported

    def forwarded(message: dict[str, Any]) -> dict[str, Any]:
        role, content = message["role"], message.get("content")
        if (role == "user" or role == "system") and type(content) is str:
            return message
        changes: dict[str, Any] = {}
        if role == "developer" and system_only:
            changes["role"] = "system"
        if type(content) is list:
            parts = _mapped(content, lambda part: _part(part, cache_marks))
            if parts is not content:
                changes["content"] = parts
        if role == "assistant" and _needs_cleaning(message):
            return _clean({**message, **changes})
        if role == "tool" and "is_error" in message:
            # Other formats say so of a result; here there is no place for it.
            kept = {key: value for key, value in message.items() if key != "is_error"}
            return {**kept, **changes}
        return {**message, **changes} if changes else message

    return _mapped(messages, forwarded)


def _mapped(items: list[T], change: Callable[[T], T]) -> list[T]:
    """`items` with every change made; the same list while there is none."""
    result = items
    for index, item in enumerate(items):
        changed = change(item)
        if changed is not item:
            if result is items:
                result = items.copy()
            result[index] = changed
    return result


def _part(part: dict[str, Any], cache_marks: bool) -> dict[str, Any]:
    kind = part["type"]
    changes: dict[str, Any] = {}
    if kind == "input_video":
        changes["type"] = "video_url"
    elif kind == "image_url" and part["image_url"].get("detail") == "original":
        changes["image_url"] = {**part["image_url"], "detail": "high"}
    if not cache_marks and any(key in part for key in _CACHE_KEYS):
        part = {key: value for key, value in part.items() if key not in _CACHE_KEYS}
    return {**part, **changes} if changes else part


def _needs_cleaning(message: dict[str, Any]) -> bool:
    return "model" in message or None in message.values() or message.get("tool_calls") == []


def _clean(message: dict[str, Any]) -> dict[str, Any]:
    """Without `model` (the gateway's own), nulls and empty tool calls, which upstreams refuse.

    A null content stays: it is how an answer with nothing but tool calls is written.
    """
    return {
        key: value
        for key, value in message.items()
        if key == "content"
        or not (key == "model" or value is None or (key == "tool_calls" and not value))
    }
