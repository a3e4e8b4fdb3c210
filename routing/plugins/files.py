"""Files that callers send, read as text apart from the process that serves."""

import json
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pydantic_core

from gateway.apart import Apart, Ended, TookTooLong
from gateway.http.errors import InvalidRequest, PayloadTooLarge, Unavailable
from gateway.http.jsonio import dumps
from gateway.live_settings import settings
from routing.fetching.charsets import decoded
from routing.fetching.doors import door_for
from routing.fetching.following import Ready, TooManyRedirects, follow
from routing.fetching.targets import Target, TargetRefused, split_url, target_of
from routing.upstreams.door import Limits, Reply
from routing.upstreams.door_errors import BodyTooLarge, DoorError, NotAllowed

AT_ONCE: Final = 2
_MEMORY_BYTES: Final = 1_073_741_824
_FACTS_BYTES_MAX: Final = 65_536
_CHAR_BYTES_MAX: Final = 4
_HOPS_MAX: Final = 5
_CONNECT_S: Final = 10.0
_PIECE_CHARS: Final = 1 << 20
_GRACE_S: Final = 0.5
_READER: Final = str(Path(__file__).with_name("pdf_reader.py").resolve())
_HEADERS: Final = [
    ("Accept", "application/pdf, text/*;q=0.9, */*;q=0.5"),
    ("Accept-Encoding", "gzip, deflate"),
]
_TEXTS: Final = frozenset(
    {
        "application/json",
        "application/xml",
        "application/x-yaml",
        "application/yaml",
        "application/javascript",
    }
)
_TOO_SLOW: Final = "takes too long to be read"
_free = threading.BoundedSemaphore(AT_ONCE)


class FileText(NamedTuple):
    """What a file says: None where it is neither a PDF nor text. `hash` is the SHA-256 of its
    content, `pages` None where it has none, `is_cut` whether there is more of it."""

    text: str | None
    hash: str
    pages: int | None = None
    is_cut: bool = False


class _Content(NamedTuple):
    """A file as it came: its media type, and its bytes, perhaps encoded, in pieces that are `sent`
    bytes in all. At most `size` bytes are in it."""

    kind: str
    encoding: str
    pieces: Iterable[bytes]
    sent: int
    size: int


def text_of(where: str, until: float, *, chars_max: int) -> FileText:
    """The text of a file at an http(s) or in a data URL, or as much of its beginning; `until` is
    monotonic. Raises `GatewayError`, whose text says what is wrong with the file."""
    if time.monotonic() >= until:
        raise InvalidRequest(_TOO_SLOW)
    content = _of_data(where) if where[:5].lower() == "data:" else _fetched(where, until)
    if content.size > settings.ROUTER_FILE_BYTES:
        raise PayloadTooLarge(f"is larger than {settings.ROUTER_FILE_BYTES} bytes")
    if not _free.acquire(timeout=max(0.0, until - time.monotonic())):
        raise Unavailable("could not be read in time: others are being read")
    try:
        return _read(content, until, chars_max)
    finally:
        _free.release()


# --- Where a file comes from ----------------------------------------------------------------------


def _of_data(url: str) -> _Content:
    head, comma, _ = url[5:].partition(",") if len(url) < _PIECE_CHARS else _head(url)
    if not comma:
        raise InvalidRequest("is no data URL")
    kind, *options = (word.strip().lower() for word in head.split(";"))
    start = len("data:") + len(head) + 1
    size = len(url) - start
    if "base64" in options:
        return _Content(kind, "base64", _encoded(url, start), size, size * 3 // 4)
    return _Content(kind, "percent", _encoded(url, start), size, size)


def _head(url: str) -> tuple[str, str, str]:
    """Without a copy of all that is behind it."""
    end = url.find(",", 5, _PIECE_CHARS)
    return (url[5:end], ",", "") if end > 0 else ("", "", "")


def _encoded(url: str, start: int) -> Iterator[bytes]:
    for at in range(start, len(url), _PIECE_CHARS):
        yield url[at : at + _PIECE_CHARS].encode("ascii", "replace")


def _fetched(url: str, until: float) -> _Content:
    """Through the guarded door: what a caller names is never of our own network."""
    try:
        followed = follow(
            target_of(*split_url(url)),
            method="GET",
            prepare=_prepare,
            door_of=lambda host: door_for(host, private=settings.ROUTER_FETCH_PRIVATE_HOSTS),
            limits=_limits(until),
            deadline=until,
            hops_max=_HOPS_MAX,
        )
        with followed.reply as reply:
            return _content(reply)
    except TargetRefused as error:
        raise InvalidRequest(f"has a URL that is not fetched: {error}") from None
    except NotAllowed:
        raise InvalidRequest("has a URL whose host is not one of the public Internet") from None
    except TooManyRedirects:
        raise InvalidRequest(f"has a URL with more than {_HOPS_MAX} redirects") from None
    except BodyTooLarge:
        raise PayloadTooLarge(f"is larger than {settings.ROUTER_FILE_BYTES} bytes") from None
    except DoorError:
        raise InvalidRequest("has a URL that could not be fetched") from None


def _prepare(target: Target, *, method: str, hop: int) -> Ready:
    return Ready(target.path, list(_HEADERS), b"")


def _limits(until: float) -> Limits:
    left_s = max(0.1, until - time.monotonic())
    return Limits(
        connect_s=min(_CONNECT_S, left_s),
        first_byte_s=left_s,
        idle_s=left_s,
        body_bytes_max=settings.ROUTER_FILE_BYTES,
    )


def _content(reply: Reply) -> _Content:
    if reply.status != 200:
        raise InvalidRequest(f"has a URL that answers {reply.status}")
    kind = reply.headers.get("content-type", "").partition(";")[0].strip().lower()
    body = reply.read_all()
    return _Content(kind, "", [body], len(body), len(body))


# --- Reading --------------------------------------------------------------------------------------


def _read(content: _Content, until: float, chars_max: int) -> FileText:
    left_s = until - time.monotonic()
    if left_s <= 0:
        raise InvalidRequest(_TOO_SLOW)
    limits = {
        "seconds": left_s,
        "memory_bytes": _MEMORY_BYTES,
        "pages": settings.ROUTER_FILE_PAGES,
        "chars": chars_max,
    }
    facts = {
        "encoding": content.encoding,
        "is_pdf": content.kind == "application/pdf",
        "is_text": _is_text(content.kind),
    }
    command = [sys.executable, "-I", _READER, json.dumps(limits)]
    try:
        reader = Apart(command, {"LANG": "C.UTF-8"})
    except OSError:
        raise Unavailable("cannot be read at the moment") from None
    try:
        reader.send(dumps(facts), until)
        reader.send_pieces(content.pieces, content.sent, until)
        facts_told = reader.receive(_FACTS_BYTES_MAX, until + _GRACE_S)
        told: dict[str, Any] = pydantic_core.from_json(facts_told)
        text = reader.receive(chars_max * _CHAR_BYTES_MAX, until + _GRACE_S)
    except TookTooLong:
        raise InvalidRequest(_TOO_SLOW) from None
    except (Ended, ValueError):
        raise InvalidRequest("cannot be read") from None
    finally:
        reader.close()
    if "error" in told:
        raise InvalidRequest(f"cannot be read: {told['error']}")
    said = decoded(text) if told["has_text"] else None
    return FileText(said, told["hash"], told.get("pages"), told.get("cut", False))


def _is_text(kind: str) -> bool:
    return kind.startswith("text/") or kind in _TEXTS or kind.endswith(("+json", "+xml"))
