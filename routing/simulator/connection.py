"""One TCP connection: bytes in, complete HTTP/1.1 requests out, and who closed it."""

import asyncio
import socket
import struct
import sys
import traceback
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from hashlib import sha256
from time import monotonic
from typing import Any, Literal, cast

HEAD_BYTES_MAX = 256 * 1024
BODY_BYTES_MAX = 128 * 1024 * 1024
SECRET_HEADERS = frozenset({"authorization", "x-api-key", "api-key"})
SECRET_PREFIX_LENGTH = 16


class BadRequest(Exception):
    """Bytes that are no request this server can read; the connection ends after the answer."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(slots=True)
class SimulatedRequest:
    """One request, complete with its body. Header names are lower-case, credentials are hashed."""

    method: str
    path: str
    query: str
    headers: dict[str, str]
    keep_alive: bool
    body: bytes = b""


def hash_credential(value: str) -> str:
    """The first 16 hex digits of the SHA-256 of a credential, its scheme word left out."""
    credential = value.split(" ", 1)[-1].strip()
    return (
        "sha256:" + sha256(credential.encode("utf-8", "replace")).hexdigest()[:SECRET_PREFIX_LENGTH]
    )


def read_head(head: bytes) -> SimulatedRequest:
    """Parse a request line and its headers. Raises BadRequest."""
    first, *lines = head.decode("latin-1").split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        raise BadRequest(400, "not an HTTP/1.x request line")
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon:
            raise BadRequest(400, "a header line without a colon")
        name = name.lower()
        value = value.strip()
        headers[name] = hash_credential(value) if name in SECRET_HEADERS else value
    path, _, query = words[1].partition("?")
    wishes = headers.get("connection", "").lower()
    keep_alive = "keep-alive" in wishes if words[2] == "HTTP/1.0" else "close" not in wishes
    return SimulatedRequest(words[0], path, query, headers, keep_alive)


class RequestReader:
    """Collects bytes and hands out complete requests, one after another."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._request: SimulatedRequest | None = None
        self._length: int | None = None
        self._chunks = bytearray()

    def feed_bytes(self, data: bytes) -> None:
        self._buffer += data

    def next(self) -> SimulatedRequest | None:
        """The next complete request, or None until more bytes came. Raises BadRequest."""
        if self._request is None and not self._read_head():
            return None
        if self._length is None:
            body = self._take_chunks()
        elif len(self._buffer) < self._length:
            return None
        else:
            body = bytes(self._buffer[: self._length])
            del self._buffer[: self._length]
        if body is None:
            return None
        request, self._request = self._request, None
        assert request is not None
        request.body = body
        return request

    def wants_continue(self) -> bool:
        """True once for a request whose sender waits for `100 Continue` before its body."""
        if self._request is None:
            return False
        return self._request.headers.pop("expect", "").lower() == "100-continue"

    def _read_head(self) -> bool:
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            if len(self._buffer) > HEAD_BYTES_MAX:
                raise BadRequest(431, "the request head is too large")
            return False
        self._request = read_head(bytes(self._buffer[:end]))
        del self._buffer[: end + 4]
        headers = self._request.headers
        if headers.get("transfer-encoding", "").lower() == "chunked":
            self._chunks, self._length = bytearray(), None
            return True
        text = headers.get("content-length", "0")
        if not text.isdecimal():
            raise BadRequest(400, "Content-Length is not a number")
        self._length = int(text)
        if self._length > BODY_BYTES_MAX:
            raise BadRequest(413, "the request body is too large")
        return True

    def _take_chunks(self) -> bytes | None:
        while True:
            end = self._buffer.find(b"\r\n")
            if end < 0:
                return None
            try:
                size = int(bytes(self._buffer[:end]).split(b";")[0], 16)
            except ValueError:
                raise BadRequest(400, "a chunk size that is not a number") from None
            if len(self._chunks) + size > BODY_BYTES_MAX:
                raise BadRequest(413, "the request body is too large")
            # Trailers after the last chunk are not used by any HTTP client we meet.
            if len(self._buffer) < end + 2 + size + 2:
                return None
            self._chunks += self._buffer[end + 2 : end + 2 + size]
            del self._buffer[: end + 2 + size + 2]
            if size == 0:
                return bytes(self._chunks)


