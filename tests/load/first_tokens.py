"""Time to the first byte of content, one request after the other on one connection."""

import re
import socket
import time
from urllib.parse import urlsplit

from tests.load.generator import answer_bytes, request_bytes
from tests.load.generators import LoadFailed, Target, header_lines

_ANSWER_S = 10.0
_READ_BYTES = 65_536
_LAST_CHUNK = b"\r\n0\r\n\r\n"


def first_content_ms(target: Target, content: re.Pattern[bytes], *, seconds: float) -> list[float]:
    """Milliseconds from the request to what `content` finds, of each request in that time; every
    answer is read to its end. Raises `LoadFailed`."""
    parts, further = urlsplit(target.url), header_lines(target.headers)
    request = request_bytes(target.url, key=target.key, body=target.body, further=further)
    found: list[float] = []
    try:
        with socket.create_connection((parts.hostname or "", parts.port or 80)) as connection:
            connection.settimeout(_ANSWER_S)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                found.append(_one_ms(connection, request, content))
    except OSError as error:
        raise LoadFailed(f"{target.url}: {error!r}") from error
    return found


def _one_ms(connection: socket.socket, request: bytes, content: re.Pattern[bytes]) -> float:
    asked_at = time.monotonic()
    connection.sendall(request)
    received, took_ms = b"", 0.0
    while not is_whole(received):
        piece = connection.recv(_READ_BYTES)
        if not piece:
            raise ConnectionError("the answer broke off")
        received += piece
        if not took_ms and content.search(received):
            took_ms = (time.monotonic() - asked_at) * 1e3
    if not (took_ms and received.startswith(b"HTTP/1.1 200")):
        raise ConnectionError(f"no content in {received[:200]!r}")
    return took_ms


def is_whole(received: bytes) -> bool:
    """Whether an answer is there to its end, in chunks or with a length."""
    head, end, _ = received.partition(b"\r\n\r\n")
    if end and b"transfer-encoding: chunked" in head.lower():
        return received.endswith(_LAST_CHUNK)
    size = answer_bytes(received)
    return size is not None and len(received) >= size
