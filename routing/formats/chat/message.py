"""Messages and deltas as callers get them: the upstream's own, with our names for fields."""

from collections.abc import Callable
from typing import Any

# What a caller reads as content, as against a bare role or an empty string.
_CONTENT_FIELDS = (
    "content",
    "reasoning",
    "reasoning_content",
    "reasoning_details",
    "tool_calls",
    "refusal",
    "audio",
    "images",
    "annotations",
)
_PLAIN_KEYS = frozenset({"role", "content", "refusal"})
# Where parts of a content, or reasoning details, keep what they say.
_PART_TEXTS = ("text", "thinking", "summary")


def has_content(delta: dict[str, Any]) -> bool:
    """Whether the delta carries anything a caller would miss."""
    # A loop, because this is asked for every chunk and a generator costs three times as much.
    for name in _CONTENT_FIELDS:
        if delta.get(name):
            return True
    # Of a provider's own fields those that hold something: `executed_tools`, `extra_content`.
    return any(isinstance(value, dict | list) and value for value in delta.values())


def clean_delta(
    delta: dict[str, Any], *, exclude_reasoning: bool, new_call_id: Callable[[], str]
) -> dict[str, Any]:
    """A streamed delta with `reasoning_content` renamed, reasoning left out where the caller asked
    for that, and an id on tool calls that came without one. The role is told at the beginning."""
    if len(delta) == 1 and "content" in delta:
        return delta
    clean = {name: value for name, value in delta.items() if value is not None and name != "role"}
    _settle_reasoning(clean, exclude_reasoning)
    if clean.pop("tool_calls", None) is not None and (calls := _calls(delta)):
        clean["tool_calls"] = [_call(call, new_call_id) for call in calls]
    return clean


def clean_message(
    message: dict[str, Any], *, exclude_reasoning: bool, new_call_id: Callable[[], str]
) -> dict[str, Any]:
    """A whole assistant message; `content`, `refusal` and `reasoning` are always there."""
    if _PLAIN_KEYS.issuperset(message):
        # What nearly all answers without tools and reasoning are.
        content, refusal = message.get("content"), message.get("refusal")
        return {"role": "assistant", "content": content, "refusal": refusal, "reasoning": None}
    kept = dict(message)
    _settle_reasoning(kept, exclude_reasoning)
    calls = kept["tool_calls"] = _calls(kept)
    clean = {
        "role": "assistant",
        "content": kept.get("content") or (None if calls else kept.get("content")),
        "refusal": kept.get("refusal"),
        "reasoning": kept.get("reasoning"),
    }
    # A provider's own fields stay, as in a stream; some it wants to have back.
    clean |= {name: each for name, each in kept.items() if each and name not in clean}
    if calls:
        clean["tool_calls"] = [_whole_call(call, new_call_id) for call in calls]
    return clean


def text_chars(delta: dict[str, Any]) -> int:
    """Characters of produced text in a delta or message, for the token estimator."""
    total = _chars(delta.get("content")) + _chars(delta.get("refusal"))
    if _PLAIN_KEYS.issuperset(delta):
        return total
    # Some upstreams tell their reasoning under several names.
    names = ("reasoning", "reasoning_content", "reasoning_details")
    total += next((chars for name in names if (chars := _chars(delta.get(name)))), 0)
    if isinstance(audio := delta.get("audio"), dict):
        total += _chars(audio.get("transcript"))
    for call in _calls(delta):
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict):
            total += _chars(function.get("name")) + _chars(function.get("arguments"))
    return total


def _chars(value: Any) -> int:
    """Characters of a text, or of all texts in a list of parts."""
    if isinstance(value, str):
        return len(value)
    if not isinstance(value, list):
        return 0
    parts = (part for part in value if isinstance(part, dict))
    return sum(_chars(part.get(name)) for part in parts for name in _PART_TEXTS)


def _calls(message: dict[str, Any]) -> list[Any]:
    calls = message.get("tool_calls")
    return calls if isinstance(calls, list) else []


def _settle_reasoning(message: dict[str, Any], exclude: bool) -> None:
    renamed = message.pop("reasoning_content", None)
    if renamed is not None and message.get("reasoning") is None:
        message["reasoning"] = renamed
    if exclude:
        message.pop("reasoning", None)
        message.pop("reasoning_details", None)


def _call(call: Any, new_call_id: Callable[[], str]) -> Any:
    """The first delta of a call names its function: it carries `id` and `type` as well."""
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict) or not function.get("name"):
        return call
    return {**call, "id": call.get("id") or new_call_id(), "type": "function"}


def _whole_call(call: Any, new_call_id: Callable[[], str]) -> Any:
    named = _call(call, new_call_id)
    if isinstance(named, dict):
        named = {name: value for name, value in named.items() if name != "index"}
    return named
