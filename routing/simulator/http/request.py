"""Reading HTTP/1.1 requests out of a byte stream."""

from dataclasses import dataclass
from hashlib import sha256

HEAD_BYTES_MAX = 256 * 1024
BODY_BYTES_MAX = 128 * 1024 * 1024
SECRET_HEADERS = frozenset({"authorization", "x-api-key", "api-key"})
SECRET_PREFIX_LENGTH = 16


class BadRequest(Exception):
    """Bytes that are no request this server can read; the connection ends after the answer."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(slots=True)
class Request:
    """One request, complete with its body. Header names are lower-case, credentials are hashed."""

    method: str
    path: str
    query: str
    headers: dict[str, str]
    keep_alive: bool
    body: bytes = b""


def redacted(value: str) -> str:
    """The first 16 hex digits of the SHA-256 of a credential, its scheme word left out."""
    credential = value.split(" ", 1)[-1].strip()
    return (
        "sha256:" + sha256(credential.encode("utf-8", "replace")).hexdigest()[:SECRET_PREFIX_LENGTH]
    )


def read_head(head: bytes) -> Request:
    """Parse a request line and its headers. Raises BadRequest."""
    first, *lines = head.decode("latin-1").split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        raise BadRequest(400, "not an HTTP/1.x request line")
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon:
            raise BadRequest(400, "a header line without a colon")
        name = name.lower()
        value = value.strip()
        headers[name] = redacted(value) if name in SECRET_HEADERS else value
    path, _, query = words[1].partition("?")
    wishes = headers.get("connection", "").lower()
    keep_alive = "keep-alive" in wishes if words[2] == "HTTP/1.0" else "close" not in wishes
    return Request(words[0], path, query, headers, keep_alive)


class RequestReader:
    """Collects bytes and hands out complete requests, one after another."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._request: Request | None = None
        self._length: int | None = None
        self._chunks = bytearray()

    def feed(self, data: bytes) -> None:
        self._buffer += data

    def next(self) -> Request | None:
        """The next complete request, or None until more bytes came. Raises BadRequest."""
        if self._request is None and not self._read_head():
            return None
        body = self._take_chunks() if self._length is None else self._take(self._length)
        if body is None:
            return None
        request, self._request = self._request, None
        assert request is not None
        request.body = body
        return request

    def wants_continue(self) -> bool:
        """True once for a request whose sender waits for `100 Continue` before its body."""
        if self._request is None:
            return False
        return self._request.headers.pop("expect", "").lower() == "100-continue"

    def _read_head(self) -> bool:
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            if len(self._buffer) > HEAD_BYTES_MAX:
                raise BadRequest(431, "the request head is too large")
            return False
        self._request = read_head(bytes(self._buffer[:end]))
        del self._buffer[: end + 4]
        self._length = self._body_length(self._request.headers)
        return True

    def _body_length(self, headers: dict[str, str]) -> int | None:
        if headers.get("transfer-encoding", "").lower() == "chunked":
            self._chunks = bytearray()
            return None
        text = headers.get("content-length", "0")
        if not text.isdecimal():
            raise BadRequest(400, "Content-Length is not a number")
        if int(text) > BODY_BYTES_MAX:
            raise BadRequest(413, "the request body is too large")
        return int(text)

    def _take(self, length: int) -> bytes | None:
        if len(self._buffer) < length:
            return None
        body = bytes(self._buffer[:length])
        del self._buffer[:length]
        return body

    def _take_chunks(self) -> bytes | None:
        while True:
            end = self._buffer.find(b"\r\n")
            if end < 0:
                return None
            try:
                size = int(bytes(self._buffer[:end]).split(b";")[0], 16)
            except ValueError:
                raise BadRequest(400, "a chunk size that is not a number") from None
            if len(self._chunks) + size > BODY_BYTES_MAX:
                raise BadRequest(413, "the request body is too large")
            # Trailers after the last chunk are not used by any HTTP client we meet.
            if len(self._buffer) < end + 2 + size + 2:
                return None
            self._chunks += self._buffer[end + 2 : end + 2 + size]
            del self._buffer[: end + 2 + size + 2]
            if size == 0:
                return bytes(self._chunks)
