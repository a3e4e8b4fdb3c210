"""One request, the bytes that answer it (written by hand, so that they can be wrong), its call."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from time import monotonic
from typing import Any

from routing.simulator.answer import AnswerSeed, SimulatedAnswer, compose_answer
from routing.simulator.connection import SimulatedConnection, SimulatedRequest
from routing.simulator.encoding import JsonObject, dumps, encode_text
from routing.simulator.formats import (
    CHAT,
    Complaint,
    SimulatedFormat,
    SimulatedStream,
    StreamSpeaker,
)
from routing.simulator.log import LoggedRequest, RequestLog
from routing.simulator.prompt import NO_CACHE, CacheUse

JSON = "application/json"
SSE = "text/event-stream; charset=utf-8"

Headers = Iterable[tuple[str, str]]


def status_phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Unknown"


def frame_chunk(data: bytes) -> bytes:
    """One chunk of a chunked body."""
    return b"%x\r\n%b\r\n" % (len(data), data)


class SimulatedExchange:
    """Writes the answer to one request and keeps its log entry true."""

    __slots__ = ("_chunked", "connection", "entry", "keep_alive", "log", "request")

    def __init__(
        self,
        connection: SimulatedConnection,
        request: SimulatedRequest,
        entry: LoggedRequest,
        log: RequestLog,
    ) -> None:
        self.connection = connection
        self.request = request
        self.entry = entry
        self.log = log
        self.keep_alive = request.keep_alive
        self._chunked = False
        connection.on_lost = self._connection_lost

    def raw(self, data: bytes) -> None:
        """Write bytes as they are."""
        if self.entry.first_byte_at is None:
            self.entry.first_byte_at = monotonic()
        self.entry.bytes_sent += len(data)
        self.connection.transport.write(data)

    def head(
        self, status: int, content_type: str, headers: Headers = (), *, length: int | None = None
    ) -> None:
        """Status line and headers; without a length the body follows in chunks."""
        self.raw(self._head(status, content_type, headers, length))

    def send(self, *pieces: bytes) -> None:
        """Write body bytes, each piece a chunk of its own where the body is chunked."""
        self.raw(b"".join(map(frame_chunk, pieces) if self._chunked else pieces))

    async def drain(self) -> None:
        await self.connection.drain()

    def answer(
        self, status: int, body: bytes, content_type: str = JSON, headers: Headers = ()
    ) -> None:
        """The whole answer in one write."""
        self.raw(self._head(status, content_type, headers, len(body)) + body)
        self.finish()

    def answer_stream(self, events: Iterable[bytes], headers: Headers = ()) -> None:
        """A whole SSE answer in one write, each event a chunk of its own."""
        head = self._head(200, SSE, headers, None)
        self.raw(b"".join((head, *map(frame_chunk, events), b"0\r\n\r\n")))
        self._chunked = False
        self.finish()

    def finish(self) -> None:
        """The answer is complete."""
        if self._chunked:
            self.raw(b"0\r\n\r\n")
        self._end("answered")
        self.connection.release(keep=self.keep_alive)

    def cut(self) -> None:
        """Close the connection with the answer unfinished."""
        self._end("cut")
        self.connection.release(keep=False)

    def reset(self) -> None:
        """Reset the connection with the answer unfinished."""
        self._end("cut")
        self.connection.reset()

    def _head(self, status: int, content_type: str, headers: Headers, length: int | None) -> bytes:
        self.entry.status = status
        self._chunked = length is None
        size = "Transfer-Encoding: chunked" if length is None else f"Content-Length: {length}"
        more = "".join(f"{name}: {value}\r\n" for name, value in headers)
        ending = "" if self.keep_alive else "Connection: close\r\n"
        text = (
            f"HTTP/1.1 {status} {status_phrase(status)}\r\n"
            f"Content-Type: {content_type}\r\n{size}\r\n{more}{ending}\r\n"
        )
        return text.encode("latin-1", "replace")

    def _connection_lost(self) -> None:
        by_client = self.connection.lifeline.closed_by == "client"
        self._end("client_left" if by_client else "cut")

    def _end(self, outcome: str) -> None:
        if self.entry.ended_at is None:
            self.entry.ended_at = monotonic()
            self.entry.outcome = outcome
            self.log.wake_waiting()


ENVIRONMENT_PREFIX = "SIMULATOR_"


class FaultOptions:
    """Settings of a fault: the step's first, then the model name's, the URL's, the environment's.

    `sim/drip?interval_s=0.1` in the model name, `?interval_s=0.1` in the URL and
    `SIMULATOR_INTERVAL_S=0.1` in the environment mean the same.
    """

    def __init__(self, *sources: Mapping[str, Any]) -> None:
        self._sources = sources

    def text(self, name: str, default: str) -> str:
        for source in self._sources:
            if name in source:
                return str(source[name])
        return os.environ.get(ENVIRONMENT_PREFIX + name.upper(), default)

    def number(self, name: str, default: float) -> float:
        """A number; one that does not parse is the default."""
        try:
            return float(self.text(name, str(default)))
        except ValueError:
            return default


@dataclass(slots=True)
class SimulatedCall:
    """`body` is the request as sent, `asked` the same in the chat shape. `judged` is the answer to
    a question unless a fault or the script (`override`) says otherwise."""

    exchange: SimulatedExchange
    persona: str
    format: SimulatedFormat
    body: JsonObject
    asked: JsonObject
    identity: AnswerSeed
    options: FaultOptions
    judged: JsonObject = field(default_factory=dict)
    override: JsonObject = field(default_factory=dict)
    cache: CacheUse = NO_CACHE

    @property
    def stream(self) -> bool:
        return self.body.get("stream") is True

    def answer(self, **override: object) -> SimulatedAnswer:
        said = {**self.judged, **override, **self.override}
        return compose_answer(self.asked, self.identity, said, self.cache)

    def document(self, **override: object) -> JsonObject:
        """The answer as one document of its format."""
        return self.format.document(self.body, self.answer(**override))

    def json_body(self, **override: object) -> bytes:
        return encode_text(dumps(self.document(**override)))

    def events(self, **override: object) -> SimulatedStream:
        """The answer as server-sent events."""
        return self.format.stream(self.body, self.answer(**override))

    def speaker(self) -> StreamSpeaker:
        """For a stream that is written bit by bit."""
        return self.format.speaker(self.body, self.answer())

    def payload(self, **override: object) -> bytes:
        """The whole body of the answer, in the form the request asked for."""
        if self.stream:
            return b"".join(self.events(**override).events())
        return self.json_body(**override)

    def reply(self, **override: object) -> None:
        """Answer well, at once."""
        if self.stream:
            self.exchange.answer_stream(self.events(**override).events())
        else:
            self.exchange.answer(200, self.json_body(**override))

    def refuse(self, complaint: Complaint, headers: Headers = ()) -> None:
        """Answer with an HTTP error."""
        self.exchange.answer(complaint.status, write_error(complaint, self.format), JSON, headers)


def write_error(complaint: Complaint, format: SimulatedFormat = CHAT) -> bytes:
    return encode_text(dumps(format.error(complaint)))
