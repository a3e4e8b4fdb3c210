"""`router:web_fetch`: a page of the public Internet, as text."""

import time
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Final, NamedTuple

from gateway.http.jsonio import JsonObject
from gateway.live_settings import settings
from gateway.outbound.doors import door_for
from gateway.outbound.errors import (
    ConnectTimeout,
    DeadlineExceeded,
    FirstByteTimeout,
    IdleTimeout,
    NotAllowed,
    OutboundError,
)
from gateway.outbound.http_client import Limits, Reply
from gateway.outbound.targets import URL_CHARS_MAX, Target, TargetRefused, split_url, target_of
from routing.fetching.charsets import decode, find_charset
from routing.fetching.files import NO_TEXT, PDF, Content, FileUnreadable, read_file
from routing.fetching.following import Followed, Ready, TooManyRedirects, follow
from routing.fetching.pages import Unreadable, read_page
from routing.tools.interface import Definition, Result, ToolContext
from routing.tools.texts import json_text
from routing.tools.web.calls import Code, UseCounter, WebFailed, build_web_failure
from routing.tools.web.domains import Domains

HOPS_MAX: Final = 5
_CONNECT_S: Final = 10.0
# Of the time that a call has: the rest is for reading what came.
_SHARE_OF_FETCHING: Final = 0.7
_SHARE_OF_READING: Final = 0.25
# More than anybody waits for: what is too much is cut here, not refused.
_ENDLESS_BYTES: Final = 2**50
_TOO_SLOW: Final = (ConnectTimeout, DeadlineExceeded, FirstByteTimeout, IdleTimeout)
_HEADERS: Final = [
    ("User-Agent", "Mozilla/5.0 (compatible; routing-gateway web_fetch)"),
    ("Accept", "text/html, application/xhtml+xml, text/plain;q=0.9, */*;q=0.5"),
]
_TEXTS: Final = frozenset(
    {
        *("application/json", "application/xml", "application/javascript", "application/yaml"),
        *("application/x-yaml", "application/x-ndjson", "application/rtf", "application/sql"),
    }
)
_HTML: Final = frozenset({"text/html", "application/xhtml+xml"})
# Types by which a server says that it does not know.
_UNKNOWN: Final = frozenset({"", "application/octet-stream", "binary/octet-stream"})
_PDF_MARK: Final = b"%PDF-"
_MARKUP: Final = (b"<!doctype html", b"<html")


class Document(NamedTuple):
    """A page as it was read; `url` is where it was in the end, `is_cut` whether it says more."""

    url: str
    status: int
    title: str
    text: str
    is_cut: bool = False


class _ReadText(NamedTuple):
    title: str
    text: str
    is_cut: bool = False


class _FetchedBody(NamedTuple):
    data: bytes
    charset: str | None
    url: str
    timeout_s: float


def fetch_document(url: str, domains: Domains, *, timeout_s: float) -> Document:
    """Raises `WebFailed`."""
    began = time.monotonic()
    followed, body = _fetch(url, domains, began + timeout_s * _SHARE_OF_FETCHING)
    status = followed.reply.status
    if status >= 400:
        code: Code = "too_many_requests" if status == 429 else "url_not_accessible"
        raise WebFailed(code, f"The site answered with status {status}", status=status)
    kind, charset = _kind(followed.reply.headers)
    if _is_pdf(kind, body) and len(body) > settings.ROUTER_FILE_BYTES:
        reason = f"The PDF is larger than {settings.ROUTER_FILE_BYTES} bytes"
        raise WebFailed("url_not_accessible", reason, status=status)
    read = _reader_of(kind, body)
    if read is None:
        reason = f"The page is no text but {kind or 'bytes'}"
        raise WebFailed("unsupported_content_type", reason, status=status)
    found = _FetchedBody(body, charset, followed.url, timeout_s * _SHARE_OF_READING)
    title, text, is_cut = read(found)
    title, text = title.replace("\0", ""), text.replace("\0", "")
    return Document(followed.url, status, title, text, is_cut)


