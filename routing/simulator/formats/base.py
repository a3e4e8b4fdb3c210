"""What the simulated provider needs of one wire format: reading requests, writing answers."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from routing.simulator.answer import SimulatedAnswer, SimulatedPiece
from routing.simulator.encoding import JsonObject, write_event
from routing.simulator.prompt import CacheUse, PromptCache


class Complaint(NamedTuple):
    """Why a request is refused before it is looked at any further. `kind` is the chat format's
    error type; formats with words of their own go by the status."""

    status: int
    message: str
    kind: str = "invalid_request_error"
    code: str | None = None
    param: str | None = None


@dataclass(slots=True)
class SimulatedStream:
    """One streamed answer: its opening, one item for each token, the end, the terminator.

    An item may hold several events of the format. `done` is empty where the last event of
    `closing` is the terminator itself.
    """

    opening: bytes
    content: list[bytes] = field(default_factory=list)
    closing: list[bytes] = field(default_factory=list)
    done: bytes = b""

    def events(self) -> list[bytes]:
        return [self.opening, *self.content, *self.ending()]

    def ending(self) -> list[bytes]:
        return [*self.closing, self.done] if self.done else self.closing


class StreamSpeaker(Protocol):
    """Says one stream bit by bit, for scripts."""

    done: bytes

    def opening(self) -> bytes:
        """What stands at the beginning; nothing once it was said."""

    def text(self, text: str) -> bytes:
        """A text delta, in formats that cannot do without with what has to stand before it."""

    def finish(self, finish_reason: str | None) -> list[bytes]:
        """The end, but for `done`."""

    def failure(self, message: str) -> bytes:
        """An error event."""


class EventWriter(Protocol):
    """Writes the events of one stream in a format whose terminator is an event like the others."""

    def opening(self) -> bytes:
        """What stands at the beginning."""

    def text(self, text: str) -> bytes:
        """A text delta."""

    def piece(self, piece: SimulatedPiece) -> bytes:
        """One token, with the events that have to stand before it."""

    def closing(self) -> list[bytes]:
        """The end."""

    def failure(self, message: str) -> bytes:
        """An error event."""


class WritingSpeaker:
    """Says with a writer what a script wants; the opening once, before whatever comes first."""

    done = b""

    def __init__(self, writer: EventWriter, answer: SimulatedAnswer) -> None:
        self._writer = writer
        self._answer = answer
        self._opened = False

    def opening(self) -> bytes:
        if self._opened:
            return b""
        self._opened = True
        return self._writer.opening()

    def text(self, text: str) -> bytes:
        return self.opening() + self._writer.text(text)

    def finish(self, finish_reason: str | None) -> list[bytes]:
        self._answer.finish_reason = finish_reason
        return [self.opening(), *self._writer.closing()]

    def failure(self, message: str) -> bytes:
        return self._writer.failure(message)


class WrittenFormat:
    """A format whose streams a writer writes, each event named by its type."""

    writer: Callable[[JsonObject, SimulatedAnswer], EventWriter]

    def stream(self, body: JsonObject, answer: SimulatedAnswer) -> SimulatedStream:
        writer = self.writer(body, answer)
        return SimulatedStream(
            opening=writer.opening(),
            content=[said for piece in answer.pieces if (said := writer.piece(piece))],
            closing=writer.closing(),
        )

    def speaker(self, body: JsonObject, answer: SimulatedAnswer) -> WritingSpeaker:
        return WritingSpeaker(self.writer(body, answer), answer)

    def event(self, value: object) -> bytes:
        kind = value.get("type") if isinstance(value, dict) else None
        return write_event(kind if isinstance(kind, str) else "", value)


class SimulatedFormat(Protocol):
    """One wire format. Requests are read into the chat shape, answers written from it."""

    name: str

    def read_request(self, body: JsonObject) -> JsonObject:
        """The request as far as the simulated model understands it, in the chat shape."""

    def complaint(self, headers: Mapping[str, str], body: JsonObject) -> Complaint | None:
        """What a strict provider would refuse the request for."""

    def use_cache(self, cache: PromptCache, persona: str, body: JsonObject) -> CacheUse:
        """How much of the prompt is read from and written to the prompt cache."""

    def document(self, body: JsonObject, answer: SimulatedAnswer) -> JsonObject:
        """The whole answer."""

    def stream(self, body: JsonObject, answer: SimulatedAnswer) -> SimulatedStream:
        """The answer as server-sent events."""

    def build_hollow(
        self, body: JsonObject, answer: SimulatedAnswer
    ) -> tuple[JsonObject, list[bytes]]:
        """A good answer without its answering part: as a document and as a stream."""

    def speaker(self, body: JsonObject, answer: SimulatedAnswer) -> StreamSpeaker:
        """For a scripted stream."""

    def event(self, value: object) -> bytes:
        """One server-sent event."""

    def error(self, complaint: Complaint) -> JsonObject:
        """The body of an HTTP error."""

    def build_broken(self, body: JsonObject, answer: SimulatedAnswer) -> JsonObject:
        """A 200 document that is an error."""


class RuleBroken(Exception):
    """A request breaks a rule; the text is the caller's error."""

    def __init__(self, message: str, *, code: str | None = None, param: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.param = param


def demand(holds: bool, message: str) -> None:
    """Raises `RuleBroken` unless it holds."""
    if not holds:
        raise RuleBroken(message)
