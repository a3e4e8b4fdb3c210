"""Relays of streams that several attempts make. These are the turns of a tool loop, whose caller
sees the answer without calls of server tools. They are also the parts of an answer that another
upstream goes on with.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from gateway.http.jsonio import JsonObject, dumps
from routing.formats.caller import ToolActivity
from routing.formats.chat.answer import clean_message, has_content
from routing.serving.attempts.relay import Keeps, Relay
from routing.serving.request.loop import Loop
from routing.serving.request.rescue import Rescue
from routing.tools.interface import Result

_TEXTS: Final = ("content", "reasoning", "reasoning_content", "refusal")
# What only one model can have begun: nobody else goes on with a picture or a voice.
_ONLY_ITS_OWN: Final = ("images", "audio")


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
    """See `Relay`. Calls are sent once the turn has ended, and those of server tools never."""

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

    def write_functions(self) -> bytes:
        """The calls of the caller's own functions."""
        calls = [{"index": place, **call} for place, call in enumerate(self.loop.functions)]
        if not calls:
            return b""
        if self._draft is not None:
            self._draft.add({"tool_calls": calls})
        return self.open_stream() + self.writer.delta({"tool_calls": calls})

    def write_results(self, activities: Sequence[ToolActivity], results: Sequence[Result]) -> bytes:
        """Write the results of tools."""
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
        return self.open_stream() + self.writer.delta(delta, logprobs)

    def open_stream(self) -> bytes:
        if self.started or not self.loop.opened:
            self.loop.opened = True
            return super().open_stream()
        self.started = True
        return b""


class RescueRelay(Relay):
    """See `Relay`. Calls of tools are sent once the upstream has ended well. One that broke off is
    made anew by the next upstream, and none is sent twice."""

    def __init__(
        self,
        *given: Any,
        rescue: Rescue,
        seam: JsonObject | None,
        is_prefilled: bool,
        kept: Keeps | None,
        **options: Any,
    ) -> None:
        self._seam = seam
        self._recorder = Recorder()
        self._draft = kept
        self.can_go_on = True
        # How many blanks at the end of the text so far this upstream has not seen, and how many
        # that it repeated were left out.
        delivered = rescue.delivered_text if is_prefilled else ""
        self._blanks_left = len(delivered) - len(delivered.rstrip())
        self._dropped = 0
        super().__init__(*given, kept=Tee(self._recorder, kept), **options)

    @property
    def delivered_text(self) -> str:
        """The text that the caller has got of this part."""
        return (self._recorder.message["content"] or "")[self._dropped :]

    def _read_payloads(self, data: bytes, out: list[bytes]) -> None:
        super()._read_payloads(data, out)
        if self.ended and (calls := self._recorder.message.get("tool_calls")):
            delta = self._clean_delta(
                {"tool_calls": [{"index": place, **call} for place, call in enumerate(calls)]}
            )
            if self._draft is not None:
                self._draft.add(delta)
            out.append(self.open_stream() + self.writer.delta(delta))

    def _translate_delta(self, delta: JsonObject, logprobs: object) -> bytes:
        if delta.get("tool_calls"):
            self._has_tool_calls = True
        if "tool_calls" in delta:
            delta = {name: each for name, each in delta.items() if name != "tool_calls"}
        if not has_content(delta) and logprobs is None:
            return b""
        self.can_go_on = self.can_go_on and not any(delta.get(name) for name in _ONLY_ITS_OWN)
        text = delta.get("content")
        if self._blanks_left and isinstance(text, str) and text:
            delta = {**delta, "content": self._drop_blanks(text)}
            if not has_content(delta):
                return b""
        return super()._translate_delta(delta, logprobs)

    def _drop_blanks(self, text: str) -> str:
        """The text without the blanks at its beginning that the caller has got already."""
        blanks = min(self._blanks_left, len(text) - len(text.lstrip()))
        self._blanks_left = self._blanks_left - blanks if blanks == len(text) else 0
        self._dropped += blanks
        return text[blanks:]

    def open_stream(self) -> bytes:
        if self.started:
            return b""
        if self._seam is None:
            return super().open_stream()
        # The caller's stream is open.
        self.started = True
        return self.writer.mark_seam(self._seam)


class Tee:
    """Two listeners of the answer. The other one hears no calls but the caller's own."""

    def __init__(self, one: Keeps, other: Keeps | None) -> None:
        self._one, self._other = one, other

    def add(self, delta: Mapping[str, Any]) -> None:
        self._one.add(delta)
        if self._other is not None:
            rest = {name: each for name, each in delta.items() if name != "tool_calls"}
            self._other.add(rest)
