"""Output blocks of the messages API in the chat format's terms, one piece at a time.

Whole answers and streams are both made of these pieces, so that they say the same.
"""

from typing import Any, Final

from gateway.http.jsonio import dumps
from routing.upstreams.openai import word

REASONING_FORMAT: Final = "anthropic-claude-v1"


def detail(kind: str, index: int, **fields: str) -> dict[str, Any]:
    """A `reasoning_details` item; the pieces of one block share `index`, the block's place among
    the reasoning blocks of its answer."""
    return {"type": kind, **fields, "index": index, "format": REASONING_FORMAT, "id": None}


def arguments_of(given: Any) -> str:
    """A tool's input as compact JSON text; some providers give it as text already."""
    text = given if given is None or isinstance(given, str) else dumps(given).decode()
    return text or "{}"


def called(block: dict[str, Any], arguments: str) -> dict[str, Any]:
    """The chat call of a `tool_use` block."""
    function = {"name": word(block.get("name")) or "", "arguments": arguments}
    return {"id": word(block.get("id")) or None, "type": "function", "function": function}


def annotation(citation: Any, start: int, end: int) -> dict[str, Any] | None:
    """The `url_citation` of a citation that names a URL, for the characters from `start` to `end`
    of the content. The other kinds point into documents, which chat annotations cannot."""
    if not isinstance(citation, dict):
        return None
    url = word(citation.get("url")) or _web_url(citation.get("source"))
    if not url:
        return None
    cited = {"url": url, "title": word(citation.get("title")) or ""}
    if content := word(citation.get("cited_text")):
        cited["content"] = content
    return {
        "type": "url_citation",
        "url_citation": {**cited, "start_index": start, "end_index": end},
    }


def _web_url(source: Any) -> str | None:
    named = word(source)
    return named if named and named.startswith(("https://", "http://")) else None


def refusal_of(stop_reason: Any, details: Any) -> str | None:
    """Why the model refused, where it said so."""
    if stop_reason != "refusal" or not isinstance(details, dict):
        return None
    return word(details.get("explanation")) or None
