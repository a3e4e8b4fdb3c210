"""Events of a messages stream and the writer of its blocks: in order, one open at a time."""

import re
from abc import ABC, abstractmethod
from collections import deque
from typing import Final

from gateway.http.jsonio import JsonObject, dumps
from routing.entities.ids import tool_use_id
from routing.formats.messages.pieces import DIRECT, CallFragment, is_plain_text, visible_text
from routing.formats.messages.thinking import ReasoningBlock, is_hidden

PING: Final = b'event: ping\ndata: {"type":"ping"}\n\n'
DELTA_END: Final = b"}}\n\n"


def write_event(name: str, fields: JsonObject) -> bytes:
    """One event; its type stands first in its data."""
    return b"event: %b\ndata: %b\n\n" % (name.encode(), dumps({"type": name, **fields}))


def write_block_start(index: int, block: JsonObject) -> bytes:
    return write_event("content_block_start", {"index": index, "content_block": block})


def write_block_stop(index: int) -> bytes:
    return b'event: content_block_stop\ndata: {"type":"content_block_stop","index":%d}\n\n' % index


def delta_head(index: int, kind: str, field: str) -> bytes:
    """A delta up to the value of its one field; `DELTA_END` follows that value."""
    return (
        b'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d,'
        b'"delta":{"type":"%b","%b":' % (index, kind.encode(), field.encode())
    )


# All that matters outside a string, and inside one.
_OUTSIDE: Final = re.compile(r'["{}\[\]]')
_INSIDE: Final = re.compile(r'["\\]')


class ObjectScanner:
    """Feed the text piece by piece; `complete` once its outermost object has closed.

    Linear in the text, whatever it holds: each character is looked at once.
    """

    __slots__ = ("_depth", "_escaped", "_in_string", "complete")

    def __init__(self) -> None:
        self._depth = 0
        self._in_string = self._escaped = self.complete = False

    def feed_text(self, text: str) -> None:
        position, end = (1, len(text)) if self._escaped and text else (0, len(text))
        if position:
            self._escaped = False
        while position < end and not self.complete:
            match = (_INSIDE if self._in_string else _OUTSIDE).search(text, position)
            if match is None:
                return
            mark, position = match.group(), match.end()
            if mark == '"':
                self._in_string = not self._in_string
            elif mark == "\\":
                self._escaped = position == end
                position += 1
            elif mark in "{[":
                self._depth += 1
            else:
                self._depth -= 1
                self.complete = mark == "}" and self._depth == 0


