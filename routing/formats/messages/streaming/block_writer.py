"""Content blocks of a stream: in order, one open at a time (inference reference 4.7)."""

from abc import ABC, abstractmethod
from collections import deque
from typing import Any

from gateway.http.jsonio import dumps
from routing.entities.ids import tool_use_id
from routing.formats.messages.completeness import ObjectScanner
from routing.formats.messages.pieces import DIRECT, Fragment, is_plain_text, spoken
from routing.formats.messages.streaming.frames import DELTA_END, block_start, block_stop, delta_head
from routing.formats.messages.thinking import Thought, is_hidden


class _Block(ABC):
    """One block. Until it is the open one, what it says waits in it."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.open = self.closed = False
        self.waiting: list[bytes] = []

    def begin(self) -> bytes:
        self.open = True
        said = block_start(self.index, self.opening()) + b"".join(self.waiting)
        self.waiting.clear()
        return said

    def say(self, delta: bytes) -> bytes:
        if self.open:
            return delta
        self.waiting.append(delta)
        return b""

    def end(self) -> bytes:
        self.closed = True
        return block_stop(self.index)

    def is_settled(self) -> bool:
        """Whether nothing of it can come once another block has begun."""
        return True

    @abstractmethod
    def opening(self) -> dict[str, Any]:
        """The block as it begins."""


class _Text(_Block):
    def __init__(self, index: int) -> None:
        super().__init__(index)
        self.head = delta_head(index, "text_delta", "text")

    def opening(self) -> dict[str, Any]:
        return {"type": "text", "text": "", "citations": []}

    def cite(self, citation: dict[str, Any]) -> bytes:
        head = delta_head(self.index, "citations_delta", "citation")
        return self.say(head + dumps(citation) + DELTA_END)


class _Thinking(_Block):
    def __init__(self, index: int, detail: dict[str, Any], *, silent: bool) -> None:
        super().__init__(index)
        self.thought = Thought(detail, silent=silent)
        self._head = delta_head(index, "thinking_delta", "thinking")

    def opening(self) -> dict[str, Any]:
        return {"type": "thinking", "thinking": "", "signature": ""}

    def add(self, detail: dict[str, Any]) -> bytes:
        self.thought.add(detail)
        text = "" if self.thought.silent else spoken(detail)
        said = self.say(self._head + dumps(text) + DELTA_END) if text else b""
        signature = detail.get("signature")
        if isinstance(signature, str) and signature and self.thought.is_claudes:
            said += self.say(self._signed(signature))
        return said

    def end(self) -> bytes:
        signature = self.thought.signature() if self.thought.foreign else ""
        return (self._signed(signature) if signature else b"") + super().end()

    def _signed(self, signature: str) -> bytes:
        head = delta_head(self.index, "signature_delta", "signature")
        return head + dumps(signature) + DELTA_END


class _Redacted(_Block):
    """Such a block has no deltas: it is said when it is whole."""

    def __init__(self, index: int, detail: dict[str, Any]) -> None:
        super().__init__(index)
        self.thought = Thought(detail, silent=False)

    def begin(self) -> bytes:
        return b""

    def end(self) -> bytes:
        return super().begin() + super().end()

    def opening(self) -> dict[str, Any]:
        return {"type": "redacted_thinking", "data": self.thought.data()}

    def add(self, detail: dict[str, Any]) -> bytes:
        self.thought.add(detail)
        return b""


class _Tool(_Block):
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

    def opening(self) -> dict[str, Any]:
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
        rest = '"}' if self._is_text else self._blank
        closing = self.say(self._fragment(rest)) if rest else b""
        return (b"" if self.open else super().begin()) + closing + super().end()

    def add(self, fragment: Fragment) -> bytes:
        self.id = self.id or fragment.id
        self.name = self.name or fragment.name
        said = b""
        if arguments := self._shown(fragment.arguments):
            self._unscanned.append(arguments)
            said = self.say(self._fragment(arguments))
        return super().begin() if self._due and self.name and not self.open else said

    def is_settled(self) -> bool:
        for text in self._unscanned:
            self._scanner.feed(text)
        self._unscanned.clear()
        return self._scanner.complete and bool(self.name)

    def _shown(self, arguments: str) -> str:
        """The fragment as one of an object."""
        if self._is_text is False or not arguments:
            return arguments
        if self._is_text:
            return _escaped(arguments)
        arguments, self._blank = self._blank + arguments, ""
        if not arguments.strip():
            self._blank = arguments
            return ""
        self._is_text = is_plain_text(arguments)
        return '{"input":"' + _escaped(arguments) if self._is_text else arguments

    def _fragment(self, arguments: str) -> bytes:
        return self._head + dumps(arguments) + DELTA_END


class _Whole(_Block):
    """A block that is said at once, but for its input."""

    def __init__(self, index: int, block: dict[str, Any], input_json: str) -> None:
        super().__init__(index)
        self._block = block
        if input_json:
            head = delta_head(index, "input_json_delta", "partial_json")
            self.say(head + dumps(input_json) + DELTA_END)

    def opening(self) -> dict[str, Any]:
        return self._block


def _escaped(text: str) -> str:
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
        self._blocks: deque[_Block] = deque()
        self._count = 0
        self._calls: dict[int, _Tool] = {}
        self._unnumbered: _Tool | None = None

    def text(self, text: str) -> bytes:
        last = self._last()
        if not isinstance(last, _Text):
            block = _Text(self._count)
            block.say(block.head + dumps(text) + DELTA_END)
            return self._put(block)
        return last.say(last.head + dumps(text) + DELTA_END)

    def cite(self, citation: dict[str, Any]) -> bytes:
        last = self._last()
        if isinstance(last, _Text):
            return last.cite(citation)
        block = _Text(self._count)
        block.cite(citation)
        return self._put(block)

    def reason(self, detail: dict[str, Any]) -> bytes:
        last = self._last()
        if isinstance(last, _Thinking | _Redacted) and last.thought.takes(detail):
            return last.add(detail)
        block: _Thinking | _Redacted = (
            _Redacted(self._count, detail)
            if is_hidden(detail)
            else _Thinking(self._count, detail, silent=self._silent)
        )
        block.add(detail)
        return self._put(block)

    def call(self, fragment: Fragment) -> bytes:
        block = self._call_of(fragment)
        if block is not None:
            if block.closed:
                # Nothing but noise follows a whole object.
                return b""
            said = block.add(fragment)
            return said + self._advance() if len(self._blocks) > 1 else said
        block = self._unnumbered = _Tool(self._count)
        if fragment.key is not None:
            self._calls[fragment.key] = block
        block.add(fragment)
        return self._put(block)

    def whole(self, block: dict[str, Any], input_json: str = "") -> bytes:
        """A block of its own: with an `input_json` its input is empty at first."""
        shown = {**block, "input": {}} if input_json else block
        return self._put(_Whole(self._count, shown, input_json))

    def finish(self) -> bytes:
        """The rest of every block."""
        blocks, self.text_head = self._blocks, None
        said = [blocks.popleft().end()] if blocks else []
        while blocks:
            said += (blocks[0].begin(), blocks.popleft().end())
        return b"".join(said)

    def _last(self) -> _Block | None:
        return self._blocks[-1] if self._blocks else None

    def _call_of(self, fragment: Fragment) -> _Tool | None:
        """The call that the fragment goes on with. None: it begins one."""
        if fragment.key is None:
            return None if fragment.name else self._unnumbered
        block = self._calls.get(fragment.key)
        if block is None or not (fragment.name and fragment.id and block.id):
            return block
        # Some upstreams give every call the same number.
        return block if fragment.id == block.id else None

    def _put(self, block: _Block) -> bytes:
        self._count += 1
        self._blocks.append(block)
        return block.begin() + self._advance() if len(self._blocks) == 1 else self._advance()

    def _advance(self) -> bytes:
        said, blocks = [], self._blocks
        while len(blocks) > 1 and blocks[0].is_settled():
            said.append(blocks.popleft().end())
            said.append(blocks[0].begin())
        first = blocks[0] if len(blocks) == 1 else None
        self.text_head = first.head if isinstance(first, _Text) else None
        return b"".join(said)
