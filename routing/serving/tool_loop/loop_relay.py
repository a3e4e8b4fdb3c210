"""One turn of a tool loop as a stream: the caller sees the answer without calls of server tools."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from gateway.http.jsonio import JsonObject, dumps
from routing.formats.caller import ToolActivity
from routing.formats.chat.answer import clean_message, has_content
from routing.serving.attempts.relay import Keeps, Relay
from routing.serving.request.loop import Loop
from routing.tools.interface import Result

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
                    function = call.get("function")
                    function = function if isinstance(function, dict) else {}
                    recorded = self._find_call(call, function)
                    if recorded is None:
                        recorded = _Call()
                        self._calls.append(recorded)
                        self._numbered[call.get("index")] = recorded
                    recorded.add(call, function)

    @property
    def message(self) -> JsonObject:
        """A chat message, as an answer in one piece would have brought it."""
        message: JsonObject = {"role": "assistant", "content": None}
        message |= {name: "".join(pieces) for name, pieces in self._texts.items()}
        if self._details:
            message["reasoning_details"] = self._details
        if self._calls:
            message["tool_calls"] = [call.value() for call in self._calls]
        return message

    def _find_call(self, call: JsonObject, function: JsonObject) -> "_Call | None":
        """The call that this is a piece of. Some upstreams leave the index out, or give every call
        the same: then a name with another id begins a call."""
        index, name, given_id = call.get("index"), function.get("name"), call.get("id")
        last = self._calls[-1] if self._calls else None
        recorded = last if index is None else self._numbered.get(index)
        if recorded is None or not name:
            return recorded
        again = recorded.id == given_id if given_id else index is not None
        return recorded if again or not recorded.name else None


class _Call:
    def __init__(self) -> None:
        self.id: str | None = None
        self.name = ""
        self._pieces: list[str] = []

    def add(self, call: JsonObject, function: JsonObject) -> None:
        given_id, name, arguments = call.get("id"), function.get("name"), function.get("arguments")
        if isinstance(given_id, str) and given_id:
            self.id = self.id or given_id
        if isinstance(name, str):
            self.name = self.name or name
        if isinstance(arguments, dict):
            arguments = dumps(arguments).decode()
        if isinstance(arguments, str):
            self._pieces.append(arguments)

    def value(self) -> JsonObject:
        function = {"name": self.name, "arguments": "".join(self._pieces)}
        return {"id": self.id, "type": "function", "function": function}


class LoopRelay(Relay):
    """See `Relay`. Calls are told once the turn has ended, and those of server tools never."""

    def __init__(self, *given: Any, loop: Loop, kept: Keeps | None, **options: Any) -> None:
        self.loop = loop
        self._recorder = Recorder()
        self._draft = kept
        super().__init__(*given, kept=Tee(self._recorder, kept), **options)

    @property
    def message(self) -> JsonObject:
        """What the model said in this turn, to be sent back to it."""
        return clean_message(
            self._recorder.message, exclude_reasoning=False, new_call_id=self._new_call_id
        )

    def open_stream(self) -> bytes:
        """What opens the stream, where nothing has yet."""
        return self._write_opening()

    def write_functions(self) -> bytes:
        """The calls of the caller's own functions."""
        calls = [{"index": place, **call} for place, call in enumerate(self.loop.functions)]
        if not calls:
            return b""
        if self._draft is not None:
            self._draft.add({"tool_calls": calls})
        return self._write_opening() + self.writer.delta({"tool_calls": calls})

    def write_results(self, activities: Sequence[ToolActivity], results: Sequence[Result]) -> bytes:
        """What tools came to."""
        pieces = []
        for activity, result in zip(activities, results, strict=True):
            pieces.append(self.writer.end_tool(activity))
            if result.images:
                pieces.append(self.writer.delta({"images": result.images}))
        return b"".join(pieces)

    def _translate_delta(self, delta: JsonObject, logprobs: object) -> bytes:
        delta = self.loop.visible_message(self._clean_delta(delta))
        if not has_content(delta) and logprobs is None:
            return b""
        return self._write_opening() + self.writer.delta(delta, logprobs)

    def _write_opening(self) -> bytes:
        if self.started or not self.loop.opened:
            self.loop.opened = True
            return super()._write_opening()
        self.started = True
        return b""


class Tee:
    """Two who want to know what was said, the other one without calls: he is told which are the
    caller's own."""

    def __init__(self, one: Keeps, other: Keeps | None) -> None:
        self._one, self._other = one, other

    def add(self, delta: Mapping[str, Any]) -> None:
        self._one.add(delta)
        if self._other is not None:
            rest = {name: each for name, each in delta.items() if name != "tool_calls"}
            self._other.add(rest)
