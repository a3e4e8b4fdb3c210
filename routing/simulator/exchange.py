"""One request and the bytes that answer it, written by hand so that they can be wrong."""

from collections.abc import Iterable
from http import HTTPStatus
from time import monotonic

from routing.simulator.http.connection import Connection
from routing.simulator.http.request import Request
from routing.simulator.log import Entry, Log

JSON = "application/json"
SSE = "text/event-stream; charset=utf-8"

Headers = Iterable[tuple[str, str]]


def reason(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Unknown"


def framed(data: bytes) -> bytes:
    """One chunk of a chunked body."""
    return b"%x\r\n%b\r\n" % (len(data), data)


class Exchange:
    """Writes the answer to one request and keeps its log entry true."""

    __slots__ = ("_chunked", "connection", "entry", "keep_alive", "log", "request")

    def __init__(self, connection: Connection, request: Request, entry: Entry, log: Log) -> None:
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
        self.raw(b"".join(map(framed, pieces) if self._chunked else pieces))

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
        self.raw(b"".join((head, *map(framed, events), b"0\r\n\r\n")))
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
            f"HTTP/1.1 {status} {reason(status)}\r\n"
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
            self.log.changed()
