"""Request bodies that callers compressed, inflated in bounded pieces: no bomb goes off."""

import zlib
from collections.abc import Iterator
from typing import Final

from gateway.eventloop import yield_control
from gateway.http.errors import InvalidRequest, UnsupportedEncoding
from gateway.http.structure import Raw

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

    def feed(self, piece: Raw) -> Iterator[bytes]:
        """What the piece inflates to, in pieces. Raises `InvalidRequest`."""
        left = bytes(piece)
        while left:
            if self._has_ended and not self._is_gzip:
                raise _build_error()
            # A gzip file may be several, one behind the other.
            stream = self._stream = self._stream or self._begin(left)
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

    def _begin(self, beginning: bytes) -> "zlib._Decompress":
        if self._is_gzip:
            return zlib.decompressobj(_GZIP)
        # Some clients leave out the zlib header that "deflate" has by RFC 9110.
        has_header = beginning[0] & 0x0F == _ZLIB_METHOD
        return zlib.decompressobj(zlib.MAX_WBITS if has_header else _RAW)


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
