"""One caller's connection. It reads each request's head within its deadline and limits, answers
what is no request, and reads the rest of a body that nobody read.

gunicorn's parser reads a head while it parses it, for as long as bytes keep coming. With each of
them it starts again from the beginning. Here the head is complete before the parser sees it.
"""

import re
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from gevent import Timeout
from gunicorn.http import errors as http_errors
from gunicorn.http.body import ChunkedReader, LengthReader
from gunicorn.http.errors import (
    InvalidHeader,
    LimitRequestHeaders,
    LimitRequestLine,
    ParseException,
    UnsupportedTransferCoding,
)
from gunicorn.http.message import Request
from gunicorn.http.unreader import SocketUnreader

from gateway.eventloop import yield_control
from gateway.http.jsonio import dumps
from gateway.http.request_id import HEADER, choose_request_id, get_request_id
from gateway.live_settings import settings

_REASONS = {
    400: "Bad Request",
    408: "Request Timeout",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    501: "Not Implemented",
}
_ERROR_TYPES = {408: "timeout", 500: "server"}


class HeadTooSlow(Exception):
    """A request head was begun and not finished in time."""


def describe_failure(error: BaseException) -> tuple[int, str]:
    """Status and message for what could not be read as a request."""
    if isinstance(error, HeadTooSlow):
        return 408, "The request head took too long"
    if isinstance(error, http_errors.LimitRequestHeaders):
        return 431, "Request header fields too large"
    if isinstance(error, http_errors.LimitRequestLine):
        return 400, "Request line too long"
    if isinstance(error, http_errors.UnsupportedTransferCoding):
        return 501, "The only transfer coding understood is chunked"
    if isinstance(error, http_errors.ParseException):
        return 400, "Malformed HTTP request"
    return 500, "Internal Server Error"


