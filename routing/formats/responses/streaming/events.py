"""Events as they are written (inference reference 5.5): numbered without a gap, each named twice.

The constant part of a text's deltas is serialised once; per delta only the text is.
"""

from typing import Any, Final

from gateway.http.jsonio import dumps

TERMINAL: Final = frozenset({"response.completed", "response.incomplete", "response.failed"})


class Events:
    """Numbers the events of one stream."""

    __slots__ = ("number",)

    def __init__(self) -> None:
        self.number = 0

    def say(self, kind: str, fields: dict[str, Any]) -> bytes:
        body = dumps({"type": kind, "sequence_number": self.number, **fields})
        self.number += 1
        return b"event: %b\ndata: %b\n\n" % (kind.encode(), body)

    def say_raw(self, kind: str, body: bytes) -> bytes:
        """An event that is written already, with the number that is due."""
        self.number += 1
        return b"event: %b\ndata: %b\n\n" % (kind.encode(), body)


class Fragments:
    """One text that comes in pieces, and its delta events."""

    __slots__ = ("_events", "_head", "_tail", "pieces")

    def __init__(self, events: Events, kind: str, fields: dict[str, Any]) -> None:
        name = kind.encode()
        self._events = events
        self._head = b'event: %b\ndata: {"type":"%b","sequence_number":' % (name, name)
        self._tail = b",%b," % dumps(fields)[1:-1] + b'"delta":'
        self.pieces: list[str] = []

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    def delta(self, text: str) -> bytes:
        events = self._events
        number = events.number
        events.number = number + 1
        self.pieces.append(text)
        return b"%b%d%b%b}\n\n" % (self._head, number, self._tail, dumps(text))
