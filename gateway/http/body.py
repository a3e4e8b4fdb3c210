"""The inbound door for bodies: a byte cap before reading, a deadline, then the strict parser."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol, cast

from django.http import HttpRequest
from gevent import Timeout
from gunicorn.http.errors import ParseException

from gateway.db import under_gevent
from gateway.http.errors import InvalidRequest, PayloadTooLarge
from gateway.http.large import Share, parse
from gateway.http.structure import Raw
from gateway.live_settings import settings

# Up to this size a body is read at once and counts for nothing.
_SMALL_BYTES = 65_536
_PIECE_BYTES = 262_144
# Chunks that are none, or a caller who left.
_UNREADABLE = (OSError, ParseException)


class BodyTooSlow(InvalidRequest):
    """It did not come within its time."""

    message = "The request body took too long"


class _Input(Protocol):
    def read(self, size: int) -> bytes: ...


def read_body(request: HttpRequest, *, bytes_max: int) -> Raw:
    """The raw body, chunked or counted, within `ROUTER_BODY_TIMEOUT`.

    Raises `InvalidRequest` where it cannot be read or takes too long, `PayloadTooLarge`, before
    reading where it can, and `Unavailable` where large bodies take too much memory together.
    """
    declared = request.META.get("CONTENT_LENGTH") or ""
    length = int(declared) if declared.isdigit() else None
    if length is not None and length > bytes_max:
        raise PayloadTooLarge
    try:
        if length is not None and _is_here(request, length):
            return _read(request, length, bytes_max)
        with _within(settings.ROUTER_BODY_TIMEOUT):
            return _read(request, length, bytes_max)
    except TimeoutError as error:
        raise BodyTooSlow from error
    except _UNREADABLE as error:
        raise InvalidRequest("The request body is malformed") from error


def _is_here(request: HttpRequest, length: int) -> bool:
    """Whether the body came together with its head, as nearly all do: then nothing takes long."""
    reader = getattr(request.META["wsgi.input"], "reader", None)
    return length <= getattr(getattr(reader, "unreader", None), "buffered_bytes", -1)


def _within(limit_s: float) -> AbstractContextManager[object]:
    """Ends the block with `TimeoutError` when it waits past the limit, which takes gevent.

    A timeout of the socket's own would begin anew with each byte of a trickle.
    """
    return Timeout(limit_s, TimeoutError) if under_gevent() else nullcontext()


def _read(request: HttpRequest, length: int | None, bytes_max: int) -> Raw:
    stream = cast(_Input, request.META["wsgi.input"])
    if length is None:
        return _in_pieces(stream, bytes_max, request)
    if length <= _SMALL_BYTES:
        body: Raw = stream.read(length) if length else b""
    else:
        body = _in_pieces(stream, length, request)
    if len(body) != length:
        raise InvalidRequest("The request body ended early")
    return body


def _in_pieces(stream: _Input, bytes_max: int, request: HttpRequest) -> bytearray:
    """What comes until the end, counted as it comes: a slow sender takes no more than it sent."""
    # Joining pieces at the end would copy 32 MiB in one go.
    body = bytearray()
    share: Share | None = None
    while piece := stream.read(_PIECE_BYTES):
        body += piece
        if len(body) > bytes_max:
            raise PayloadTooLarge
        if len(body) > _SMALL_BYTES:
            share = share or Share(request)
            share.grow(len(piece))
    return body


def read_object(request: HttpRequest, *, bytes_max: int) -> dict[str, Any]:
    """The body as a JSON object.

    Raises `PayloadTooLarge`, `MalformedJson`, `InvalidRequest` and `Unavailable`.
    """
    return _object(read_body(request, bytes_max=bytes_max))


def read_optional_object(request: HttpRequest, *, bytes_max: int) -> dict[str, Any]:
    """`read_object` where everything in the body has a default: no body at all is an empty one."""
    raw = read_body(request, bytes_max=bytes_max)
    return _object(raw) if raw else {}


def _object(raw: Raw) -> dict[str, Any]:
    value = parse(raw)
    if not isinstance(value, dict):
        raise InvalidRequest("Invalid input: expected object")
    return value
