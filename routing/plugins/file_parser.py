"""`file-parser`: the text of PDFs and text files, for models that read no files."""

import time
from collections.abc import Iterator
from typing import Final

from gateway.http.errors import GatewayError, InvalidRequest, PayloadTooLarge, Unavailable
from gateway.http.jsonio import JsonObject
from gateway.live_settings import settings
from gateway.outbound.doors import door_for
from gateway.outbound.errors import BodyTooLarge, NotAllowed, OutboundError
from gateway.outbound.http_client import Limits
from gateway.outbound.targets import URL_CHARS_MAX, Target, TargetRefused, split_url, target_of
from routing.fetching.files import (
    NO_TEXT,
    TOO_SLOW,
    Content,
    FileText,
    FileUnreadable,
    ReadersBusy,
    read_file,
)
from routing.fetching.following import Ready, TooManyRedirects, follow
from routing.formats.chat.request import ChatRequest, list_provider_tools
from routing.plugins.interface import Plugin, PluginContext, with_messages

ID: Final = "file-parser"
FILES_MAX: Final = 20
# Of all files that a request shows, each as often as it is shown.
TEXT_CHARS_MAX: Final = 4_000_000
NATIVE: Final = "native"
# Both spellings of reading the text that is there; recognising what is only a picture needs more
# than there is here.
_TEXT: Final = frozenset({"cloudflare-ai", "pdf-text"})
_NAME_CHARS_MAX: Final = 200


class FileParser(Plugin):
    """Where the caller names no engine, files go as they are to models that read files."""

    def __init__(self, settings: JsonObject) -> None:
        super().__init__(settings)
        self._engine: str | None = (settings.get("pdf") or {}).get("engine")
        self._read: dict[int | str, tuple[str, FileText]] = {}
        self._chars_left = TEXT_CHARS_MAX
        self._until: float | None = None
        self._annotations: list[JsonObject] = []

    def change_request(self, chat: ChatRequest, context: PluginContext) -> ChatRequest:
        """Raises `GatewayError` for a file that cannot be read."""
        if self._engine not in (None, NATIVE) and self._engine not in _TEXT:
            raise InvalidRequest(f"server tool not available: {ID} ({self._engine})")
        is_native = self._engine == NATIVE
        if self._engine is None:
            endpoints = (each for model in context.models for each in model.endpoints)
            is_native = any("file" in each.input_modalities for each in endpoints)
        if "file" not in chat.input_modalities or is_native:
            return chat
        messages = []
        for place, message in enumerate(chat.body["messages"]):
            content = message.get("content")
            if isinstance(content, list):
                path = f"messages.{place}.content"
                parts = [
                    self._replace_part(part, f"{path}.{number}", context)
                    for number, part in enumerate(content)
                ]
                if any(new is not old for new, old in zip(parts, content, strict=True)):
                    message = {**message, "content": parts}
            messages.append(message)
        if not self._annotations:
            return chat
        # A request that was changed is translated, and there are tools that would get lost.
        if lost := list(dict.fromkeys(list_provider_tools(chat))):
            raise InvalidRequest(f"server tool not available: {', '.join(lost)} beside {ID}")
        read = [found for _, found in self._read.values() if found.text is not None]
        data = {
            "engine": self._engine or "pdf-text",
            "files": len(read),
            "pages": sum(found.pages or 0 for found in read),
        }
        summary = f"{len(read)} files read"
        self.stages.append({"type": "plugin", "name": ID, "summary": summary, "data": data})
        return with_messages(chat, messages)

    def annotations(self) -> list[JsonObject]:
        return self._annotations

    def _replace_part(self, part: JsonObject, path: str, context: PluginContext) -> JsonObject:
        """The text of a file; what has none stays as it is."""
        file = part.get("file") if part["type"] == "file" else None
        if file is None or not file.get("file_data"):
            return part
        found = self._read_once(file["file_data"], path, context)
        if found.text is None:
            return part
        if len(found.text) > self._chars_left:
            raise _too_much_text(path)
        self._chars_left -= len(found.text)
        name = str(file.get("filename") or "")[:_NAME_CHARS_MAX]
        quoted = name.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
        opening = f'<file name="{quoted}">' if name else "<file>"
        more = "\n[There is more of this file than is shown here.]" if found.is_cut else ""
        block = {"type": "text", "text": f"{opening}\n{found.text or NO_TEXT}{more}\n</file>"}
        if all(each["file"]["hash"] != found.hash for each in self._annotations):
            cited: JsonObject = {"hash": found.hash} | ({"name": name} if name else {})
            self._annotations.append({"type": "file", "file": {**cited, "content": [block]}})
        return block | ({"cache_control": part["cache_control"]} if "cache_control" in part else {})

    def _read_once(self, where: str, path: str, context: PluginContext) -> FileText:
        """Read once, however often it is sent: the same text object or the same URL."""
        # Hashing a long one would hold everybody up.
        key = where if len(where) <= URL_CHARS_MAX else id(where)
        if key in self._read:
            return self._read[key][1]
        if len(self._read) == FILES_MAX:
            raise InvalidRequest(f"{path}: more than {FILES_MAX} files to be read")
        if not self._chars_left:
            raise _too_much_text(path)
        if self._until is None:
            # Nobody works for who would be refused anyway.
            context.refuse()
            self._until = min(context.deadline, time.monotonic() + settings.ROUTER_FILE_SECONDS)
        try:
            found = read_text(where, self._until, chars_max=self._chars_left)
        except GatewayError as error:
            raise type(error)(f"{path}: The file {error.text}") from None
        self._read[key] = where, found
        return found


