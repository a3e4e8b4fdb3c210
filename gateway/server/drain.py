"""What a caller still sends once it has its answer: read to its end, within bounds.

Closing with unread bytes would reset the connection and destroy the answer under way. A caller who
does not come to an end within 5 s and 64 MiB is cut off.
"""

import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from gevent import Timeout
from gunicorn.http.body import ChunkedReader, LengthReader
from gunicorn.http.errors import ParseException

_BYTES_MAX = 67_108_864
_WITHIN_S = 5.0
_PIECE_BYTES = 65_536


def finish(client: socket.socket, body: Any) -> bool:
    """Read what is left of a request's body. False: no request may follow on this connection."""
    if is_read(body):
        return True
    if body.failed:
        # Where the next request begins is unknown: this was the connection's last answer.
        linger(client)
        return False
    if not _ended(body.read):
        _shut(client, socket.SHUT_RDWR)
        return False
    return True


def is_read(body: Any) -> bool:
    """Whether nothing of the body is left on the wire."""
    reader = body.reader
    if isinstance(reader, LengthReader):
        return bool(reader.length == 0)
    return isinstance(reader, ChunkedReader) and reader.parser is None and not body.failed


def linger(client: socket.socket) -> None:
    """End our side of the connection and let the caller end the other."""
    _shut(client, socket.SHUT_WR)
    if not _ended(client.recv):
        _shut(client, socket.SHUT_RDWR)


def _ended(read: Callable[[int], bytes]) -> bool:
    left = _BYTES_MAX
    try:
        # A timeout of the socket's own would begin anew with each byte of a trickle.
        with Timeout(_WITHIN_S, TimeoutError):
            while left > 0 and (piece := read(_PIECE_BYTES)):
                left -= len(piece)
    except (OSError, ParseException):
        return False
    return left > 0


def _shut(client: socket.socket, how: int) -> None:
    """The server closes it once we return; until then nothing more can come or go."""
    with suppress(OSError):
        client.shutdown(how)
