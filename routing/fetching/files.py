"""PDFs and text files as text, each read in a process of its own."""

import json
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

import pydantic_core

from gateway.http.jsonio import JsonObject, dumps
from gateway.live_settings import settings
from gateway.sandbox import host_users
from gateway.sandbox.subprocess_worker import SubprocessWorker, WorkerEnded, WorkerTimeout
from routing.fetching.charsets import decode

PDF: Final = "application/pdf"
AT_ONCE: Final = 2
# For whoever reads a file in which there is nothing to be read.
NO_TEXT: Final = "[No text can be read in this file; it may hold pictures of pages alone.]"
TOO_SLOW: Final = "takes too long to be read"
_MEMORY_BYTES: Final = 1_073_741_824
_FACTS_BYTES_MAX: Final = 65_536
_CHAR_BYTES_MAX: Final = 4
_GRACE_S: Final = 0.5
# What it loads late.
_PACKAGES: Final = ("pypdf",)
_READER: Final = str(Path(__file__).with_name("pdf_reader.py").resolve())
_TEXTS: Final = frozenset(
    {
        "application/json",
        "application/xml",
        "application/x-yaml",
        "application/yaml",
        "application/javascript",
    }
)
_free = threading.BoundedSemaphore(AT_ONCE)


class FileUnreadable(Exception):
    """Its text says what is wrong with the file, as what a file does: "cannot be read"."""


class ReadersBusy(FileUnreadable):
    """Nothing is wrong with the file; it may be read later."""


class FileText(NamedTuple):
    """What a file says: None where it is neither a PDF nor text. `hash` is the SHA-256 of its
    content, `pages` None where it has none, `is_cut` whether there is more of it."""

    text: str | None
    hash: str
    pages: int | None = None
    is_cut: bool = False


class Content(NamedTuple):
    """A file as it came: its media type, and its bytes, perhaps encoded (`base64`, `percent`), in
    pieces that are `sent` bytes in all. At most `size` bytes are in it."""

    kind: str
    encoding: str
    pieces: Iterable[bytes]
    sent: int
    size: int


def read_file(content: Content, until: float, *, chars_max: int) -> FileText:
    """The text of a file, or as much of its beginning; `until` is monotonic. Raises
    `FileUnreadable`."""
    if not _free.acquire(timeout=max(0.0, until - time.monotonic())):
        raise ReadersBusy("could not be read in time: others are being read")
    try:
        return _read(content, until, chars_max)
    finally:
        _free.release()


def _read(content: Content, until: float, chars_max: int) -> FileText:
    left_s = until - time.monotonic()
    if left_s <= 0:
        raise FileUnreadable(TOO_SLOW)
    limits = {
        "seconds": left_s,
        "memory_bytes": _MEMORY_BYTES,
        "pages": settings.ROUTER_FILE_PAGES,
        "chars": chars_max,
    }
    facts = {
        "encoding": content.encoding,
        "is_pdf": content.kind == PDF,
        "is_text": content.kind.startswith("text/")
        or content.kind in _TEXTS
        or content.kind.endswith(("+json", "+xml")),
    }
    try:
        user = host_users.lease()
        command = host_users.script_command([_READER, json.dumps(limits)], _PACKAGES, user)
        reader = SubprocessWorker(command, {"LANG": "C.UTF-8"}, user)
    except OSError:
        raise ReadersBusy("cannot be read at the moment") from None
    try:
        reader.send(dumps(facts), until)
        reader.send_pieces(content.pieces, content.sent, until)
        packed = reader.receive(_FACTS_BYTES_MAX, until + _GRACE_S)
        result: JsonObject = pydantic_core.from_json(packed)
        text = reader.receive(chars_max * _CHAR_BYTES_MAX, until + _GRACE_S)
    except WorkerTimeout:
        raise FileUnreadable(TOO_SLOW) from None
    except (WorkerEnded, ValueError):
        raise FileUnreadable("cannot be read") from None
    finally:
        reader.close()
    if "error" in result:
        raise FileUnreadable(f"cannot be read: {result['error']}")
    text_found = decode(text) if result["has_text"] else None
    return FileText(text_found, result["hash"], result.get("pages"), result.get("cut", False))
