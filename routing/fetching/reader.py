"""The process that turns web pages into text: one page after the other, over one socket.

Pages are anybody's, so what takes them apart stands alone. It knows no secret, is bounded in memory
and time, and is killed where it does not end. Nothing of the project is imported here.

It reads four bytes of length, a JSON object, four bytes of length, and the page. The object has
`charset` (null where nobody said), `url`, `seconds` of processor time, and `chars` of text that are
wanted. Told: the title and the text in UTF-8, four bytes of length before each. A text that is too
long is one character longer than is wanted.
"""

import contextlib
import json
import math
import re
import resource
import socket
import struct
import sys
from typing import Final

MEMORY_BYTES: Final = 1_536 * 1_048_576
# Larger ones are not looked at for what of them is the article.
ARTICLE_BYTES_MAX: Final = 1_048_576
# A page that has less than this beside its frame is mostly frame, so all of its text is returned.
ARTICLE_CHARS_MIN: Final = 200
TITLE_CHARS_MAX: Final = 300
_LENGTH: Final = struct.Struct("!I")
_EMPTY_LINES: Final = re.compile(r"\n\s*\n\s*\n+")


def main() -> None:
    """Answer on the socket, whose number is the argument, until the other side closes it."""
    number = int(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with socket.socket(fileno=number) as line:
        # The socket may have come in non-blocking mode.
        line.setblocking(True)
        while (head := _receive(line)) is not None and (page := _receive(line)) is not None:
            request = json.loads(head)
            # The asking process may be gone by now, and so cannot kill what hangs.
            used = resource.getrusage(resource.RUSAGE_SELF)
            limit = math.ceil(used.ru_utime + used.ru_stime + request["seconds"])
            resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))
            answer = read(page, request["charset"], request["url"])
            for each in (answer["title"], answer["text"][: request["chars"] + 1]):
                data = each.encode("utf-8", "replace")
                line.sendall(_LENGTH.pack(len(data)) + data)


def read(page: bytes, charset: str | None, url: str) -> dict[str, str]:
    """Title and text of an HTML page, as Markdown where it has an article."""
    from lxml.etree import LxmlError  # type: ignore[import-untyped]  # It ships no types.
    from trafilatura import extract, html2txt, load_html

    source: bytes | str = page
    if charset is not None:
        # Else the page itself says its charset, or it is guessed.
        with contextlib.suppress(LookupError, ValueError):
            source = page.decode(charset, "replace")
    tree = load_html(source)
    if tree is None:
        return {"title": "", "text": ""}
    title = " ".join(str(tree.findtext(".//title") or "").split())[:TITLE_CHARS_MAX]
    text = ""
    if len(page) <= ARTICLE_BYTES_MAX:
        with contextlib.suppress(LxmlError, ValueError, RecursionError):
            article = extract(
                tree,
                url=url,
                fast=True,
                include_links=True,
                include_comments=False,
                output_format="markdown",
            )
            text = article or ""
    if len(text) < ARTICLE_CHARS_MIN:
        whole = html2txt(tree) or " ".join(" ".join(tree.itertext()).split())
        text = max(text, whole, key=len)
    return {"title": title, "text": _EMPTY_LINES.sub("\n\n", text).strip()}


def _receive(line: socket.socket) -> bytes | None:
    head = _receive_exactly(line, _LENGTH.size)
    return None if head is None else _receive_exactly(line, _LENGTH.unpack(head)[0])


def _receive_exactly(line: socket.socket, size: int) -> bytes | None:
    parts, left = [], size
    while left:
        part = line.recv(min(left, 1_048_576))
        if not part:
            return None
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


if __name__ == "__main__":
    main()
