"""Answers off the wire: HTTP/1.1 within bounds, and content encodings undone in bounded steps."""

import zlib
from collections.abc import Iterator
from itertools import chain
from typing import Self

import httptools

from gateway.eventloop import yield_control
from gateway.outbound.exchange import Limits

# One-byte chunks, the dearest honest framing, cost 5 bytes round each body byte.
_FRAMING_PER_BODY_BYTE = 8
_STATUS_LINE_BYTES = 17


class WireFault(Exception):
    """A reply that breaks HTTP or its bounds. The text says how and holds no upstream bytes."""


class ReplyReader:
    """Reads the replies of one connection, one after another, through llhttp.

    ``start`` begins a reply; ``feed_bytes`` takes bytes as they come. Body bytes, still
    content-encoded, wait in ``pieces`` until the owner takes them. A reader that raised WireFault
    is spent.
    """

    __slots__ = (
        "_fields",
        "_framing_bytes",
        "_head_bytes",
        "_head_bytes_fed",
        "_head_bytes_max",
        "_is_head_request",
        "_is_interim",
        "_parser",
        "body_bytes",
        "content_length",
        "done",
        "fault",
        "head_done",
        "headers",
        "keep_alive",
        "pieces",
        "status",
        "tainted",
        "until_eof",
    )

    def __init__(self) -> None:
        self._parser = httptools.HttpResponseParser(self)

    def start(self, limits: Limits, *, is_head_request: bool) -> None:
        """Forget the last reply and be ready for the next."""
        self._head_bytes_max = limits.head_bytes_max
        self._is_head_request = is_head_request
        self._is_interim = False
        self._head_bytes = 0
        self._head_bytes_fed = 0
        self._framing_bytes = 0
        self._fields: list[tuple[bytes, bytes]] = []
        self.status = 0
        self.headers: dict[str, str] = {}
        self.content_length: int | None = None
        self.pieces: list[bytes] = []
        self.body_bytes = 0
        self.head_done = False
        self.done = False
        self.until_eof = False
        self.keep_alive = False
        self.tainted = False
        self.fault: str | None = None

    @property
    def reusable(self) -> bool:
        """Whether the connection may carry another request."""
        return self.done and self.keep_alive and not self.tainted

    def feed_bytes(self, data: bytes) -> None:
        """Take bytes from the socket. Raises WireFault."""
        in_head = not self.head_done
        body_bytes_before = self.body_bytes
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            if not self.done:
                # llhttp's reasons are fixed sentences of its own.
                reason = f"the answer is not HTTP: {error}"
                if isinstance(error, httptools.HttpParserUpgrade):
                    reason = "the answer switches protocols"
                raise WireFault(self.fault or reason) from None
            self.tainted = True
        if in_head:
            if not self.head_done:
                self._head_bytes_fed += len(data)
            if max(self._head_bytes, self._head_bytes_fed) > self._head_bytes_max:
                raise WireFault("the head of the answer is too large")
        else:
            self._framing_bytes += len(data) - (self.body_bytes - body_bytes_before)
            allowed = self._head_bytes_max + _FRAMING_PER_BODY_BYTE * self.body_bytes
            if self._framing_bytes > allowed:
                raise WireFault("the answer is mostly chunk framing or trailers")

    def end_of_file(self) -> bool:
        """Whether the end of the connection is the clean end of this reply."""
        self.done = self.done or (self.head_done and self.until_eof)
        return self.done

    def take(self) -> bytes:
        """The body bytes that wait, still content-encoded; b"" for none."""
        pieces = self.pieces
        if not pieces:
            return b""
        data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        pieces.clear()
        return data

    # What llhttp calls. An exception raised in here stops the parser.

    def on_message_begin(self) -> None:
        if self.done:
            self.tainted = True
            raise WireFault("bytes follow the end of the answer")

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.head_done:
            return  # A trailer: bounded as framing, and of no use here.
        self._fields.append((name, value))

    def on_headers_complete(self) -> None:
        self._head_bytes += _STATUS_LINE_BYTES + 4 * len(self._fields)
        self._head_bytes += sum(map(len, chain.from_iterable(self._fields)))
        fields, self._fields = self._fields, []
        headers = {
            name.lower().decode("latin-1"): value.decode("latin-1") for name, value in fields
        }
        if len(headers) < len(fields):
            # Some name came more than once.
            headers = {}
            for name, value in fields:
                key, text = name.lower().decode("latin-1"), value.decode("latin-1")
                headers[key] = f"{headers[key]}, {text}" if key in headers else text
        self.headers = headers
        self.status = self._parser.get_status_code()
        if 102 <= self.status < 200 or self.status == 100:
            self._is_interim = True
            return
        if self.status < 200:
            self._refuse("the answer has a status this door does not take")
        coding = self.headers.get("transfer-encoding")
        length = self.headers.get("content-length")
        if coding is not None and coding.strip().lower() != "chunked":
            self._refuse("the answer has a transfer-encoding other than chunked")
        if length is not None:
            self.content_length = int(length)
        self.until_eof = coding is None and length is None
        self.head_done = True
        self.done = self._is_head_request

    def on_body(self, body: bytes) -> None:
        if self._is_head_request:
            self.tainted = True
            return
        self.body_bytes += len(body)
        self.pieces.append(body)

    def on_message_complete(self) -> None:
        if self._is_interim:
            self._is_interim = False
            self.headers = {}
            return
        self.done = True
        self.keep_alive = self._parser.should_keep_alive()

    def _refuse(self, fault: str) -> None:
        self.fault = fault
        raise WireFault(fault)


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
    def for_encoding(cls, content_encoding: str | None) -> Self | None:
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
            if self._zlib is None:
                if self._is_gzip:
                    wbits = _GZIP_WBITS
                else:
                    # "deflate" means the zlib format, but servers send raw deflate too; the first
                    # byte says which.
                    is_zlib = self._tail[0] & 0x0F == _ZLIB_METHOD
                    wbits = zlib.MAX_WBITS if is_zlib else -zlib.MAX_WBITS
                self._zlib = zlib.decompressobj(wbits)
            try:
                piece = self._zlib.decompress(self._tail, STEP_BYTES)
            except zlib.error as error:
                raise WireFault("the body does not decode as its content-encoding says") from error
            if self._zlib.unused_data:
                raise WireFault("bytes follow the end of the encoded body")
            self._tail = self._zlib.unconsumed_tail
            # A full step can leave output inside zlib with no input left to push it out.
            self._is_full = len(piece) == STEP_BYTES
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
