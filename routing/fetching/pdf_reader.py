"""Reads one file as text, in a process of its own: `python -I pdf_reader.py LIMITS`.

Two frames come on standard input: what the file is, and its content, encoded or not. Two go out:
what is known of it or why it cannot be read, and its text in UTF-8. A file that takes too much of
anything ends the process.
"""

import base64
import binascii
import contextlib
import hashlib
import io
import json
import os
import resource
import signal
import struct
import sys
import urllib.parse
from typing import Any

LENGTH = struct.Struct(">I")
NICE = 10
MAGIC = b"%PDF-"
# Readers look for it as far as this.
MAGIC_WITHIN = 1024


class Unreadable(Exception):
    """Its text is for whoever sent the file."""


def main() -> None:
    limits = json.loads(sys.argv[1])
    bind_resources(limits)
    facts = json.loads(receive_frame())
    try:
        result = read(receive_frame(), facts, limits)
    except Unreadable as error:
        result = {"error": str(error)}
    except (MemoryError, RecursionError):
        result = {"error": "it takes too much memory"}
    # The text follows apart from the rest. As JSON it would be several times as long, and its
    # reader would have to take it in one go.
    text: str | None = result.pop("text", None)
    write_frame(json.dumps(result | {"has_text": text is not None}).encode())
    write_frame((text or "").encode("utf-8", "replace"))


def read(data: bytes, facts: dict[str, Any], limits: dict[str, Any]) -> dict[str, Any]:
    """`text`, `pages` where there are any, `cut`, and the `hash` of the content. Of a file that is
    neither a PDF nor text the hash alone."""
    content = decode_content(data, facts["encoding"])
    result: dict[str, Any] = {"hash": hashlib.sha256(content).hexdigest()}
    if MAGIC in content[:MAGIC_WITHIN]:
        result |= read_pdf(content, limits)
    elif facts["is_pdf"]:
        raise Unreadable("it is no PDF")
    elif facts["is_text"]:
        result["text"] = content.decode("utf-8", "replace")
    if "text" in result:
        result["cut"] = result.get("cut", False) or len(result["text"]) > limits["chars"]
        result["text"] = result["text"][: limits["chars"]].replace("\0", "\ufffd")
    return result


def decode_content(data: bytes, encoding: str) -> bytes:
    if encoding == "percent":
        return urllib.parse.unquote_to_bytes(data)
    if encoding != "base64":
        return data
    try:
        return base64.b64decode(data)
    except (binascii.Error, ValueError):
        raise Unreadable("its data is no base64") from None


def read_pdf(content: bytes, limits: dict[str, Any]) -> dict[str, Any]:
    # What pypdf thinks of a file is nobody's business.
    from pypdf import PdfReader
    from pypdf.errors import PdfReadError

    try:
        with contextlib.redirect_stdout(None):
            reader = PdfReader(io.BytesIO(content))
            if reader.is_encrypted and not reader.decrypt(""):
                raise Unreadable("it is encrypted")
            return extract_pages(reader, limits)
    except Unreadable:
        raise
    except (MemoryError, RecursionError):
        raise
    except PdfReadError as error:
        raise Unreadable(f"it is no PDF that can be read: {error}"[:200]) from None
    except Exception:  # noqa: BLE001 - A broken file raises anything.
        raise Unreadable("it is no PDF that can be read") from None


def extract_pages(reader: Any, limits: dict[str, Any]) -> dict[str, Any]:
    texts: list[str] = []
    count, size = len(reader.pages), 0
    for number, page in enumerate(reader.pages, start=1):
        if number > limits["pages"] or size > limits["chars"]:
            break
        text = page.extract_text() or ""
        size += len(text)
        texts.append(text)
    return {
        "text": "\n\n".join(each.strip() for each in texts).strip(),
        "pages": count,
        "cut": len(texts) < count,
    }


def bind_resources(limits: dict[str, Any]) -> None:
    """The process ends by itself, whatever becomes of whoever waits for it."""
    os.nice(NICE)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, limits["seconds"] + 1)
    wanted = [(resource.RLIMIT_CORE, 0), (resource.RLIMIT_FSIZE, 0)]
    if sys.platform == "linux":
        wanted.append((resource.RLIMIT_DATA, limits["memory_bytes"]))
    for kind, most in wanted:
        hard = resource.getrlimit(kind)[1]
        bound = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (bound, bound))


def receive_frame() -> bytes:
    return receive_exactly(LENGTH.unpack(receive_exactly(LENGTH.size))[0])


def receive_exactly(length: int) -> bytes:
    data = bytearray()
    while len(data) < length:
        piece = os.read(0, min(1 << 20, length - len(data)))
        if not piece:
            sys.exit()
        data += piece
    return bytes(data)


def write_frame(data: bytes) -> None:
    for each in (LENGTH.pack(len(data)), data):
        rest = memoryview(each)
        while rest:
            rest = rest[os.write(1, rest) :]


if __name__ == "__main__":
    main()
