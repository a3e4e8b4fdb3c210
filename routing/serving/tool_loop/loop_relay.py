"""One turn of a loop as a stream: the caller sees the answer without calls of server tools."""

from collections.abc import Mapping, Sequence
from typing import Any

from routing.formats.caller import ToolActivity
from routing.formats.chat.answer import clean_message, has_content
from routing.serving.attempts.relay import Keeps, Relay
from routing.serving.request.loop import Loop
from routing.serving.tool_loop.recorder import Recorder
from routing.tools.interface import Result


class LoopRelay(Relay):
    """See `Relay`. Calls are told once the turn has ended, and those of server tools never."""

    def __init__(self, *given: Any, loop: Loop, kept: Keeps | None, **options: Any) -> None:
        self.loop = loop
        self._recorder = Recorder()
        self._draft = kept
        super().__init__(*given, kept=_Both(self._recorder, kept), **options)

    @property
    def message(self) -> dict[str, Any]:
        """What the model said in this turn, to be sent back to it."""
        return clean_message(
            self._recorder.message, exclude_reasoning=False, new_call_id=self._new_call_id
        )

    def open(self) -> bytes:
        """What opens the stream, where nothing has yet."""
        return self._opening()

    def functions(self) -> bytes:
        """The calls of the caller's own functions."""
        calls = [{"index": place, **call} for place, call in enumerate(self.loop.functions)]
        if not calls:
            return b""
        if self._draft is not None:
            self._draft.add({"tool_calls": calls})
        return self._opening() + self.writer.delta({"tool_calls": calls})

    def results(self, activities: Sequence[ToolActivity], results: Sequence[Result]) -> bytes:
        """What tools came to."""
        told = []
        for activity, result in zip(activities, results, strict=True):
            told.append(self.writer.end_tool(activity))
            if result.images:
                told.append(self.writer.delta({"images": result.images}))
        return b"".join(told)

    def _anew(self, delta: dict[str, Any], logprobs: Any) -> bytes:
        delta = self.loop.shown(self._cleaned(delta))
        if not has_content(delta) and logprobs is None:
            return b""
        return self._opening() + self.writer.delta(delta, logprobs)

    def _opening(self) -> bytes:
        if self.started or not self.loop.opened:
            self.loop.opened = True
            return super()._opening()
        self.started = True
        return b""


class _Both:
    """Two who want to know what was said, the other one without calls: he is told which are the
    caller's own."""

    def __init__(self, one: Keeps, other: Keeps | None) -> None:
        self._one, self._other = one, other

    def add(self, delta: Mapping[str, Any]) -> None:
        self._one.add(delta)
        if self._other is not None:
            rest = {name: each for name, each in delta.items() if name != "tool_calls"}
            self._other.add(rest)