def _fetch(url: str, domains: Domains, deadline: float) -> tuple[Followed, bytes]:
    def prepare(target: Target, *, method: str, hop: int) -> Ready:
        if not domains.permit(target.host, target.path):
            raise WebFailed("url_not_allowed", f"{target.host} is not among the allowed domains")
        return Ready(target.path, _HEADERS, b"")

    timeout_s = deadline - time.monotonic()
    limits = Limits(
        connect_s=min(_CONNECT_S, timeout_s),
        first_byte_s=timeout_s,
        idle_s=timeout_s,
        body_bytes_max=_ENDLESS_BYTES,
    )
    try:
        followed = follow(
            target_of(*split_url(url)),
            method="GET",
            prepare=prepare,
            door_of=lambda host: door_for(host, private=settings.ROUTER_FETCH_PRIVATE_HOSTS),
            limits=limits,
            deadline=deadline,
            hops_max=HOPS_MAX,
        )
        with followed.reply as reply:
            return followed, _read_body(reply)
    except TargetRefused as error:
        raise WebFailed("url_not_allowed", str(error)) from None
    except NotAllowed:
        raise WebFailed("url_not_allowed", "This host is not one of the public Internet") from None
    except TooManyRedirects:
        raise WebFailed("url_not_accessible", f"More than {HOPS_MAX} redirects") from None
    except _TOO_SLOW:
        raise WebFailed("url_not_accessible", "The site took too long") from None
    except OutboundError as error:
        raise WebFailed("url_not_accessible", f"The site failed: {error}") from None
    except ValueError as error:
        # What the door itself finds wrong with a request.
        raise WebFailed("invalid_tool_input", str(error)) from None


def _read_body(reply: Reply) -> bytes:
    """The body, or its beginning if it is too long. A PDF cannot be read in part: one byte more
    than the limit marks it as too large."""
    kind, _ = _kind(reply.headers)
    body, bytes_max = bytearray(), settings.ROUTER_FETCH_BYTES
    while len(body) < bytes_max and (piece := reply.read_some()):
        body += piece
        if _is_pdf(kind, body):
            bytes_max = settings.ROUTER_FILE_BYTES + 1
    return bytes(body[:bytes_max])


def _is_pdf(kind: str, body: bytes | bytearray) -> bool:
    return kind == PDF or (kind in _UNKNOWN and body.startswith(_PDF_MARK))


def _kind(headers: Mapping[str, str]) -> tuple[str, str | None]:
    """The media type in lower case, and the charset that the server names."""
    kind, *parameters = headers.get("content-type", "").split(";")
    for part in parameters:
        name, _, value = part.strip().partition("=")
        if name.strip().lower() == "charset":
            return kind.strip().lower(), find_charset(value.strip("\"' "))
    return kind.strip().lower(), None


def _reader_of(kind: str, body: bytes) -> Callable[[_FetchedBody], _ReadText] | None:
    """The reader of a body of this media type; None if there is none."""
    if _is_pdf(kind, body):
        return _pdf
    if kind in _HTML or (not kind and body[:200].lstrip().lower().startswith(_MARKUP)):
        return _page
    is_text = not kind or kind.startswith("text/") or kind.endswith(("+json", "+xml"))
    return _plain if (is_text or kind in _TEXTS) and b"\0" not in body else None


def _page(body: _FetchedBody) -> _ReadText:
    try:
        page = read_page(
            body.data,
            charset=body.charset,
            url=body.url,
            timeout_s=max(0.1, body.timeout_s),
            chars_max=settings.ROUTER_TOOL_RESULT_CHARS,
        )
    except Unreadable:
        raise WebFailed("unavailable", "The page could not be read") from None
    return _ReadText(page.title, page.text, page.is_cut)


def _pdf(body: _FetchedBody) -> _ReadText:
    until = time.monotonic() + min(body.timeout_s, float(settings.ROUTER_FILE_SECONDS))
    content = Content(PDF, "", [body.data], len(body.data), len(body.data))
    try:
        read = read_file(content, until, chars_max=settings.ROUTER_TOOL_RESULT_CHARS)
    except FileUnreadable as error:
        raise WebFailed("unavailable", f"The PDF {error}") from None
    return _ReadText("", read.text or NO_TEXT, read.is_cut)


