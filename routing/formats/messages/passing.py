"""The events of an upstream that speaks messages, handed on as they came."""

from collections.abc import Callable
from typing import Any, Final

from routing.entities.exchange import Native
from routing.formats.caller import Ending
from routing.formats.chat.answer import Served
from routing.formats.messages.answer import owned
from routing.formats.messages.passed_blocks import PassedBlocks
from routing.formats.messages.streaming.frames import PING, frame
from routing.formats.messages.usage import NO_USAGE, is_call, stop_of, usage_of
from routing.formats.messages.verbatim import verbatim

_LAST_WORDS: Final = ("stop_reason", "stop_sequence", "stop_details", "container")
# So many events may come before the start; then the gateway says one itself.
_EARLY_MAX: Final = 100


class PassedEvents:
    """One stream. Only its first event is written anew; the last two are kept back, because what
    the answer costs is known after them. Where the upstream strays from the order of the format,
    the caller does not see it: `opening` makes the start that an upstream left out.
    """

    __slots__ = (
        "_begun",
        "_blocks",
        "_delta",
        "_early",
        "_fields",
        "_has_calls",
        "_has_start",
        "_opening",
        "_pinged",
        "_served",
        "_usage",
    )

    def __init__(self, served: Served, opening: Callable[[], bytes]) -> None:
        self._served = served
        self._opening = opening
        self._begun = self._has_start = self._pinged = self._has_calls = False
        self._early: list[Native] = []
        self._blocks = PassedBlocks()
        self._fields: dict[str, Any] = {}
        self._delta: dict[str, Any] = {}
        self._usage: dict[str, Any] = {}

    def event(self, native: Native) -> bytes:
        name = native.name
        if name == "content_block_delta" and self._begun:
            return self._blocks.delta(native)
        if name == "message_start":
            return self._start(native.value)
        if name == "message_delta":
            self._keep(native.value)
            return b""
        if name in ("message_stop", "error"):
            return b""
        if name.startswith("content_block_"):
            self._has_calls = self._has_calls or is_call(native.value.get("content_block"))
            return self._begin() + self._blocks.event(native)
        return self._other(native)

    def rest(self) -> bytes:
        """What is missing before the last two events."""
        return self._begin() + self._blocks.end()

    def last(self, ending: Ending) -> dict[str, Any]:
        """The fields of the message_delta that ends the stream."""
        stop = stop_of(ending.finish_reason, ending.native_finish, ending.stop_sequence)
        delta = {**stop, "container": None, **self._delta}
        if self._has_calls and delta["stop_reason"] == "end_turn":
            delta["stop_reason"] = "tool_use"
        usage = usage_of(ending.usage, ending.service_tier, self._usage)
        return {**self._fields, "delta": delta, "usage": usage}

    def _begin(self, start: bytes | None = None) -> bytes:
        """The start, once, and what came before it."""
        if self._begun:
            return b""
        self._begun = True
        early, self._early = self._early, []
        return (start or self._opening()) + b"".join(map(verbatim, early))

    def _start(self, value: dict[str, Any]) -> bytes:
        if self._has_start:
            return b""
        self._has_start = True
        message = value.get("message")
        message = owned(message if isinstance(message, dict) else {}, self._served)
        usage = message.get("usage")
        if isinstance(usage, dict):
            # A count that came before the start is the later one all the same.
            self._usage = {**usage, **self._usage}
        said = {name: message[name] for name in _LAST_WORDS if message[name] is not None}
        self._delta = {**said, **self._delta}
        content = message["content"]
        message |= {"content": [], "usage": {**NO_USAGE, **self._usage}}
        fields = {name: item for name, item in value.items() if name != "type"}
        start = self._begin(frame("message_start", {**fields, "message": message}) + PING)
        # Clients read blocks from their own events; some upstreams begin with whole ones.
        blocks = [block for block in content if isinstance(block, dict)] if content else []
        self._has_calls = self._has_calls or any(map(is_call, blocks))
        return start + b"".join(map(self._blocks.whole, blocks))

    def _other(self, native: Native) -> bytes:
        if native.name == "ping" and not (self._pinged and self._begun):
            # One is said with the start.
            self._pinged = True
            return b""
        if self._begun:
            return verbatim(native)
        self._early.append(native)
        return self._begin() if len(self._early) > _EARLY_MAX else b""

    def _keep(self, value: dict[str, Any]) -> None:
        said = {"delta": self._delta, "usage": self._usage}
        for name, item in value.items():
            if name in said:
                kept = item if isinstance(item, dict) else {}
                said[name].update({key: each for key, each in kept.items() if each is not None})
            elif name != "type":
                self._fields[name] = item
