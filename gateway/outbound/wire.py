"""HTTP/1.1 on the wire: request heads as bytes, and a bounded reader of replies."""

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import chain

import httptools

from gateway.outbound.exchange import Limits
from gateway.outbound.origin import Origin

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_TARGET = re.compile(r"/[\x21\x22\x24-\x7e]*")  # Visible ASCII without "#".

# What the door itself decides; a caller naming one of these would choose host or framing.
_DOORS_OWN = frozenset(
    {
        "connection",
        "content-length",
        "expect",
        "host",
        "keep-alive",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
_METHODS_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})

# One-byte chunks, the dearest honest framing, cost 5 bytes round each body byte.
_FRAMING_PER_BODY_BYTE = 8
_STATUS_LINE_BYTES = 17


class WireFault(Exception):
    """A reply that breaks HTTP or its bounds. The text says how and holds no upstream bytes."""


def request_head(
    origin: Origin,
    *,
    method: str,
    path: str,
    headers: Sequence[tuple[str, str]],
    body_bytes: int,
    absolute_form: bool = False,
) -> bytes:
    """The request up to its body. Raises ValueError for anything that could bend the request."""
    target = _target(origin, path, absolute_form)
    if not _TOKEN.fullmatch(method):
        raise ValueError("the method is not a token")
    lines = (
        f"{method} {target} HTTP/1.1\r\nHost: {origin.host_header}\r\nConnection: keep-alive\r\n"
    )
    if body_bytes or method in _METHODS_WITH_BODY:
        lines += f"Content-Length: {body_bytes}\r\n"
    return (lines + _header_lines(headers) + "\r\n").encode("latin-1")


def _target(origin: Origin, path: str, absolute_form: bool) -> str:
    if not _TARGET.fullmatch(path) or "/.." in path:
        raise ValueError("the path is not a plain absolute path in ASCII")
    target = origin.path_prefix + path
    return f"http://{origin.host_header}{target}" if absolute_form else target


def _header_lines(headers: Sequence[tuple[str, str]]) -> str:
    lines = ""
    names_encoding = False
    for name, value in headers:
        lowered = _lowered(name)
        if not (value.isascii() and value.isprintable()) and _is_forbidden(value):
            # The value stays out of the text: it may be a credential.
            raise ValueError(f"the value of header {lowered} holds a forbidden character")
        names_encoding = names_encoding or lowered == "accept-encoding"
        lines += f"{name}: {value}\r\n"
    return lines if names_encoding else f"{lines}Accept-Encoding: identity\r\n"


@lru_cache(maxsize=256)
def _lowered(name: str) -> str:
    """Adapters send the same few names."""
    if not _TOKEN.fullmatch(name):
        raise ValueError("a header name is not a token")
    lowered = name.lower()
    if lowered in _DOORS_OWN:
        raise ValueError(f"header {lowered} is set by the door")
    return lowered


def _is_forbidden(value: str) -> bool:
    breaks = "\r" in value or "\n" in value or "\0" in value
    return breaks or not (value.isascii() or max(value) <= "\xff")


class ReplyReader:
    """Reads the replies of one connection, one after another, through llhttp.

    ``start`` begins a reply; ``feed`` takes bytes as they come. Body bytes, still content-encoded,
    wait in ``pieces`` until the owner takes them. A reader that raised WireFault is spent.
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

    def feed(self, data: bytes) -> None:
        """Take bytes from the socket. Raises WireFault."""
        in_head = not self.head_done
        body_bytes_before = self.body_bytes
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            if not self.done:
                raise WireFault(self.fault or _reason(error)) from None
            self.tainted = True
        if in_head:
            self._check_head(len(data))
        else:
            self._check_framing(len(data) - (self.body_bytes - body_bytes_before))

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

    def _check_head(self, fed_bytes: int) -> None:
        if not self.head_done:
            self._head_bytes_fed += fed_bytes
        if max(self._head_bytes, self._head_bytes_fed) > self._head_bytes_max:
            raise WireFault("the head of the answer is too large")

    def _check_framing(self, framing_bytes: int) -> None:
        self._framing_bytes += framing_bytes
        allowed = self._head_bytes_max + _FRAMING_PER_BODY_BYTE * self.body_bytes
        if self._framing_bytes > allowed:
            raise WireFault("the answer is mostly chunk framing or trailers")

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
        self._read_fields()
        self.status = self._parser.get_status_code()
        if 102 <= self.status < 200 or self.status == 100:
            self._is_interim = True
            return
        if self.status < 200:
            self._refuse("the answer has a status this door does not take")
        self._note_framing()
        self.head_done = True
        self.done = self._is_head_request

    def _read_fields(self) -> None:
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

    def _note_framing(self) -> None:
        coding = self.headers.get("transfer-encoding")
        length = self.headers.get("content-length")
        if coding is not None and coding.strip().lower() != "chunked":
            self._refuse("the answer has a transfer-encoding other than chunked")
        if length is not None:
            self.content_length = int(length)
        self.until_eof = coding is None and length is None

    def _refuse(self, fault: str) -> None:
        self.fault = fault
        raise WireFault(fault)


def _reason(error: Exception) -> str:
    if isinstance(error, httptools.HttpParserUpgrade):
        return "the answer switches protocols"
    # llhttp's reasons are fixed sentences of its own.
    return f"the answer is not HTTP: {error}"
