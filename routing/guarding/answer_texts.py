"""The texts of a chat-shaped answer, and the answer with others in their place."""

from collections.abc import Callable
from typing import Any, Final

from gateway.http.errors import MalformedJson
from gateway.http.jsonio import JsonObject, dumps, loads

Change = Callable[[str], str]
TEXT_FIELDS: Final = ("content", "reasoning", "reasoning_content", "refusal")
DETAIL_FIELDS: Final = ("text", "summary")


def map_message(message: JsonObject, change: Change) -> JsonObject:
    """The message with each of its texts changed, in a fixed order: what is said, the thoughts, and
    what tools are called with. Speech whose transcript is another has no sound."""
    made = dict(message)
    for name in TEXT_FIELDS:
        value = made.get(name)
        if isinstance(value, str) and value:
            made[name] = change(value)
        elif isinstance(value, list):
            made[name] = [_map_part(part, ("text",), change) for part in value]
    if isinstance(audio := made.get("audio"), dict):
        made["audio"] = _map_audio(audio, change)
    if isinstance(details := made.get("reasoning_details"), list):
        made["reasoning_details"] = [_map_part(each, DETAIL_FIELDS, change) for each in details]
    if isinstance(calls := made.get("tool_calls"), list):
        made["tool_calls"] = [_map_call(call, change) for call in calls]
    return made


def map_arguments(arguments: str, change: Change) -> str:
    """Arguments in JSON with each of their strings, names and numbers changed; the same text where
    none is. What is no JSON is a text as a whole."""
    try:
        value = loads(arguments.encode())
    except MalformedJson:
        return change(arguments) if arguments else arguments
    made = _map_strings(value, change)
    return arguments if made == value else dumps(made).decode()


def _map_part(part: Any, names: tuple[str, ...], change: Change) -> Any:
    if not isinstance(part, dict):
        return part
    texts = {
        name: change(part[name]) for name in names if isinstance(part.get(name), str) and part[name]
    }
    return {**part, **texts} if texts else part


def _map_audio(audio: JsonObject, change: Change) -> JsonObject:
    spoken = audio.get("transcript")
    if not isinstance(spoken, str) or not spoken or (made := change(spoken)) == spoken:
        return audio
    return {**audio, "transcript": made, "data": ""}


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


def _map_strings(value: Any, change: Change) -> Any:
    if isinstance(value, str):
        return change(value) if value else value
    if isinstance(value, list):
        return [_map_strings(each, change) for each in value]
    if isinstance(value, dict):
        return {change(name): _map_strings(each, change) for name, each in value.items()}
    if isinstance(value, int | float) and not isinstance(value, bool):
        text = str(value)
        made = change(text)
        return value if made == text else made
    return value
