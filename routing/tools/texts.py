"""Texts for models: results as JSON, failures, cuts; and texts that models write: arguments, and
answers that cite the pages that tools found."""

import re
from collections.abc import Iterable
from typing import Final

import pydantic_core

from gateway.http.jsonio import JsonObject, dumps

_SHOWN_CHARS: Final = 500
# What goes on with a URL rather than ending it.
_GOES_ON: Final = r"(?![\w/?#=&%~+-])"


def json_text(value: object) -> str:
    return dumps(value).decode()


def failure_text(problem: str) -> str:
    """The text of a failed call for the model."""
    return json_text({"error": problem[:_SHOWN_CHARS]})


def cut_text(text: str, chars_max: int) -> str:
    """The text, or its beginning with a note that it was cut."""
    if len(text) <= chars_max:
        return text
    return f"{text[:chars_max]}\n[cut: the first {chars_max} of {len(text)} characters]"


def parse_arguments(text: str) -> JsonObject | None:
    """The arguments of a call; None where they are no JSON object. Many models give an empty text
    to a function without parameters."""
    if not text.strip():
        return {}
    try:
        value = pydantic_core.from_json(text, allow_inf_nan=False)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def place_citations(found: Iterable[JsonObject], text: str, *, before: int = 0) -> list[JsonObject]:
    """Of the `url_citation` annotations, each page once. It returns those whose URL the text names,
    in its order and with their places, counted from `before`. Where it names none, it returns all,
    without places."""
    pages = {each["url_citation"]["url"]: each for each in found}
    placed = [
        (place, each) for url, each in pages.items() if (place := _find_url(url, text)) is not None
    ]
    if not placed:
        return list(pages.values())
    cited = []
    for (start, end), each in sorted(placed, key=lambda pair: pair[0]):
        indexes = {"start_index": start + before, "end_index": end + before}
        cited.append({**each, "url_citation": {**each["url_citation"], **indexes}})
    return cited


def _find_url(url: str, text: str) -> tuple[int, int] | None:
    """Of the Markdown link that leads there, else of the URL itself."""
    bare = url.rstrip("/")
    if bare not in text:
        return None
    named = re.escape(bare) + "/?" + _GOES_ON
    match = re.search(rf"\[[^\[\]\n]{{0,200}}\]\(<?{named}[^()\n]{{0,200}}\)", text)
    match = match or re.search(named, text)
    return match.span() if match else None
