"""The blocks of an upstream that speaks messages: counted from 0, one open at a time."""

from typing import Any, Final

from gateway.http.jsonio import dumps
from routing.entities.exchange import Native
from routing.formats.messages.streaming.frames import (
    DELTA_END,
    block_start,
    block_stop,
    delta_head,
    frame,
)
from routing.formats.messages.verbatim import fields_of, verbatim

_DELTA: Final = b"event: content_block_delta\ndata: "
# What grows in a block -> the kind of its delta, the delta's field, what a block begins with.
_GROWING: Final[dict[str, tuple[str, str, Any]]] = {
    "text": ("text_delta", "text", ""),
    "thinking": ("thinking_delta", "thinking", ""),
    "signature": ("signature_delta", "signature", ""),
    "input": ("input_json_delta", "partial_json", {}),
}
_FOR_NULL: Final[dict[str, Any]] = {"citations": [], "input": {}}


class PassedBlocks:
    """Their events go through byte for byte while the upstream keeps the order (inference reference
    4.7). Its numbers are written anew where they are not the caller's; a block that is open ends
    when another begins; what is said of any but the open one is left out.
    """

    __slots__ = ("_count", "_is_same", "_open", "_theirs")

    def __init__(self) -> None:
        # How many have begun, and the upstream's number of the open one.
        self._count = 0
        self._theirs: int | None = None
        self._open = self._is_same = False

    def delta(self, native: Native) -> bytes:
        value, raw = native.value, native.raw
        if not self._open or _number(value) != self._theirs or type(value.get("delta")) is not dict:
            return b""
        if self._is_same and b"\n" not in raw and b"\r" not in raw:
            return _DELTA + raw + b"\n\n"
        return self._numbered(native)

    def event(self, native: Native) -> bytes:
        """A start, a delta or a stop. Other events of blocks are unknown, and go as they came."""
        if native.name == "content_block_delta":
            return self.delta(native)
        if native.name == "content_block_start":
            return self._start(native)
        return self._stop(native) if native.name == "content_block_stop" else verbatim(native)

    def whole(self, block: dict[str, Any]) -> bytes:
        """A block that came in one piece, told as blocks are: what grows comes in deltas."""
        ended, index = self.end(), self._count
        self._count += 1
        opening, deltas = _without_nulls(block), []
        for field, (kind, name, empty) in _GROWING.items():
            value = block.get(field)
            if value:
                opening[field] = empty
                text = dumps(value).decode() if field == "input" else value
                deltas.append(delta_head(index, kind, name) + dumps(text) + DELTA_END)
        return ended + block_start(index, opening) + b"".join(deltas) + block_stop(index)

    def end(self) -> bytes:
        """The stop of the open block, where there is one."""
        was_open, self._open = self._open, False
        return block_stop(self._count - 1) if was_open else b""

    def _start(self, native: Native) -> bytes:
        block = native.value.get("content_block")
        if type(block) is not dict:
            return b""
        ended, number = self.end(), _number(native.value)
        self._open, self._theirs, self._is_same = True, number, number == self._count
        self._count += 1
        if (whole := _without_nulls(block)) == block:
            return ended + self._numbered(native)
        own = {"index": self._count - 1, "content_block": whole}
        return ended + frame(native.name, {**fields_of(native), **own})

    def _stop(self, native: Native) -> bytes:
        if not self._open or _number(native.value) != self._theirs:
            return b""
        self._open = False
        return self._numbered(native)

    def _numbered(self, native: Native) -> bytes:
        if self._is_same:
            return verbatim(native)
        return frame(native.name, {**fields_of(native), "index": self._count - 1})


def _without_nulls(block: dict[str, Any]) -> dict[str, Any]:
    """A copy with what the format has for nothing, where some clients refuse null."""
    nothing = {name: item for name, item in _FOR_NULL.items() if block.get(name, item) is None}
    return {**block, **nothing}


def _number(value: dict[str, Any]) -> int | None:
    number = value.get("index")
    return number if type(number) is int else None
