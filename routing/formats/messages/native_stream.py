"""Streams of an upstream that speaks messages itself: handed on as they came, but put in order
where they stray from the format."""

from collections.abc import Callable
from typing import Any, Final

from gateway.http.jsonio import JsonObject, dumps
from routing.entities.exchange import Native
from routing.formats.caller import AnswerIdentity, Ending
from routing.formats.messages.block_writer import (
    DELTA_END,
    PING,
    delta_head,
    write_block_start,
    write_block_stop,
    write_event,
)
from routing.formats.messages.write import (
    NO_USAGE,
    add_gateway_fields,
    build_stop_fields,
    build_usage,
    is_caller_tool_use,
)

_LAST_WORDS: Final = ("stop_reason", "stop_sequence", "stop_details", "container")
# So many events may come before the start; then the gateway says one itself.
_EARLY_MAX: Final = 100


class NativeEvents:
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

    def __init__(self, served: AnswerIdentity, opening: Callable[[], bytes]) -> None:
        self._served = served
        self._opening = opening
        self._begun = self._has_start = self._pinged = self._has_calls = False
        self._early: list[Native] = []
        self._blocks = NativeBlocks()
        self._fields: JsonObject = {}
        self._delta: JsonObject = {}
        self._usage: JsonObject = {}

    def event(self, native: Native) -> bytes:
        name = native.name
        if name == "content_block_delta" and self._begun:
            return self._blocks.delta(native)
        if name == "message_start":
            return self._start(native.value)
        if name == "message_delta":
            merged = {"delta": self._delta, "usage": self._usage}
            for key, item in native.value.items():
                if key in merged:
                    changes = item if isinstance(item, dict) else {}
                    merged[key].update(
                        {field: each for field, each in changes.items() if each is not None}
                    )
                elif key != "type":
                    self._fields[key] = item
            return b""
        if name in ("message_stop", "error"):
            return b""
        if name.startswith("content_block_"):
            self._has_calls = self._has_calls or is_caller_tool_use(
                native.value.get("content_block")
            )
            return self._begin() + self._blocks.event(native)
        if native.name == "ping" and not (self._pinged and self._begun):
            # One ping comes with the start.
            self._pinged = True
            return b""
        if self._begun:
            return write_native_event(native)
        self._early.append(native)
        return self._begin() if len(self._early) > _EARLY_MAX else b""

    def rest(self) -> bytes:
        """What is missing before the last two events."""
        return self._begin() + self._blocks.end()

    def last(self, ending: Ending) -> JsonObject:
        """The fields of the message_delta that ends the stream."""
        stop = build_stop_fields(ending.finish_reason, ending.native_finish, ending.stop_sequence)
        delta = {**stop, "container": None, **self._delta}
        if self._has_calls and delta["stop_reason"] == "end_turn":
            delta["stop_reason"] = "tool_use"
        usage = build_usage(ending.usage, ending.service_tier, self._usage)
        return {**self._fields, "delta": delta, "usage": usage}

    def _begin(self, start: bytes | None = None) -> bytes:
        """The start, once, and what came before it."""
        if self._begun:
            return b""
        self._begun = True
        early, self._early = self._early, []
        return (start or self._opening()) + b"".join(map(write_native_event, early))

    def _start(self, value: JsonObject) -> bytes:
        if self._has_start:
            return b""
        self._has_start = True
        message = value.get("message")
        message = add_gateway_fields(message if isinstance(message, dict) else {}, self._served)
        usage = message.get("usage")
        if isinstance(usage, dict):
            # A count that came before the start is the later one all the same.
            self._usage = {**usage, **self._usage}
        stop_fields = {name: message[name] for name in _LAST_WORDS if message[name] is not None}
        self._delta = {**stop_fields, **self._delta}
        content = message["content"]
        message |= {"content": [], "usage": {**NO_USAGE, **self._usage}}
        fields = {name: item for name, item in value.items() if name != "type"}
        start = self._begin(write_event("message_start", {**fields, "message": message}) + PING)
        # Clients read blocks from their own events; some upstreams begin with whole ones.
        blocks = [block for block in content if isinstance(block, dict)] if content else []
        self._has_calls = self._has_calls or any(map(is_caller_tool_use, blocks))
        return start + b"".join(map(self._blocks.write_block, blocks))


