"""Request bodies: a byte cap before reading, a deadline, bounded inflation, then the parser.

What large bodies take together is bounded, and one is parsed at a time. The parser itself cannot be
interrupted, so the bound on how full a body may be bounds its time. Before, between and after,
other connections have their turns.
"""

import gc
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, Protocol, TypeAlias, cast

from django.http import HttpRequest
from gevent import Timeout
from gevent.lock import Semaphore
from gunicorn.http.errors import ParseException

from gateway.database.db import under_gevent
from gateway.eventloop import yield_control
from gateway.http.errors import InvalidRequest, PayloadTooLarge, Unavailable, UnsupportedEncoding
from gateway.http.jsonio import Between, JsonObject, Raw, do_nothing, is_fuller_than, loads
from gateway.http.vendor_names import replace_vendor_names
from gateway.live_settings import settings

# Fewer bytes are parsed in a few milliseconds.
ONE_AT_A_TIME_BYTES: Final = 262_144
# Commas, colons and opening brackets outside strings: 100,000 messages of five parts each, twice.
# The worst that keeps to it is parsed in 0.1 s, where 32 MiB of `[],` would take 3 s and 1 GB.
MARKS_MAX: Final = 1_000_000

_turn = Semaphore(1)


class BodyMemory:
    """The bytes of large bodies whose requests are in progress in this process."""

    def __init__(self) -> None:
        self.taken_bytes = 0

    def take(self, size: int) -> None:
        """Raises `Unavailable` (503, Retry-After) where it would become too much."""
        if self.taken_bytes + size > settings.ROUTER_BODY_MEMORY_BYTES:
            raise Unavailable("Too many large requests in progress")
        self.taken_bytes += size

    def give_back(self, size: int) -> None:
        self.taken_bytes -= size


memory = BodyMemory()


class BodyShare:
    """What one request's body takes of the memory, given back when its response is closed."""

    def __init__(self, request: HttpRequest) -> None:
        self._size = 0
        self._close = request.close
        # Django closes the request with its response, a stream's too.
        request.close = self._end  # type: ignore[method-assign]  # Only this request's.

    def grow(self, size: int) -> None:
        """Raises `Unavailable`."""
        memory.take(size)
        self._size += size

    def _end(self) -> None:
        size, self._size = self._size, 0
        memory.give_back(size)
        self._close()


def parse_large(raw: Raw) -> Any:
    """`jsonio.loads`; a large body that is too full raises `PayloadTooLarge` instead."""
    if len(raw) <= ONE_AT_A_TIME_BYTES:
        return loads(raw)
    if not under_gevent():
        return _parse_bounded(raw, do_nothing)
    with _turn:
        return _parse_bounded(raw, yield_control)


def _parse_bounded(raw: Raw, between: Between) -> Any:
    if is_fuller_than(MARKS_MAX, raw, between):
        raise PayloadTooLarge("Request payload too large: too many JSON values")
    with pause_collector():
        return loads(raw, between)


