"""Files that callers send, in their requests or by URL."""

import time
from collections.abc import Iterator
from typing import Final

from gateway.http.errors import InvalidRequest, PayloadTooLarge, Unavailable
from gateway.live_settings import settings
from gateway.outbound.errors import BodyTooLarge, NotAllowed, OutboundError
from gateway.outbound.http_client import Limits, Reply
from routing.fetching.doors import door_for
from routing.fetching.files import (
    TOO_SLOW,
    Content,
    FileText,
    FileUnreadable,
    ReadersBusy,
    read_file,
)
from routing.fetching.following import Ready, TooManyRedirects, follow
from routing.fetching.targets import Target, TargetRefused, split_url, target_of

_HOPS_MAX: Final = 5
_CONNECT_S: Final = 10.0
_PIECE_CHARS: Final = 1 << 20
_HEADERS: Final = [
    ("Accept", "application/pdf, text/*;q=0.9, */*;q=0.5"),
    ("Accept-Encoding", "gzip, deflate"),
]


def text_of(where: str, until: float, *, chars_max: int) -> FileText:
    """The text of a file at an http(s) or in a data URL, or as much of its beginning; `until` is
    monotonic. Raises `GatewayError`, whose text says what is wrong with the file."""
    if time.monotonic() >= until:
        raise InvalidRequest(TOO_SLOW)
    content = _of_data(where) if where[:5].lower() == "data:" else _fetched(where, until)
    if content.size > settings.ROUTER_FILE_BYTES:
        raise PayloadTooLarge(f"is larger than {settings.ROUTER_FILE_BYTES} bytes")
    try:
        return read_file(content, until, chars_max=chars_max)
    except ReadersBusy as error:
        raise Unavailable(str(error)) from None
    except FileUnreadable as error:
        raise InvalidRequest(str(error)) from None


# --- Where a file comes from ----------------------------------------------------------------------


def _of_data(url: str) -> Content:
    head, comma, _ = url[5:].partition(",") if len(url) < _PIECE_CHARS else _head(url)
    if not comma:
        raise InvalidRequest("is no data URL")
    kind, *options = (word.strip().lower() for word in head.split(";"))
    start = len("data:") + len(head) + 1
    size = len(url) - start
    if "base64" in options:
        return Content(kind, "base64", _encoded(url, start), size, size * 3 // 4)
    return Content(kind, "percent", _encoded(url, start), size, size)


def _head(url: str) -> tuple[str, str, str]:
    """Without a copy of all that is behind it."""
    end = url.find(",", 5, _PIECE_CHARS)
    return (url[5:end], ",", "") if end > 0 else ("", "", "")


def _encoded(url: str, start: int) -> Iterator[bytes]:
    for at in range(start, len(url), _PIECE_CHARS):
        yield url[at : at + _PIECE_CHARS].encode("ascii", "replace")


def _fetched(url: str, until: float) -> Content:
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
    except OutboundError:
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


def _content(reply: Reply) -> Content:
    if reply.status != 200:
        raise InvalidRequest(f"has a URL that answers {reply.status}")
    kind = reply.headers.get("content-type", "").partition(";")[0].strip().lower()
    body = reply.read_all()
    return Content(kind, "", [body], len(body), len(body))
