"""Many streams at once, read as cheaply as Python can: raw sockets, counting events by `\\n\\n`."""

import selectors
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from tests.load.accounting import WebProcesses, spent_s
from tests.load.figures import Interval
from tests.load.generator import request_bytes
from tests.load.generators import LoadFailed, Target, header_lines

_READ_BYTES = 65_536
_TAIL_BYTES = 64
_END = b"\n\n"
_LAST_CHUNK = b"\r\n0\r\n\r\n"
# What a whole stream has said at its end, in the caller formats.
ENDS: Final = {
    "chat": (b"data: [DONE]",),
    "messages": (b"event: message_stop",),
    "responses": (b"event: response.completed", b"data: [DONE]"),
}


class EventReader:
    """Counts the events of one stream. The marks of chunked transfer hold no empty line.

    `ends` are what the stream has to say, in this order, before it ends.
    """

    def __init__(self, ends: Sequence[bytes] = ENDS["chat"]) -> None:
        self.events = 0
        self.is_ok = False
        self._missing = list(ends)
        self._tail = b""
        self._half = b""

    def feed(self, piece: bytes) -> None:
        """Take the next bytes, in pieces of any size."""
        if not self._tail:
            self.is_ok = piece.startswith(b"HTTP/1.1 200")
        data = self._half + piece
        self.events += data.count(_END)
        rest = data[data.rfind(_END) + 2 :] if _END in data else data
        self._half = b"\n" if rest.endswith(b"\n") else b""
        seen = self._tail + piece
        while self._missing and self._missing[0] in seen:
            del self._missing[0]
        self._tail = seen[-_TAIL_BYTES:]

    @property
    def is_whole(self) -> bool:
        return self.is_ok and not self._missing and self._tail.endswith(_LAST_CHUNK)


@dataclass(frozen=True)
class Streamed:
    """Events received by all streams together, and how long that took."""

    chunks: int
    seconds: float


def measured_streams(
    target: Target,
    web: WebProcesses,
    *,
    streams: int,
    within_s: float,
    ends: Sequence[bytes] = ENDS["chat"],
) -> Interval:
    """`read_streams`, with the CPU that the web processes spent on it."""
    before = web.cpu_s()
    done = read_streams(target, streams=streams, within_s=within_s, ends=ends)
    return Interval(done.chunks, done.seconds, spent_s(before, web.cpu_s()))


def read_streams(
    target: Target, *, streams: int, within_s: float, ends: Sequence[bytes] = ENDS["chat"]
) -> Streamed:
    """Open all streams, read each to its end. Raises `LoadFailed` if one is not whole by then."""
    started_at = time.monotonic()
    readers = [EventReader(ends) for _ in range(streams)]
    with selectors.DefaultSelector() as selector:
        for reader in readers:
            selector.register(_opened(target), selectors.EVENT_READ, reader)
        try:
            _read_all(selector, until=started_at + within_s)
        finally:
            for key in list(selector.get_map().values()):
                _socket(key).close()
    broken = sum(not reader.is_whole for reader in readers)
    if broken:
        raise LoadFailed(f"{broken} of {streams} streams did not come to their end")
    return Streamed(sum(reader.events for reader in readers), time.monotonic() - started_at)


def _opened(target: Target) -> socket.socket:
    parts = urlsplit(target.url)
    connection = socket.create_connection((parts.hostname or "", parts.port or 80), timeout=10)
    further = header_lines({**target.headers, "Connection": "close"})
    request = request_bytes(target.url, key=target.key, body=target.body, further=further)
    connection.sendall(request)
    connection.setblocking(False)
    return connection


def _read_all(selector: selectors.BaseSelector, *, until: float) -> None:
    while selector.get_map() and (left_s := until - time.monotonic()) > 0:
        for key, _ in selector.select(left_s):
            connection = _socket(key)
            try:
                piece = connection.recv(_READ_BYTES)
            except ConnectionError:
                piece = b""
            if piece:
                key.data.feed(piece)
            else:
                selector.unregister(connection)
                connection.close()


def _socket(key: selectors.SelectorKey) -> socket.socket:
    assert isinstance(key.fileobj, socket.socket)
    return key.fileobj
