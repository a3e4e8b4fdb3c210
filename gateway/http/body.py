"""The inbound door for bodies: a byte cap before anything is read, then the strict parser."""

from collections.abc import Callable
from typing import Any, Protocol, cast

from django.http import HttpRequest, HttpResponseBase
from gunicorn.http.errors import ParseException

from gateway.http.errors import InvalidRequest, PayloadTooLarge
from gateway.http.jsonio import loads

_PIECE = 65_536
# Chunks that are none, or a caller who left.
_UNREADABLE = (OSError, ParseException)
# What an answered connection may still send before it is closed rather than drained.
_DRAIN_BYTES_MAX = 67_108_864


class _Input(Protocol):
    def read(self, size: int) -> bytes: ...


def read_body(request: HttpRequest, *, bytes_max: int) -> bytes:
    """The raw body, chunked or counted. Raises `InvalidRequest` where it cannot be read, and
    `PayloadTooLarge`, before reading where it can."""
    declared = request.META.get("CONTENT_LENGTH") or ""
    if declared.isdigit() and int(declared) > bytes_max:
        raise PayloadTooLarge
    stream = cast(_Input, request.META["wsgi.input"])
    try:
        if declared.isdigit():
            return _exactly(stream, int(declared))
        return _until_end(stream, bytes_max)
    except _UNREADABLE as error:
        raise InvalidRequest("The request body is malformed") from error


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

    Closing with unread bytes would reset the connection and destroy the answer under way.
    """
    closers = cast(list[Callable[[], None]], response._resource_closers)  # type: ignore[attr-defined]  # Django's own list of what to close after a response.
    closers.append(lambda: _drain(cast(_Input, request.META["wsgi.input"])))


def _drain(stream: _Input) -> None:
    left = _DRAIN_BYTES_MAX
    try:
        while left > 0 and (piece := stream.read(_PIECE)):
            left -= len(piece)
    except _UNREADABLE:
        return
