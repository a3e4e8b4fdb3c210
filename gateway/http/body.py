"""The inbound door for bodies: a byte cap before reading, a deadline, then the strict parser."""

import socket
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any, Protocol, cast

from django.conf import settings
from django.http import HttpRequest, HttpResponseBase
from gevent import Timeout
from gunicorn.http.errors import ParseException

from gateway.db import under_gevent
from gateway.http.errors import InvalidRequest, PayloadTooLarge
from gateway.http.jsonio import loads

_PIECE = 65_536
# Chunks that are none, or a caller who left.
_UNREADABLE = (OSError, ParseException)
# What an answered connection may still send before it is closed rather than drained.
_DRAIN_BYTES_MAX = 67_108_864
_DRAIN_S = 5.0


class _Input(Protocol):
    def read(self, size: int) -> bytes: ...


def read_body(request: HttpRequest, *, bytes_max: int) -> bytes:
    """The raw body, chunked or counted, within `ROUTER_BODY_TIMEOUT`.

    Raises `InvalidRequest` where it cannot be read or takes too long, and `PayloadTooLarge`, before
    reading where it can.
    """
    declared = request.META.get("CONTENT_LENGTH") or ""
    if declared.isdigit() and int(declared) > bytes_max:
        raise PayloadTooLarge
    stream = cast(_Input, request.META["wsgi.input"])
    try:
        with _within(settings.ROUTER_BODY_TIMEOUT):
            if declared.isdigit():
                return _exactly(stream, int(declared))
            return _until_end(stream, bytes_max)
    except TimeoutError as error:
        raise InvalidRequest("The request body took too long") from error
    except _UNREADABLE as error:
        raise InvalidRequest("The request body is malformed") from error


def _within(limit_s: float) -> AbstractContextManager[object]:
    """Ends the block with `TimeoutError` when it waits past the limit, which takes gevent.

    A timeout of the socket's own would begin anew with each byte of a trickle.
    """
    return Timeout(limit_s, TimeoutError) if under_gevent() else nullcontext()


def _exactly(stream: _Input, length: int) -> bytes:
    body = stream.read(length) if length else b""
    if len(body) != length:
        raise InvalidRequest("The request body ended early")
    return body


def _until_end(stream: _Input, bytes_max: int) -> bytes:
    pieces: list[bytes] = []
    size = 0
    while piece := stream.read(_PIECE):
        size += len(piece)
        if size > bytes_max:
            raise PayloadTooLarge
        pieces.append(piece)
    return b"".join(pieces)


def read_object(request: HttpRequest, *, bytes_max: int) -> dict[str, Any]:
    """The body as a JSON object. Raises `PayloadTooLarge`, `MalformedJson`, `InvalidRequest`."""
    value = loads(read_body(request, bytes_max=bytes_max))
    if not isinstance(value, dict):
        raise InvalidRequest("Invalid input: expected object")
    return value


def drain_after(request: HttpRequest, response: HttpResponseBase) -> None:
    """Let a refused caller finish sending after the answer left, so that it gets to read it.

    Closing with unread bytes would reset the connection and destroy the answer under way. A caller
    who does not come to an end within 5 s and 64 MiB is cut off.
    """
    closers = cast(list[Callable[[], None]], response._resource_closers)  # type: ignore[attr-defined]  # Django's own list of what to close after a response.
    closers.append(lambda: _finish(request))


def _finish(request: HttpRequest) -> None:
    stream = cast(_Input, request.META["wsgi.input"])
    client = request.META.get("gunicorn.socket")
    read = stream.read
    if client is not None and getattr(stream, "failed", False):
        # Where the next request begins is unknown: this was the connection's last answer.
        _shut(client, socket.SHUT_WR)
        read = client.recv
    if not _drained(read) and client is not None:
        _shut(client, socket.SHUT_RDWR)


def _drained(read: Callable[[int], bytes]) -> bool:
    """Whether what the caller sends came to its end."""
    left = _DRAIN_BYTES_MAX
    try:
        with _within(_DRAIN_S):
            while left > 0 and (piece := read(_PIECE)):
                left -= len(piece)
    except _UNREADABLE:
        return False
    return left > 0


def _shut(client: socket.socket, how: int) -> None:
    """The server closes it once we return; until then nothing more can come or go."""
    with suppress(OSError):
        client.shutdown(how)