@contextmanager
def pause_collector() -> Iterator[None]:
    """Keep the garbage collector from looking at the new values over and over while they come."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


# Inflated in well under a millisecond.
_PIECE_BYTES: Final = 65_536
_GZIP: Final = zlib.MAX_WBITS | 16
_RAW: Final = -zlib.MAX_WBITS
# The low four bits of a zlib header's first byte name its method, of which there is one.
_ZLIB_METHOD: Final = 8


class Inflater:
    """Inflates one body piece by piece."""

    def __init__(self, *, gzip: bool) -> None:
        self._is_gzip = gzip
        self._stream: zlib._Decompress | None = None
        self._has_ended = False

    def feed_bytes(self, piece: Raw) -> Iterator[bytes]:
        """What the piece inflates to, in pieces. Raises `InvalidRequest`."""
        left = bytes(piece)
        while left:
            if self._has_ended and not self._is_gzip:
                raise _build_error()
            # A gzip file may be several, one behind the other.
            stream = self._stream
            if stream is None:
                # Some clients leave out the zlib header that "deflate" has by RFC 9110.
                is_raw = left[0] & 0x0F != _ZLIB_METHOD
                wbits = _GZIP if self._is_gzip else _RAW if is_raw else zlib.MAX_WBITS
                stream = self._stream = zlib.decompressobj(wbits)
            try:
                inflated = stream.decompress(left, _PIECE_BYTES)
            except zlib.error as error:
                raise _build_error() from error
            if inflated:
                yield inflated
                yield_control()
            self._has_ended = stream.eof
            left = stream.unused_data if stream.eof else stream.unconsumed_tail
            if stream.eof:
                self._stream = None

    def end(self) -> None:
        """Raises `InvalidRequest` where the body broke off."""
        if not self._has_ended:
            raise _build_error()


def build_inflater(encoding: str) -> Inflater | None:
    """For a `Content-Encoding`; None for a body sent as it is. Raises `UnsupportedEncoding`."""
    name = encoding.strip().lower()
    if name in ("", "identity"):
        return None
    if name not in ("gzip", "x-gzip", "deflate"):
        raise UnsupportedEncoding
    return Inflater(gzip=name != "deflate")


def _build_error() -> InvalidRequest:
    return InvalidRequest("The compressed request body is malformed")


PieceListener: TypeAlias = Callable[[Raw], object]

# Up to this size a body is read at once and counts for nothing.
_SMALL_BYTES = 65_536
_READ_BYTES = 262_144
# Chunks that are none, or a caller who left.
_UNREADABLE = (OSError, ParseException)


class BodyTooSlow(InvalidRequest):
    """It did not come within its time."""

    message = "The request body took too long"


class _Input(Protocol):
    def read(self, size: int) -> bytes: ...


def read_body(request: HttpRequest, *, bytes_max: int, hear: PieceListener | None = None) -> Raw:
    """The body, chunked or counted, inflated, within `ROUTER_BODY_TIMEOUT`; `bytes_max` holds for
    what comes and for what it inflates to. `hear` gets each piece of what is returned.

    Raises `InvalidRequest` where it cannot be read or takes too long, `UnsupportedEncoding`, and
    `PayloadTooLarge`, before reading where it can. Raises `Unavailable` where large bodies take too
    much memory together.
    """
    inflater = build_inflater(request.META.get("HTTP_CONTENT_ENCODING", ""))
    declared = request.META.get("CONTENT_LENGTH") or ""
    length = int(declared) if declared.isdigit() else None
    if length is not None and length > bytes_max:
        raise PayloadTooLarge
    try:
        # Nearly all bodies come together with their head: then nothing takes long.
        reader = getattr(request.META["wsgi.input"], "reader", None)
        arrived_bytes = getattr(getattr(reader, "unreader", None), "buffered_bytes", -1)
        if (length is not None and length <= arrived_bytes) or not under_gevent():
            return _read(request, length, bytes_max, inflater, hear)
        # A timeout of the socket's own would begin anew with each byte of a trickle.
        with Timeout(settings.ROUTER_BODY_TIMEOUT, TimeoutError):
            return _read(request, length, bytes_max, inflater, hear)
    except TimeoutError as error:
        raise BodyTooSlow from error
    except _UNREADABLE as error:
        raise InvalidRequest("The request body is malformed") from error


def _read(
    request: HttpRequest,
    length: int | None,
    bytes_max: int,
    inflater: Inflater | None,
    hear: PieceListener | None,
) -> Raw:
    if length == 0:
        return b""
    stream = cast(_Input, request.META["wsgi.input"])
    if length is not None and length <= _SMALL_BYTES and inflater is None:
        body: Raw = stream.read(length)
        came = len(body)
        if hear is not None:
            hear(body)
    else:
        body, came = _read_pieces(stream, length, bytes_max, request, inflater, hear)
    if length is not None and came != length:
        raise InvalidRequest("The request body ended early")
    if inflater is not None and came:
        inflater.end()
    return body


def _read_pieces(
    stream: _Input,
    length: int | None,
    bytes_max: int,
    request: HttpRequest,
    inflater: Inflater | None,
    hear: PieceListener | None,
) -> tuple[bytearray, int]:
    """What comes until the end, inflated, and how much came. Both are counted as they come: a slow
    sender takes no more than it sent, and a bomb no more than the cap."""
    # Joining pieces at the end would copy 32 MiB in one go.
    body = bytearray()
    came = 0
    share: BodyShare | None = None
    until = bytes_max + 1 if length is None else length
    while piece := stream.read(min(_READ_BYTES, until - came)):
        came += len(piece)
        if came > bytes_max:
            raise PayloadTooLarge
        for each in (piece,) if inflater is None else inflater.feed_bytes(piece):
            body += each
            if len(body) > bytes_max:
                raise PayloadTooLarge
            if share is not None:
                share.grow(len(each))
            elif len(body) > _SMALL_BYTES:
                share = BodyShare(request)
                share.grow(len(body))
            if hear is not None:
                hear(each)
    return body, came


def read_form(request: HttpRequest) -> bool:
    """Keep the body of a page's request in it, within `ROUTER_BODY_TIMEOUT`; whether it came."""
    within_s = settings.ROUTER_BODY_TIMEOUT if under_gevent() else None
    try:
        with Timeout(within_s, TimeoutError):
            request.body  # noqa: B018 - Reading it keeps it.
    except _UNREADABLE:
        return False
    return True


def read_object(
    request: HttpRequest, *, bytes_max: int, hear: PieceListener | None = None
) -> JsonObject:
    """`read_body` as a JSON object. Raises `MalformedJson` as well."""
    return _parse_object(read_body(request, bytes_max=bytes_max, hear=hear))


def read_optional_object(request: HttpRequest, *, bytes_max: int) -> JsonObject:
    """`read_object` where everything in the body has a default: no body at all is an empty one."""
    raw = read_body(request, bytes_max=bytes_max)
    return _parse_object(raw) if raw else {}


def _parse_object(raw: Raw) -> JsonObject:
    value = parse_large(raw)
    if not isinstance(value, dict):
        raise InvalidRequest("Invalid input: expected object")
    for vendor in settings.VENDOR_ALIASES:
        if vendor.encode() in raw:
            replace_vendor_names(value, vendor)
    return value