_DELTA: Final = b"event: content_block_delta\ndata: "
# What grows in a block -> the kind of its delta, the delta's field, what a block begins with.
_GROWING: Final[dict[str, tuple[str, str, Any]]] = {
    "text": ("text_delta", "text", ""),
    "thinking": ("thinking_delta", "thinking", ""),
    "signature": ("signature_delta", "signature", ""),
    "input": ("input_json_delta", "partial_json", {}),
}
_FOR_NULL: Final[JsonObject] = {"citations": [], "input": {}}


class NativeBlocks:
    """Their events go through byte for byte while the upstream keeps the order (inference reference
    4.7). Its numbers are written anew where they are not the caller's. A block that is open ends
    when another begins. Events of any block but the open one are left out.
    """

    __slots__ = ("_count", "_is_same", "_open", "_theirs")

    def __init__(self) -> None:
        # How many have begun, and the upstream's number of the open one.
        self._count = 0
        self._theirs: int | None = None
        self._open = self._is_same = False

    def delta(self, native: Native) -> bytes:
        value, raw = native.value, native.raw
        if (
            not self._open
            or _event_index(value) != self._theirs
            or type(value.get("delta")) is not dict
        ):
            return b""
        if self._is_same and b"\n" not in raw and b"\r" not in raw:
            return _DELTA + raw + b"\n\n"
        return self._write_numbered(native)

    def event(self, native: Native) -> bytes:
        """A start, a delta or a stop. Other events of blocks are unknown, and go as they came."""
        if native.name == "content_block_delta":
            return self.delta(native)
        if native.name == "content_block_start":
            return self._start(native)
        if native.name != "content_block_stop":
            return write_native_event(native)
        if not self._open or _event_index(native.value) != self._theirs:
            return b""
        self._open = False
        return self._write_numbered(native)

    def write_block(self, block: JsonObject) -> bytes:
        """A block that came in one piece as the events of a block: what grows comes in deltas."""
        ended, index = self.end(), self._count
        self._count += 1
        opening, deltas = _fill_nulls(block), []
        for field, (kind, name, empty) in _GROWING.items():
            value = block.get(field)
            if value:
                opening[field] = empty
                text = dumps(value).decode() if field == "input" else value
                deltas.append(delta_head(index, kind, name) + dumps(text) + DELTA_END)
        return (
            ended + write_block_start(index, opening) + b"".join(deltas) + write_block_stop(index)
        )

    def end(self) -> bytes:
        """The stop of the open block, where there is one."""
        was_open, self._open = self._open, False
        return write_block_stop(self._count - 1) if was_open else b""

    def _start(self, native: Native) -> bytes:
        block = native.value.get("content_block")
        if type(block) is not dict:
            return b""
        ended, number = self.end(), _event_index(native.value)
        self._open, self._theirs, self._is_same = True, number, number == self._count
        self._count += 1
        if (filled := _fill_nulls(block)) == block:
            return ended + self._write_numbered(native)
        fields = {"index": self._count - 1, "content_block": filled}
        return ended + write_event(native.name, {**event_fields(native), **fields})

    def _write_numbered(self, native: Native) -> bytes:
        if self._is_same:
            return write_native_event(native)
        return write_event(native.name, {**event_fields(native), "index": self._count - 1})


def _fill_nulls(block: JsonObject) -> JsonObject:
    """A copy with what the format has for nothing, where some clients refuse null."""
    nothing = {name: item for name, item in _FOR_NULL.items() if block.get(name, item) is None}
    return {**block, **nothing}


def _event_index(value: JsonObject) -> int | None:
    number = value.get("index")
    return number if type(number) is int else None


_BREAKS: Final = (b"\n", b"\r")


def write_native_event(native: Native) -> bytes:
    """The event as it came. Breaks in its data are written anew; an event whose name could end a
    line is none."""
    name, raw = native.name, native.raw
    if not name.isprintable() or any(each in raw for each in _BREAKS):
        return write_event(name, event_fields(native)) if name.isprintable() else b""
    return b"event: %b\ndata: %b\n\n" % (name.encode(), raw)


def event_fields(native: Native) -> JsonObject:
    """The data without the type, which `write_event` says."""
    return {key: item for key, item in native.value.items() if key != "type"}
