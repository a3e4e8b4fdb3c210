"""Writing an answer as the events of a message."""

from typing import Any

from routing.simulator.encoding import named_event
from routing.simulator.formats.messages.errors import failure
from routing.simulator.formats.messages.writing import (
    ending,
    message,
    omits_thinking,
    tool_use,
    usage,
)
from routing.simulator.seal import sealed
from routing.simulator.wire import Answer, Piece

BLOCK_KINDS = {"reasoning": "thinking", "content": "text", "refusal": "text", "tool": "tool_use"}
EMPTY_TEXT = {"type": "text", "text": ""}
EMPTY_THINKING = {"type": "thinking", "thinking": "", "signature": ""}


def event(value: dict[str, Any]) -> bytes:
    return named_event(value["type"], value)


class MessageWriter:
    """One block is open at a time, and blocks are numbered from 0."""

    def __init__(self, body: dict[str, Any], answer: Answer) -> None:
        self._answer = answer
        self._omits = omits_thinking(body)
        self._body = body
        self._index = -1
        self._open: tuple[str, int] | None = None
        self._redacted_said = answer.redacted is None

    def opening(self) -> bytes:
        """The message without content, its prompt counted, and a ping."""
        start = {**message(self._body, self._answer), "content": []}
        start |= {"stop_reason": None, "stop_sequence": None, "stop_details": None}
        if isinstance(start.get("usage"), dict):
            start["usage"] = start["usage"] | {"output_tokens": 1}
        opened = event({"type": "message_start", "message": start})
        return opened + event({"type": "ping"})

    def text(self, text: str) -> bytes:
        return self.piece(Piece("content", text))

    def piece(self, piece: Piece) -> bytes:
        kind = BLOCK_KINDS[piece.kind]
        started = b"" if self._open == (kind, piece.call) else self._start(kind, piece.call)
        if kind == "thinking":
            if self._omits:
                return started
            return started + self._delta({"type": "thinking_delta", "thinking": piece.text})
        if kind == "text":
            return started + self._delta({"type": "text_delta", "text": piece.text})
        return started + self._delta({"type": "input_json_delta", "partial_json": piece.text})

    def closing(self) -> list[bytes]:
        """The end of the open block, the reason and the usage, and the end of the message."""
        last: dict[str, Any] = {"type": "message_delta", "delta": ending(self._answer)}
        if self._answer.usage is not None:
            last["usage"] = usage(self._answer.usage)
        stop = self._stop() + self._redacted()
        events = [stop, event(last), event({"type": "message_stop"})]
        return events if stop else events[1:]

    def failure(self, message: str) -> bytes:
        return event(failure(message))

    def _start(self, kind: str, call: int) -> bytes:
        before = self._stop() + (b"" if kind == "thinking" else self._redacted())
        self._open = (kind, call)
        if kind == "tool_use":
            # A call starts with an empty fragment, as the real ones do.
            block = tool_use(self._answer.calls[call])
            empty = {"type": "input_json_delta", "partial_json": ""}
            return before + self._block(block) + self._delta(empty)
        return before + self._block(EMPTY_THINKING if kind == "thinking" else EMPTY_TEXT)

    def _block(self, block: dict[str, Any]) -> bytes:
        self._index += 1
        return event({"type": "content_block_start", "index": self._index, "content_block": block})

    def _delta(self, delta: dict[str, Any]) -> bytes:
        return event({"type": "content_block_delta", "index": self._index, "delta": delta})

    def _stop(self) -> bytes:
        if self._open is None:
            return b""
        signature = b""
        if self._open[0] == "thinking":
            proof = sealed(self._answer.text("reasoning"))
            signature = self._delta({"type": "signature_delta", "signature": proof})
        self._open = None
        return signature + event({"type": "content_block_stop", "index": self._index})

    def _redacted(self) -> bytes:
        if self._redacted_said or self._answer.redacted is None:
            return b""
        self._redacted_said = True
        data = sealed(self._answer.redacted)
        block = self._block({"type": "redacted_thinking", "data": data})
        return block + event({"type": "content_block_stop", "index": self._index})
