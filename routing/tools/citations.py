"""Where an answer cites the pages that its tools found."""

import re
from collections.abc import Iterable
from typing import Final

from gateway.http.jsonio import JsonObject

# What goes on with a URL rather than ending it.
_GOES_ON: Final = r"(?![\w/?#=&%~+-])"


def place_citations(found: Iterable[JsonObject], text: str, *, before: int = 0) -> list[JsonObject]:
    """Of the `url_citation` annotations, each page once: those whose URL the text names, in its
    order and with their places, counted from `before`; all of them, with none, where it names no
    one's."""
    pages = {each["url_citation"]["url"]: each for each in found}
    placed = [
        (place, each) for url, each in pages.items() if (place := _place(url, text)) is not None
    ]
    if not placed:
        return list(pages.values())
    placed.sort(key=lambda pair: pair[0])
    return [_at(each, start + before, end + before) for (start, end), each in placed]


def _place(url: str, text: str) -> tuple[int, int] | None:
    """Of the Markdown link that leads there, else of the URL itself."""
    bare = url.rstrip("/")
    if bare not in text:
        return None
    named = re.escape(bare) + "/?" + _GOES_ON
    match = re.search(rf"\[[^\[\]\n]{{0,200}}\]\(<?{named}[^()\n]{{0,200}}\)", text)
    match = match or re.search(named, text)
    return match.span() if match else None


def _at(annotation: JsonObject, start: int, end: int) -> JsonObject:
    place = {"start_index": start, "end_index": end}
    return {**annotation, "url_citation": {**annotation["url_citation"], **place}}
