"""Streams, read as cheaply as Python can, from raw sockets. It reads many at once, counting events
by `\\n\\n`; or the time to the first content of one after the other."""

import re
import selectors
import socket
import time
from collections.abc import Sequence
from typing import Final

from tests.load.accounting import ProcessTree, spent_s
from tests.load.figures import Interval
from tests.load.targets import (
    LAST_CHUNK,
    READ_BYTES,
    LoadFailed,
    Target,
    read_answer,
    request_bytes,
)

_ANSWER_S = 10.0
_TAIL_BYTES = 64
_END = b"\n\n"
Ends = Sequence[bytes]
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

    def __init__(self, ends: Ends = ENDS["chat"]) -> None:
        self.connection: socket.socket | None = None
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
        return self.is_ok and not self._missing and self._tail.endswith(LAST_CHUNK)


def measured_streams(
    target: Target, web: ProcessTree, *, streams: int, within_s: float, ends: Ends = ENDS["chat"]
) -> Interval:
    """Open all streams, read each to its end: the events of all together, and the CPU that `web`
    spent on them. Raises `LoadFailed` if one is not whole by then."""
    request = request_bytes(target, Connection="close")
    before, started_at = web.cpu_s(), time.monotonic()
    readers = [EventReader(ends) for _ in range(streams)]
    with selectors.DefaultSelector() as selector:
        for reader in readers:
            reader.connection = socket.create_connection(target.address, timeout=_ANSWER_S)
            reader.connection.sendall(request)
            reader.connection.setblocking(False)
            selector.register(reader.connection, selectors.EVENT_READ, reader)
        try:
            _read_all(selector, until=started_at + within_s)
        finally:
            for key in list(selector.get_map().values()):
                key.data.connection.close()
    broken = sum(not reader.is_whole for reader in readers)
    if broken:
        raise LoadFailed(f"{target.url}: {broken} of {streams} streams did not come to their end")
    events, took_s = sum(reader.events for reader in readers), time.monotonic() - started_at
    return Interval(events, took_s, spent_s(before, web.cpu_s()))


def _read_all(selector: selectors.BaseSelector, *, until: float) -> None:
    while selector.get_map() and (left_s := until - time.monotonic()) > 0:
        for key, _ in selector.select(left_s):
            connection = key.data.connection
            try:
                piece = connection.recv(READ_BYTES)
            except ConnectionError:
                piece = b""
            if piece:
                key.data.feed(piece)
            else:
                selector.unregister(connection)
                connection.close()


def first_content_ms(target: Target, content: re.Pattern[bytes], *, seconds: float) -> list[float]:
    """Milliseconds from the request to what `content` finds, one request after the other on one
    connection; every answer is read to its end. Raises `LoadFailed`."""
    request, found = request_bytes(target), list[float]()
    try:
        with socket.create_connection(target.address, timeout=_ANSWER_S) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                found.append(_one_ms(connection, request, content))
    except OSError as error:
        raise LoadFailed(f"{target.url}: {error!r}") from error
    return found


def _one_ms(connection: socket.socket, request: bytes, content: re.Pattern[bytes]) -> float:
    found_at: list[float] = []

    def look(received: bytes) -> None:
        if not found_at and content.search(received):
            found_at.append(time.monotonic())

    asked_at = time.monotonic()
    connection.sendall(request)
    received = read_answer(connection, look)
    if not (found_at and received.startswith(b"HTTP/1.1 200")):
        raise ConnectionError(f"no content in {received[:200]!r}")
    return (found_at[0] - asked_at) * 1e3