def _plain(body: _FetchedBody) -> _ReadText:
    return _ReadText("", decode(body.data, body.charset or "utf_8"))


# As the estimator counts.
CHARS_PER_TOKEN: Final = 4
# Room for all that stands beside the content.
_BESIDE_CHARS: Final = 2_000
_BLOCK: Final = "web_fetch_tool_result"
_ENGINES: Final = frozenset({"auto", "router"})
_DEFINITION: Final = Definition(
    "web_fetch",
    "Reads a page of the web at its URL and returns its title and text. For pages, PDFs and text "
    "files.",
    {
        "type": "object",
        "properties": {
            "url": {"type": "string", "description": "The whole URL, with http:// or https://."}
        },
        "required": ["url"],
        "additionalProperties": False,
    },
)


class WebFetch:
    """Fetches through the guarded door, within the caller's domains."""

    time_s: float | None = None
    definition = _DEFINITION

    def __init__(self, parameters: JsonObject) -> None:
        self._uses = UseCounter(parameters.get("max_uses"))
        tokens = parameters.get("max_content_tokens")
        self._chars_max = None if tokens is None else int(tokens) * CHARS_PER_TOKEN
        self._domains = Domains(
            parameters.get("allowed_domains"), parameters.get("blocked_domains")
        )

    @staticmethod
    def is_available(parameters: JsonObject) -> bool:
        """Whether the wanted engine is the gateway's own."""
        return parameters.get("engine", "auto") in _ENGINES

    def run(self, arguments: JsonObject, context: ToolContext) -> Result:
        url = arguments.get("url")
        try:
            if not isinstance(url, str) or not url.strip():
                raise WebFailed("invalid_tool_input", "url must be a text")
            if len(url) > URL_CHARS_MAX:
                raise WebFailed("url_too_long", f"url is longer than {URL_CHARS_MAX} characters")
            if not self._uses.take():
                raise WebFailed(
                    "max_uses_exceeded", "No more pages may be fetched for this request"
                )
            left_s = context.deadline - time.monotonic()
            timeout_s = min(left_s, float(settings.ROUTER_TOOL_TIMEOUT))
            document = fetch_document(url.strip(), self._domains, timeout_s=timeout_s)
        except WebFailed as error:
            item = _item(url if isinstance(url, str) else None, status=error.status)
            return build_web_failure(error, _BLOCK, item | {"error": str(error)})
        return _build_result(document, self._chars_max, context.now())


def _build_result(document: Document, chars_max: int | None, now: datetime) -> Result:
    """The text is cut to the caller's maximum and to what a result may have once it is JSON."""
    limit = settings.ROUTER_TOOL_RESULT_CHARS
    room = max(limit - _BESIDE_CHARS, limit // 2)
    content = document.text[: room if chars_max is None else min(room, chars_max)]
    over = len(json_text(content)) - room
    if over > 0:
        # What is left out is at least as long in JSON.
        content = content[: max(0, len(content) - over)]
    is_cut = document.is_cut or len(content) < len(document.text)
    at = now.isoformat(timespec="seconds")
    fields = {"url": document.url, "title": document.title, "retrieved_at": at}
    text = json_text(fields | {"content": content} | ({"cut": True} if is_cut else {}))
    return Result(
        text,
        item=_item(document.url, document.title, content, document.status) | {"error": None},
        block_type=_BLOCK,
        block={
            "type": "web_fetch_result",
            "url": document.url,
            "retrieved_at": at,
            "content": {
                "type": "document",
                "source": {"type": "text", "media_type": "text/plain", "data": content},
                "title": document.title or None,
                "citations": None,
            },
        },
        fetches=1,
    )


def _item(
    url: str | None, title: str | None = None, content: str | None = None, status: int | None = None
) -> JsonObject:
    return {"url": url, "title": title or None, "content": content, "httpStatus": status}