def _too_much_text(path: str) -> PayloadTooLarge:
    return PayloadTooLarge(
        f"{path}: The files of a request have more than {TEXT_CHARS_MAX} characters in all"
    )


_HOPS_MAX: Final = 5
_CONNECT_S: Final = 10.0
_PIECE_CHARS: Final = 1 << 20
_HEADERS: Final = [
    ("Accept", "application/pdf, text/*;q=0.9, */*;q=0.5"),
    ("Accept-Encoding", "gzip, deflate"),
]


def read_text(where: str, until: float, *, chars_max: int) -> FileText:
    """The text of a file at an http(s) or in a data URL, or as much of its beginning; `until` is
    monotonic. Raises `GatewayError`, whose text says what is wrong with the file."""
    if time.monotonic() >= until:
        raise InvalidRequest(TOO_SLOW)
    content = _read_data_url(where) if where[:5].lower() == "data:" else _fetch(where, until)
    if content.size > settings.ROUTER_FILE_BYTES:
        raise PayloadTooLarge(f"is larger than {settings.ROUTER_FILE_BYTES} bytes")
    try:
        return read_file(content, until, chars_max=chars_max)
    except ReadersBusy as error:
        raise Unavailable(str(error)) from None
    except FileUnreadable as error:
        raise InvalidRequest(str(error)) from None


# --- Where a file comes from ----------------------------------------------------------------------


def _read_data_url(url: str) -> Content:
    # Without a copy of all that is behind the comma.
    comma = url.find(",", 5, _PIECE_CHARS)
    if comma < 0:
        raise InvalidRequest("is no data URL")
    head = url[5:comma]
    kind, *options = (word.strip().lower() for word in head.split(";"))
    start = len("data:") + len(head) + 1
    size = len(url) - start
    if "base64" in options:
        return Content(kind, "base64", _encode_pieces(url, start), size, size * 3 // 4)
    return Content(kind, "percent", _encode_pieces(url, start), size, size)


def _encode_pieces(url: str, start: int) -> Iterator[bytes]:
    for at in range(start, len(url), _PIECE_CHARS):
        yield url[at : at + _PIECE_CHARS].encode("ascii", "replace")


def _fetch(url: str, until: float) -> Content:
    """Through the guarded door: what a caller names is never of our own network."""
    left_s = max(0.1, until - time.monotonic())
    limits = Limits(
        connect_s=min(_CONNECT_S, left_s),
        first_byte_s=left_s,
        idle_s=left_s,
        body_bytes_max=settings.ROUTER_FILE_BYTES,
    )
    try:
        followed = follow(
            target_of(*split_url(url)),
            method="GET",
            prepare=_prepare,
            door_of=lambda host: door_for(host, private=settings.ROUTER_FETCH_PRIVATE_HOSTS),
            limits=limits,
            deadline=until,
            hops_max=_HOPS_MAX,
        )
        with followed.reply as reply:
            if reply.status != 200:
                raise InvalidRequest(f"has a URL that answers {reply.status}")
            kind = reply.headers.get("content-type", "").partition(";")[0].strip().lower()
            body = reply.read_all()
            return Content(kind, "", [body], len(body), len(body))
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
