"""A streamed answer put together again, to be sent back to its model."""

from collections.abc import Mapping
from typing import Any, Final

from gateway.http.jsonio import dumps

_TEXTS: Final = ("content", "reasoning", "reasoning_content", "refusal")


class Recorder:
    """Hears deltas as the upstream said them; `message` is what they make."""

    def __init__(self) -> None:
        self._texts: dict[str, list[str]] = {}
        self._details: list[Any] = []
        self._calls: list[_Call] = []
        self._numbered: dict[Any, _Call] = {}

    def add(self, delta: Mapping[str, Any]) -> None:
        """One delta."""
        for name in _TEXTS:
            text = delta.get(name)
            if type(text) is str and text:
                self._texts.setdefault(name, []).append(text)
        if isinstance(details := delta.get("reasoning_details"), list):
            self._details += details
        if isinstance(calls := delta.get("tool_calls"), list):
            for call in calls:
                if isinstance(call, dict):
                    self._add_call(call)

    @property
    def message(self) -> dict[str, Any]:
        """A chat message, as an answer in one piece would have brought it."""
        said: dict[str, Any] = {"role": "assistant", "content": None}
        said |= {name: "".join(pieces) for name, pieces in self._texts.items()}
        if self._details:
            said["reasoning_details"] = self._details
        if self._calls:
            said["tool_calls"] = [call.value() for call in self._calls]
        return said

    def _add_call(self, call: dict[str, Any]) -> None:
        function = call.get("function")
        function = function if isinstance(function, dict) else {}
        known = self._known(call, function)
        if known is None:
            known = _Call()
            self._calls.append(known)
            self._numbered[call.get("index")] = known
        known.add(call, function)

    def _known(self, call: dict[str, Any], function: dict[str, Any]) -> "_Call | None":
        """The call that this is a piece of. Some upstreams leave the index out, or give every call
        the same: then a name with another id begins a call."""
        index, named, given_id = call.get("index"), function.get("name"), call.get("id")
        last = self._calls[-1] if self._calls else None
        known = last if index is None else self._numbered.get(index)
        if known is None or not named:
            return known
        again = known.id == given_id if given_id else index is not None
        return known if again or not known.name else None


class _Call:
    def __init__(self) -> None:
        self.id: str | None = None
        self.name = ""
        self._pieces: list[str] = []

    def add(self, call: dict[str, Any], function: dict[str, Any]) -> None:
        given_id, name, arguments = call.get("id"), function.get("name"), function.get("arguments")
        if isinstance(given_id, str) and given_id:
            self.id = self.id or given_id
        if isinstance(name, str):
            self.name = self.name or name
        if isinstance(arguments, dict):
            arguments = dumps(arguments).decode()
        if isinstance(arguments, str):
            self._pieces.append(arguments)

    def value(self) -> dict[str, Any]:
        function = {"name": self.name, "arguments": "".join(self._pieces)}
        return {"id": self.id, "type": "function", "function": function}