class _ContentBlock(ABC):
    """One block. Until it is the open one, what it says waits in it."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.open = self.closed = False
        self.waiting: list[bytes] = []

    def begin(self) -> bytes:
        self.open = True
        events = write_block_start(self.index, self.opening()) + b"".join(self.waiting)
        self.waiting.clear()
        return events

    def say(self, delta: bytes) -> bytes:
        if self.open:
            return delta
        self.waiting.append(delta)
        return b""

    def end(self) -> bytes:
        self.closed = True
        return write_block_stop(self.index)

    def is_settled(self) -> bool:
        """Whether nothing of it can come once another block has begun."""
        return True

    @abstractmethod
    def opening(self) -> JsonObject:
        """The block as it begins."""


class _TextBlock(_ContentBlock):
    def __init__(self, index: int) -> None:
        super().__init__(index)
        self.head = delta_head(index, "text_delta", "text")

    def opening(self) -> JsonObject:
        return {"type": "text", "text": "", "citations": []}

    def cite(self, citation: JsonObject) -> bytes:
        head = delta_head(self.index, "citations_delta", "citation")
        return self.say(head + dumps(citation) + DELTA_END)


class _ThinkingBlock(_ContentBlock):
    def __init__(self, index: int, detail: JsonObject, *, silent: bool) -> None:
        super().__init__(index)
        self.thought = ReasoningBlock(detail, silent=silent)
        self._head = delta_head(index, "thinking_delta", "thinking")

    def opening(self) -> JsonObject:
        return {"type": "thinking", "thinking": "", "signature": ""}

    def add(self, detail: JsonObject) -> bytes:
        self.thought.add(detail)
        text = "" if self.thought.silent else visible_text(detail)
        events = self.say(self._head + dumps(text) + DELTA_END) if text else b""
        signature = detail.get("signature")
        if isinstance(signature, str) and signature and self.thought.is_claudes:
            events += self.say(self._write_signature(signature))
        return events

    def end(self) -> bytes:
        signature = self.thought.signature() if self.thought.is_foreign else ""
        return (self._write_signature(signature) if signature else b"") + super().end()

    def _write_signature(self, signature: str) -> bytes:
        head = delta_head(self.index, "signature_delta", "signature")
        return head + dumps(signature) + DELTA_END


class _RedactedBlock(_ContentBlock):
    """Such a block has no deltas: it is written when it is whole."""

    def __init__(self, index: int, detail: JsonObject) -> None:
        super().__init__(index)
        self.thought = ReasoningBlock(detail, silent=False)

    def begin(self) -> bytes:
        return b""

    def end(self) -> bytes:
        return super().begin() + super().end()

    def opening(self) -> JsonObject:
        return {"type": "redacted_thinking", "data": self.thought.data()}

    def add(self, detail: JsonObject) -> bytes:
        self.thought.add(detail)
        return b""


class _ToolBlock(_ContentBlock):
    """A call. It is settled once its arguments are a whole object, so that a parallel one that
    began meanwhile may go on."""

    def __init__(self, index: int) -> None:
        super().__init__(index)
        self.id: str | None = None
        self.name = ""
        self._head = delta_head(index, "input_json_delta", "partial_json")
        self._scanner = ObjectScanner()
        self._unscanned: list[str] = []
        self._due = False
        # Whether the arguments are a custom tool's text, once more than white space came of them.
        self._is_text: bool | None = None
        self._blank = ""

    def opening(self) -> JsonObject:
        self.id = self.id or tool_use_id()
        return {
            "type": "tool_use",
            "id": self.id,
            "name": self.name,
            "input": {},
            "caller": DIRECT,
        }

    def begin(self) -> bytes:
        # Some upstreams name the function after they began its call.
        self._due = True
        return super().begin() if self.name else b""

    def end(self) -> bytes:
        remainder = '"}' if self._is_text else self._blank
        closing = self.say(self._fragment(remainder)) if remainder else b""
        return (b"" if self.open else super().begin()) + closing + super().end()

    def add(self, fragment: CallFragment) -> bytes:
        self.id = self.id or fragment.id
        self.name = self.name or fragment.name
        delta = b""
        if arguments := self._as_object_text(fragment.arguments):
            self._unscanned.append(arguments)
            delta = self.say(self._fragment(arguments))
        return super().begin() if self._due and self.name and not self.open else delta

    def is_settled(self) -> bool:
        for text in self._unscanned:
            self._scanner.feed_text(text)
        self._unscanned.clear()
        return self._scanner.complete and bool(self.name)

    def _as_object_text(self, arguments: str) -> str:
        """The fragment as one of an object."""
        if self._is_text is False or not arguments:
            return arguments
        if self._is_text:
            return _escape(arguments)
        arguments, self._blank = self._blank + arguments, ""
        if not arguments.strip():
            self._blank = arguments
            return ""
        self._is_text = is_plain_text(arguments)
        return '{"input":"' + _escape(arguments) if self._is_text else arguments

    def _fragment(self, arguments: str) -> bytes:
        return self._head + dumps(arguments) + DELTA_END


class _CompleteBlock(_ContentBlock):
    """A block that is written at once, but for its input."""

    def __init__(self, index: int, block: JsonObject, input_json: str) -> None:
        super().__init__(index)
        self._block = block
        if input_json:
            head = delta_head(index, "input_json_delta", "partial_json")
            self.say(head + dumps(input_json) + DELTA_END)

    def opening(self) -> JsonObject:
        return self._block


def _escape(text: str) -> str:
    """The text as a part of a JSON string."""
    return dumps(text).decode()[1:-1]


class BlockWriter:
    """Takes pieces as they come and says the blocks' events.

    Whatever comes while a tool call is open and unfinished waits until that is done, since a block
    cannot be opened twice. `text_head` is set while text can go out at once: what stands before it.
    `silent` leaves the words of the reasoning out.
    """

    def __init__(self, *, silent: bool = False) -> None:
        self.text_head: bytes | None = None
        self._silent = silent
        self._blocks: deque[_ContentBlock] = deque()
        self._count = 0
        self._calls: dict[int, _ToolBlock] = {}
        self._unnumbered: _ToolBlock | None = None

    def add_text(self, text: str) -> bytes:
        last = self._last()
        if not isinstance(last, _TextBlock):
            block = _TextBlock(self._count)
            block.say(block.head + dumps(text) + DELTA_END)
            return self._put(block)
        return last.say(last.head + dumps(text) + DELTA_END)

    def add_citation(self, citation: JsonObject) -> bytes:
        last = self._last()
        if isinstance(last, _TextBlock):
            return last.cite(citation)
        block = _TextBlock(self._count)
        block.cite(citation)
        return self._put(block)

    def add_reasoning(self, detail: JsonObject) -> bytes:
        last = self._last()
        if isinstance(last, _ThinkingBlock | _RedactedBlock) and last.thought.accepts(detail):
            return last.add(detail)
        block: _ThinkingBlock | _RedactedBlock = (
            _RedactedBlock(self._count, detail)
            if is_hidden(detail)
            else _ThinkingBlock(self._count, detail, silent=self._silent)
        )
        block.add(detail)
        return self._put(block)

    def end_thought(self) -> None:
        """What is thought from here on is another thought, by whatever number."""
        last = self._last()
        if isinstance(last, _ThinkingBlock | _RedactedBlock):
            last.thought.is_over = True

    def add_call(self, fragment: CallFragment) -> bytes:
        block = self._call_of(fragment)
        if block is not None:
            if block.closed:
                # Nothing but noise follows a whole object.
                return b""
            events = block.add(fragment)
            return events + self._advance() if len(self._blocks) > 1 else events
        block = self._unnumbered = _ToolBlock(self._count)
        if fragment.key is not None:
            self._calls[fragment.key] = block
        block.add(fragment)
        return self._put(block)

    def add_block(self, block: JsonObject, input_json: str = "") -> bytes:
        """A block of its own: with an `input_json` its input is empty at first."""
        opening = {**block, "input": {}} if input_json else block
        return self._put(_CompleteBlock(self._count, opening, input_json))

    def finish(self) -> bytes:
        """The rest of every block."""
        blocks, self.text_head = self._blocks, None
        events = [blocks.popleft().end()] if blocks else []
        while blocks:
            events += (blocks[0].begin(), blocks.popleft().end())
        return b"".join(events)

    def _last(self) -> _ContentBlock | None:
        return self._blocks[-1] if self._blocks else None

    def _call_of(self, fragment: CallFragment) -> _ToolBlock | None:
        """The call that the fragment goes on with. None: it begins one."""
        if fragment.key is None:
            return None if fragment.name else self._unnumbered
        block = self._calls.get(fragment.key)
        if block is None or not (fragment.name and fragment.id and block.id):
            return block
        # Some upstreams give every call the same number.
        return block if fragment.id == block.id else None

    def _put(self, block: _ContentBlock) -> bytes:
        self._count += 1
        self._blocks.append(block)
        return block.begin() + self._advance() if len(self._blocks) == 1 else self._advance()

    def _advance(self) -> bytes:
        events, blocks = [], self._blocks
        while len(blocks) > 1 and blocks[0].is_settled():
            events.append(blocks.popleft().end())
            events.append(blocks[0].begin())
        first = blocks[0] if len(blocks) == 1 else None
        self.text_head = first.head if isinstance(first, _TextBlock) else None
        return b"".join(events)
