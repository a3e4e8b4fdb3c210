"""Reasoning that a caller replays: `reasoning_details` as thinking blocks.

A stream tells a block in pieces, and callers replay the pieces as they came: pieces of one block
follow each other with the same `index`, and its signature ends it.
"""

from collections.abc import Iterable
from typing import Any, Final

from routing.upstreams.anthropic.media import Block

# The model checks its own seals, so what another kind of model reasoned is left out.
_FORMATS: Final = ("anthropic-claude-v1", "unknown", None)


def reasoning_blocks(details: Iterable[dict[str, Any]]) -> list[Block]:
    """The blocks that the API takes back: signed texts and encrypted ones, in order."""
    blocks: list[Block] = []
    texts: list[str] = []
    index: Any = None
    for item in details:
        if item.get("format") not in _FORMATS:
            continue
        kind = item.get("type")
        if kind == "reasoning.encrypted":
            blocks.append({"type": "redacted_thinking", "data": item["data"]})
            texts = []
        elif kind == "reasoning.text":
            if item.get("index") != index:
                texts, index = [], item.get("index")
            texts.append(item.get("text") or "")
            if signature := item.get("signature"):
                thinking = "".join(texts)
                blocks.append({"type": "thinking", "thinking": thinking, "signature": signature})
                texts = []
    return blocks
