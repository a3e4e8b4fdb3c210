"""What a chat-shaped delta or message says, piece by piece, in the terms of messages."""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

DIRECT: Final = {"type": "direct"}


class Fragment(NamedTuple):
    """A piece of a tool call. `key` tells the calls of one stream apart; None: nobody said."""

    key: int | None
    id: str | None
    name: str
    arguments: str


def text_of(content: Any) -> str:
    """The text of chat content, which some upstreams send in parts."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else ()
    texts = [part.get("text") for part in parts if isinstance(part, dict)]
    return "".join(text for text in texts if isinstance(text, str))


def details_of(delta: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The reasoning items, beginning with plain `reasoning` that no item repeats."""
    given = delta.get("reasoning_details")
    listed = given if isinstance(given, list) else []
    details = [item for item in listed if isinstance(item, dict) and _text(item.get("type"))]
    plain = text_of(delta.get("reasoning"))
    if plain and not any(map(spoken, details)):
        yield {"type": "reasoning.text", "text": plain, "format": None}
    yield from details


def spoken(detail: dict[str, Any]) -> str:
    """What a reader of the item sees; empty for signatures and for what is encrypted."""
    text = detail.get("text") or detail.get("summary")
    return text if isinstance(text, str) else ""


def fragments_of(calls: Any) -> Iterator[Fragment]:
    """The `tool_calls` of one delta, whatever the upstream put there."""
    for call in calls if isinstance(calls, list) else ():
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict):
            index = call.get("index")
            yield Fragment(
                index if type(index) is int else None,
                _text(call.get("id")) or None,
                _text(function.get("name")),
                _text(function.get("arguments")),
            )


def is_plain_text(arguments: str) -> bool:
    """Whether arguments are the text for a custom tool: they do not even begin an object."""
    begun = arguments.lstrip()
    return bool(begun) and begun[0] != "{" and begun != "null"


def citations_of(annotations: Any) -> Iterator[dict[str, Any]]:
    """The citations of web pages; other annotations have no place in messages."""
    for annotation in annotations if isinstance(annotations, list) else ():
        cited = annotation.get("url_citation") if isinstance(annotation, dict) else None
        if isinstance(cited, dict) and isinstance(cited.get("url"), str):
            yield {
                "type": "web_search_result_location",
                "cited_text": _text(cited.get("content")),
                "url": cited["url"],
                "title": _text(cited.get("title")),
                "encrypted_index": "",
            }


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