def write_failure(status: int, message: str, request_id: str) -> bytes:
    """A whole HTTP response that ends the connection."""
    metadata = {
        "error_type": _ERROR_TYPES.get(status, "invalid_request"),
        "request_id": request_id,
    }
    body = dumps({"error": {"code": status, "message": message, "metadata": metadata}})
    head = (
        f"HTTP/1.1 {status} {_REASONS[status]}\r\nContent-Type: application/json\r\n"
        f"{HEADER}: {request_id}\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body


_END = b"\r\n\r\n"
_PIECE_BYTES = 8192
# What a caller still sends once it has its answer is read to its end within these bounds. Closing
# with unread bytes would reset the connection and destroy the answer under way.
_DRAIN_BYTES_MAX = 67_108_864
_DRAIN_WITHIN_S = 5.0
_DRAIN_PIECE_BYTES = 65_536
# A line that ends with LF alone: the head will not end the way it is read here.
_BARE_LF = re.compile(rb"(?:^|[^\r])\n")
# A caller who sends faster than we parse never makes us wait. So others get their turn after this
# many reads, which take a few milliseconds even where each holds a thousand tiny chunks.
_READS_IN_A_ROW = 3


class _FairUnreader(SocketUnreader):
    """Lets other connections have their turn between reads of a long body."""

    reads = 0

    @property
    def buffered_bytes(self) -> int:
        """What was read and not yet asked for."""
        return len(self.buf.getbuffer())

    def chunk(self, size_hint: int | None = None) -> bytes:
        self.reads += 1
        if self.reads % _READS_IN_A_ROW == 0:
            yield_control()
        data: bytes = super().chunk(size_hint)  # type: ignore[no-untyped-call]  # gunicorn is untyped.
        return data


class Connection:
    """One caller's connection.

    A head has `header_s` from its first byte, the first one from the connection's beginning.
    Between requests nothing need come for `idle_s`. Within a request the socket waits `busy_s` for
    the caller to send something or to take its answer.
    """

    def __init__(
        self, cfg: Any, client: Any, addr: Any, *, header_s: float, idle_s: float, busy_s: float
    ) -> None:
        self._cfg, self._client, self._addr = cfg, client, addr
        self._header_s, self._idle_s, self._busy_s = header_s, idle_s, busy_s
        self._unreader: Any = _FairUnreader(client)  # type: ignore[no-untyped-call]  # gunicorn is untyped.
        self._began_at = time.monotonic()
        self._count = 0
        self._request: Any = None

    def next_request(self) -> Any:
        """The next request, its head parsed; None when the caller has no more.

        Raises `HeadTooSlow`, and gunicorn's `ParseException` for what is no request.
        """
        unreader = self._unreader
        try:
            head = unreader.take_buffered()
            if not head:
                # What begins the next request; nothing when none begins in time.
                head = self._receive(self._idle_s if self._count else self._header_s) or b""
            if _END not in head:
                head = self._complete_head(head)
        finally:
            self._client.settimeout(self._busy_s)
        if not head:
            return None
        unreader.reads = 0
        unreader.unread(head)
        self._count += 1
        self._request = None
        self._request = Request(self._cfg, unreader, self._addr, self._count)
        for name, value in self._request.headers:
            # The parser also takes codings of the transfer that nothing here undoes.
            if name == "TRANSFER-ENCODING" and value.strip().lower() != "chunked":
                raise UnsupportedTransferCoding(value)
            if name == "CONTENT-LENGTH" and int(value) > settings.ROUTER_MAX_BODY_BYTES:
                # The view refuses the length at once, so its sender need not go on.
                self._request._expected_100_continue = False
        return self._request

    def find_request_id(self) -> str:
        """The id of a request that could not be handled. It is the id of the one under way, or the
        caller's own where its head could be read; else a new one."""
        headers = dict(self._request.headers) if self._request is not None else {}
        return get_request_id() or choose_request_id(headers.get(HEADER.upper(), ""))

    def finish(self) -> bool:
        """Be done with the last request. False: no request may follow."""
        return drain_body(self._client, self._request.body)

    def linger(self) -> None:
        """End the connection so that a refusal just sent is read, not destroyed."""
        linger(self._client)

    def _complete_head(self, head: bytes) -> bytes:
        """The head to its end, and what came behind it. Empty when the caller left."""
        if not head:
            return b""
        until = (time.monotonic() if self._count else self._began_at) + self._header_s
        limits = _Limits(self._cfg)
        found = bytearray()
        while True:
            seen = max(0, len(found) - len(_END) + 1)
            found += head
            if found.find(_END, seen) >= 0:
                return bytes(found)
            limits.check(found, seen)
            data = self._receive(max(0.0, until - time.monotonic()))
            # A stray line end after the last request begins none.
            if data is None and found.strip():
                raise HeadTooSlow
            if not data:
                return b""
            head = data

    def _receive(self, wait_s: float) -> bytes | None:
        """What comes next; empty when the caller left, None when nothing came in time."""
        client = self._client
        client.settimeout(wait_s)
        try:
            data: bytes = client.recv(_PIECE_BYTES)
        except TimeoutError:
            # It may have come in time, and we were too busy to see it.
            client.settimeout(0)
            try:
                data = client.recv(_PIECE_BYTES)
            except BlockingIOError:
                return None
        except BlockingIOError:
            return None
        return data


class _Limits:
    """What an unfinished head must keep to; raises what the parser would."""

    def __init__(self, cfg: Any) -> None:
        self._line_bytes_max = cfg.limit_request_line
        self._fields_max = cfg.limit_request_fields
        self._bytes_max = (
            self._line_bytes_max + 2 + self._fields_max * (cfg.limit_request_field_size + 2) + 4
        )
        self._lines = 0
        self._counted = 0

    def check(self, head: bytearray, seen: int) -> None:
        """`seen` bytes were checked before."""
        if _BARE_LF.search(head, seen):
            raise InvalidHeader("bare LF as line terminator")
        self._lines += head.count(b"\r\n", self._counted)
        self._counted = len(head) - head.endswith(b"\r")
        if not self._lines and len(head) > self._line_bytes_max + 2:
            raise LimitRequestLine(len(head), self._line_bytes_max)
        # The request line and an empty line before it are counted too.
        if self._lines > self._fields_max + 2 or len(head) > self._bytes_max:
            raise LimitRequestHeaders("request head too large")


def drain_body(client: socket.socket, body: Any) -> bool:
    """Read what is left of a request's body. False: no request may follow on this connection."""
    if is_body_read(body):
        return True
    if body.failed:
        # Where the next request begins is unknown: this was the connection's last answer.
        linger(client)
        return False
    if not _reads_to_end(body.read):
        _shut_down(client, socket.SHUT_RDWR)
        return False
    return True


def is_body_read(body: Any) -> bool:
    """Whether nothing of the body is left on the wire."""
    reader = body.reader
    if isinstance(reader, LengthReader):
        return bool(reader.length == 0)
    return isinstance(reader, ChunkedReader) and reader.parser is None and not body.failed


def linger(client: socket.socket) -> None:
    """End our side of the connection and let the caller end the other."""
    _shut_down(client, socket.SHUT_WR)
    if not _reads_to_end(client.recv):
        _shut_down(client, socket.SHUT_RDWR)


def _reads_to_end(read: Callable[[int], bytes]) -> bool:
    left = _DRAIN_BYTES_MAX
    try:
        # A timeout of the socket's own would begin anew with each byte of a trickle.
        with Timeout(_DRAIN_WITHIN_S, TimeoutError):
            while left > 0 and (piece := read(_DRAIN_PIECE_BYTES)):
                left -= len(piece)
    except (OSError, ParseException):
        return False
    return left > 0


def _shut_down(client: socket.socket, how: int) -> None:
    """The server closes it once we return; until then nothing more can come or go."""
    with suppress(OSError):
        client.shutdown(how)
