"""Answers of chat providers made whole: what callers, the tool loop and the books rely on is there,
in one shape, whatever the provider left out. Missing ids are for the caller's format to make.

Most events need none of this; whoever reads them asks `needs_shape` first.
"""

from typing import Any, Final

import orjson

from gateway.http.jsonio import JsonObject

_NO_ARGUMENTS: Final = "{}"


def needs_shape(delta: JsonObject) -> bool:
    """Whether a message or delta has what providers spell in their own way."""
    return (
        "tool_calls" in delta
        or type(delta.get("content")) is list
        or type(delta.get("function_call")) is dict
    )


def whole_message(message: JsonObject) -> JsonObject:
    """A message whose calls have a type and arguments as text, and whose content is text."""
    shaped = _with_calls(_with_text(message))
    calls = shaped.get("tool_calls")
    if isinstance(calls, list):
        shaped["tool_calls"] = [_whole_call(call) for call in calls if isinstance(call, dict)]
    return shaped


def _whole_call(call: JsonObject) -> JsonObject:
    shaped = {**call, "type": call.get("type") or "function"}
    function = call.get("function")
    if isinstance(function, dict):
        text = _arguments(function.get("arguments")) or _NO_ARGUMENTS
        shaped["function"] = {**function, "arguments": text}
    return shaped


def _arguments(given: Any) -> str | None:
    """Arguments as the text they should be; None where there are none."""
    return given if given is None or isinstance(given, str) else orjson.dumps(given).decode()


def _with_text(message: JsonObject) -> JsonObject:
    """Content in parts as text, its thinking as reasoning (Mistral)."""
    content = message.get("content")
    shaped = dict(message)
    if not isinstance(content, list):
        return shaped
    parts = [part for part in content if isinstance(part, dict)]
    shaped["content"] = "".join(map(_text, parts)) or None
    thoughts = "".join(_thought(part) for part in parts)
    if thoughts and not message.get("reasoning"):
        shaped["reasoning"] = thoughts
    return shaped


def _with_calls(message: JsonObject) -> JsonObject:
    """The call of a function, as providers said it before there were tools, as that of a tool.
    Some fill it in with a call of nothing."""
    function = message.get("function_call")
    is_call = isinstance(function, dict) and (function.get("name") or function.get("arguments"))
    if not is_call or message.get("tool_calls"):
        return message
    return {**message, "function_call": None, "tool_calls": [{"function": function}]}


def _text(part: JsonObject) -> str:
    text = part.get("text")
    return text if isinstance(text, str) else ""


def _thought(part: JsonObject) -> str:
    given = part.get("thinking")
    if isinstance(given, list):
        return "".join(_text(each) for each in given if isinstance(each, dict))
    return given if isinstance(given, str) else ""


class StreamedCalls:
    """The tool calls of one stream: the first delta of each has an index, an id (empty where the
    provider gave none), a type and a name, later ones an index and more arguments. Where the name
    comes late the id comes with it."""

    __slots__ = ("_by_index", "_ids", "_nameless", "_silent")

    def __init__(self) -> None:
        self._ids: list[str] = []
        # The provider's index of the calls that are under way.
        self._by_index: dict[int, int] = {}
        # Those that have said no arguments yet.
        self._silent: set[int] = set()
        self._nameless: set[int] = set()

    def whole_delta(self, delta: JsonObject) -> JsonObject:
        shaped = _with_calls(_with_text(delta))
        calls = shaped.get("tool_calls")
        if isinstance(calls, list):
            shaped["tool_calls"] = [self._shape(call) for call in calls if isinstance(call, dict)]
        return shaped

    def last_delta(self, delta: JsonObject) -> JsonObject:
        """With the finish: calls that had no arguments get empty ones."""
        if not self._silent:
            return delta
        empty = {"arguments": _NO_ARGUMENTS}
        more = [{"index": number, "function": empty} for number in sorted(self._silent)]
        self._silent.clear()
        return {**delta, "tool_calls": [*(delta.get("tool_calls") or ()), *more]}

    def _shape(self, call: JsonObject) -> JsonObject:
        function = call.get("function")
        named = isinstance(function, dict) and bool(function.get("name"))
        number = self._number(call, named)
        is_new = number is None
        if number is None:
            number = self._begin(call)
        # Clients add up what they are told twice.
        shaped = {**call, "index": number}
        shaped.pop("id", None)
        shaped.pop("type", None)
        if is_new:
            shaped["type"] = call.get("type") or "function"
        is_named_now = named and number in self._nameless
        if is_named_now:
            self._nameless.discard(number)
            shaped["id"] = self._ids[number]
        if isinstance(function, dict):
            shaped["function"] = self._function(function, number, is_named_now)
        return shaped

    def _number(self, call: JsonObject, named: bool) -> int | None:
        """Which call a delta goes on with; None for a new one."""
        index, given = call.get("index"), call.get("id") or None
        if type(index) is int:
            number = self._by_index.get(index)
            # Some number all their calls alike.
            is_another = number is not None and named and given and given != self._ids[number]
            return None if is_another else number
        if given in self._ids:
            return self._ids.index(str(given))
        return None if given or named or not self._ids else len(self._ids) - 1

    def _begin(self, call: JsonObject) -> int:
        number = len(self._ids)
        self._ids.append(str(call.get("id") or ""))
        self._nameless.add(number)
        index = call.get("index")
        self._by_index[index if type(index) is int else number] = number
        if isinstance(call.get("function"), dict):
            self._silent.add(number)
        return number

    def _function(self, function: JsonObject, number: int, is_named_now: bool) -> JsonObject:
        text = _arguments(function.get("arguments"))
        if text:
            self._silent.discard(number)
        shaped = {**function, "arguments": text or ""}
        if not is_named_now:
            shaped.pop("name", None)
        return shaped
