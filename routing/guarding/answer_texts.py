"""The texts of a chat-shaped answer, and the answer with others in their place."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from gateway.http.errors import MalformedJson
from gateway.http.jsonio import JsonObject, dumps, loads
from routing.formats.caller import ToolActivity

Change = Callable[[str], str]
TEXT_FIELDS: Final = ("content", "reasoning", "reasoning_content", "refusal")
DETAIL_FIELDS: Final = ("text", "summary")
# Of a server tool's call: its arguments, and its result.
CALLED: Final = ("arguments",)
CAME_TO: Final = ("result", "item", "block")
# What else a message has is the provider's own, or quotes: of any form, and with texts in it.
_FORMED: Final = frozenset(
    {*TEXT_FIELDS, "role", "audio", "reasoning_details", "tool_calls", "images", "logprobs"}
)
_NO_TEXT: Final = frozenset({"type", "id", "status", "encrypted_content", "media_type"})


def collect_texts(visit: Callable[[Change], object]) -> list[str]:
    """The texts that `visit` hands to a change, in its order."""
    texts: list[str] = []

    def collect(text: str) -> str:
        texts.append(text)
        return text

    visit(collect)
    return texts


def map_message(message: JsonObject, change: Change) -> JsonObject:
    """The message with each of its texts changed. Their order is fixed: the answer, the thoughts,
    the arguments of tool calls, and what is quoted. Speech whose transcript is another has no
    sound."""
    changed = dict(message)
    for name in TEXT_FIELDS:
        value = changed.get(name)
        if isinstance(value, str) and value:
            changed[name] = change(value)
        elif isinstance(value, list):
            changed[name] = [_map_part(part, ("text",), change) for part in value]
    audio = changed.get("audio")
    spoken = audio.get("transcript") if isinstance(audio, dict) else None
    if isinstance(spoken, str) and spoken and (transcript := change(spoken)) != spoken:
        changed["audio"] = {**changed["audio"], "transcript": transcript, "data": ""}
    if isinstance(details := changed.get("reasoning_details"), list):
        changed["reasoning_details"] = [_map_part(each, DETAIL_FIELDS, change) for each in details]
    if isinstance(calls := changed.get("tool_calls"), list):
        changed["tool_calls"] = [_map_call(call, change) for call in calls]
    return changed | {
        name: _map_nested(value, change) for name, value in message.items() if name not in _FORMED
    }


def map_arguments(arguments: str, change: Change) -> str:
    """Arguments in JSON with each of their strings, names and numbers changed; the same text where
    none is. What is no JSON is a text as a whole."""
    try:
        value = loads(arguments.encode())
    except MalformedJson:
        return change(arguments) if arguments else arguments
    changed = _map_strings(value, change)
    return arguments if changed == value else dumps(changed).decode()


def map_activity(activity: ToolActivity, fields: Sequence[str], change: Change) -> None:
    """Change each text of these fields of a server tool's call, in place. A writer that has begun
    to write it reads the rest when it has ended."""
    for name in fields:
        value = getattr(activity, name)
        changed = (
            map_arguments(value, change) if name == "arguments" else _map_nested(value, change)
        )
        setattr(activity, name, changed)


def _map_nested(value: object, change: Change) -> Any:
    """A tool's result, with its texts changed; sealed contents and files stay."""
    if isinstance(value, str):
        return change(value) if value and not value.startswith("data:image/") else value
    if isinstance(value, list):
        return [_map_nested(each, change) for each in value]
    if not isinstance(value, dict) or value.get("type") == "base64":
        return value
    return {
        name: each if name in _NO_TEXT else _map_nested(each, change)
        for name, each in value.items()
    }


def _map_part(part: object, names: tuple[str, ...], change: Change) -> Any:
    if not isinstance(part, dict):
        return part
    texts = {
        name: change(part[name]) for name in names if isinstance(part.get(name), str) and part[name]
    }
    return {**part, **texts} if texts else part


def _map_call(call: Any, change: Change) -> Any:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict):
        return call
    arguments = function.get("arguments")
    if isinstance(arguments, dict):
        # Some upstreams give an object for its text.
        arguments = dumps(arguments).decode()
    if not isinstance(arguments, str):
        return call
    return {**call, "function": {**function, "arguments": map_arguments(arguments, change)}}


def _map_strings(value: object, change: Change) -> Any:
    if isinstance(value, str):
        return change(value) if value else value
    if isinstance(value, list):
        return [_map_strings(each, change) for each in value]
    if isinstance(value, dict):
        return {change(name): _map_strings(each, change) for name, each in value.items()}
    if isinstance(value, int | float) and not isinstance(value, bool):
        text = str(value)
        changed = change(text)
        return value if changed == text else changed
    return value
