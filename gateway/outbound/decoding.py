"""Content encodings of answers, undone in bounded steps."""

import zlib
from collections.abc import Iterator
from typing import Self

from gateway.eventloop import yield_control
from gateway.outbound.wire import WireFault

STEP_BYTES = 256 * 1024
_INPUT_BYTES = 64 * 1024
# So many steps keep a core busy for a few milliseconds; then other greenlets get a turn.
_YIELD_EVERY_STEPS = 8

_GZIP_WBITS = 16 + zlib.MAX_WBITS
_ZLIB_METHOD = 8


class Inflater:
    """Decodes gzip or deflate, at most STEP_BYTES of output at a time."""

    __slots__ = ("_is_full", "_is_gzip", "_tail", "_zlib")

    def __init__(self, *, is_gzip: bool) -> None:
        self._is_gzip = is_gzip
        self._zlib: zlib._Decompress | None = None
        self._tail = b""
        self._is_full = False

    @classmethod
    def named(cls, content_encoding: str | None) -> Self | None:
        """The decoder for a content-encoding header, None for a plain body. Raises WireFault."""
        name = (content_encoding or "").strip().lower()
        if name in ("", "identity"):
            return None
        if name in ("gzip", "x-gzip"):
            return cls(is_gzip=True)
        if name == "deflate":
            return cls(is_gzip=False)
        raise WireFault("the answer's content-encoding is not one this gateway takes")

    def give(self, data: bytes) -> None:
        """Take encoded bytes in, behind those that wait."""
        self._tail += data

    def step(self) -> bytes:
        """The next decoded bytes, b"" when more input is needed. Raises WireFault."""
        while self._tail or self._is_full:
            piece = self._decompress()
            if piece:
                return piece
        return b""

    def steps(self, encoded: bytes) -> Iterator[bytes]:
        """Decode what waits and then ``encoded``, letting other greenlets run now and then."""
        count = 0
        for start in range(0, len(encoded) or 1, _INPUT_BYTES):
            self.give(encoded[start : start + _INPUT_BYTES])
            while piece := self.step():
                yield piece
                count += 1
                if count % _YIELD_EVERY_STEPS == 0:
                    yield_control()

    def finish(self) -> None:
        """Raises WireFault when the encoded body is cut short. No body at all is fine."""
        if self._zlib is not None and not self._zlib.eof:
            raise WireFault("the encoded body is cut short")

    def copy(self) -> Self:
        """A twin in the same state, for a trial run."""
        twin = type(self)(is_gzip=self._is_gzip)
        twin._zlib = self._zlib.copy() if self._zlib is not None else None
        twin._tail = self._tail
        twin._is_full = self._is_full
        return twin

    def _decompress(self) -> bytes:
        if self._zlib is None:
            self._zlib = zlib.decompressobj(self._wbits())
        try:
            piece = self._zlib.decompress(self._tail, STEP_BYTES)
        except zlib.error as error:
            raise WireFault("the body does not decode as its content-encoding says") from error
        if self._zlib.unused_data:
            raise WireFault("bytes follow the end of the encoded body")
        self._tail = self._zlib.unconsumed_tail
        # A full step can leave output inside zlib with no input left to push it out.
        self._is_full = len(piece) == STEP_BYTES
        return piece

    def _wbits(self) -> int:
        if self._is_gzip:
            return _GZIP_WBITS
        # "deflate" means the zlib format, but servers send raw deflate too; the first byte tells.
        return zlib.MAX_WBITS if self._tail[0] & 0x0F == _ZLIB_METHOD else -zlib.MAX_WBITS
