"""Prompt caching by marks: every mark ends a beginning that can be read again."""

from collections.abc import Iterator
from typing import Any

from routing.simulator.encoding import dumps
from routing.simulator.formats.messages.reading import listed, parts
from routing.simulator.prompt import IMAGE_TOKENS, text_of, tokens_of

MARK = "cache_control"


def blocks(body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Everything that can bear a mark, in the order of the prompt, contents of results included."""
    yield from listed(body, "tools")
    yield from listed(body, "system")
    for message in listed(body, "messages"):
        for block in listed(message, "content"):
            if block.get("type") == "tool_result":
                yield from listed(block, "content")
            yield block


def prefixes(body: dict[str, Any]) -> list[tuple[str, int]]:
    """The marked beginnings as (text, tokens), shortest first; a mark at the top marks all."""
    said, characters, images = "", 0, 0
    found: list[tuple[str, int]] = []
    for block in blocks(body):
        said += dumps({name: value for name, value in block.items() if name != MARK})
        content = list(parts([block]))
        characters += len(text_of(content))
        images += sum(1 for part in content if part["type"] == "image_url")
        if block.get(MARK):
            found.append((said, tokens_of(characters) + images * IMAGE_TOKENS))
    if body.get(MARK):
        found.append((said, tokens_of(characters) + images * IMAGE_TOKENS))
    return found