# SO_LINGER on with zero seconds: closing sends RST in place of FIN.
RESET_ON_CLOSE = struct.pack("ii", 1, 0)

Closer = Literal["client", "server"]


class Lifeline:
    """When a connection closed and by whom. Log entries keep this, not the connection."""

    __slots__ = ("closed_at", "closed_by")

    def __init__(self) -> None:
        self.closed_at: float | None = None
        self.closed_by: Closer | None = None


class SimulatedConnection(asyncio.Protocol):
    """Serves one request at a time; what the client sends meanwhile waits in the reader."""

    def __init__(
        self,
        *,
        serve: Callable[["SimulatedConnection", SimulatedRequest], None],
        refuse: Callable[["SimulatedConnection", BadRequest], None],
        closed: Callable[[], None],
        living: set["SimulatedConnection"],
    ) -> None:
        self._serve = serve
        self._refuse = refuse
        self._closed = closed
        self._living = living
        self._reader = RequestReader()
        self._busy = False
        self._task: asyncio.Task[None] | None = None
        self._room = asyncio.Event()
        self._room.set()
        self.lifeline = Lifeline()
        self.on_lost: Callable[[], None] | None = None
        self.dies_on_reuse = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # asyncio has already set TCP_NODELAY, so every write leaves at once.
        self.transport = cast(asyncio.Transport, transport)
        self._living.add(self)

    def data_received(self, data: bytes) -> None:
        self._reader.feed_bytes(data)
        if not self._busy:
            self._next_request()

    def eof_received(self) -> None:
        self._note_loss("client")

    def connection_lost(self, exc: Exception | None) -> None:
        self._living.discard(self)
        self._note_loss("client")

    def pause_writing(self) -> None:
        self._room.clear()

    def resume_writing(self) -> None:
        self._room.set()

    async def drain(self) -> None:
        """Wait until the client has taken most of what was written; always lets others run."""
        await asyncio.sleep(0)
        await self._room.wait()

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Answer the current request in a task that ends when the client leaves."""
        self._task = asyncio.get_running_loop().create_task(work)
        self._task.add_done_callback(self._task_done)

    def release(self, *, keep: bool) -> None:
        """The current request is answered; go on with the next one, or close."""
        self._busy = False
        self.on_lost = None
        if keep and not self.transport.is_closing():
            asyncio.get_running_loop().call_soon(self._next_request)
        else:
            self.close()

    def close(self) -> None:
        """Close in order (FIN) once everything written has left."""
        self._note_loss("server")
        self.transport.close()

    def reset(self) -> None:
        """Close with RST, dropping whatever has not left yet."""
        self._note_loss("server")
        handle = cast(socket.socket, self.transport.get_extra_info("socket"))
        handle.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
        self.transport.abort()

    def _next_request(self) -> None:
        if self._busy or self.transport.is_closing():
            return
        try:
            request = self._reader.next()
            if request is None:
                if self._reader.wants_continue():
                    self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                return
        except BadRequest as refusal:
            self._busy = True
            self._refuse(self, refusal)
            return
        self._busy = True
        self._serve(self, request)

    def _note_loss(self, by: Closer) -> None:
        if self.lifeline.closed_by is not None:
            return
        self.lifeline.closed_by = by
        self.lifeline.closed_at = monotonic()
        self._room.set()
        if by == "client" and self._task is not None:
            self._task.cancel()
        if self.on_lost is not None:
            self.on_lost()
        self._closed()

    def _task_done(self, task: asyncio.Task[None]) -> None:
        # The next request's task may have started already.
        if self._task is task:
            self._task = None
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            traceback.print_exception(error, file=sys.stderr)
            self.reset()
