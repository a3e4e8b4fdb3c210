"""Input blocks as chat parts (inference reference 11)."""

import base64
from collections.abc import Callable, Iterable
from typing import Any, Final


def parts_of(blocks: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The chat parts of text, image, document, search result and tool reference blocks.

    A block's cache mark goes to the last of its parts.
    """
    parts: list[dict[str, Any]] = []
    for block in blocks:
        made = _MAKERS[block["type"]](block)
        parts += marked(made, block)
    return parts


def marked(parts: list[dict[str, Any]], block: dict[str, Any]) -> list[dict[str, Any]]:
    """The parts with the block's cache mark on the last one."""
    mark = block.get("cache_control")
    if mark is None or not parts:
        return parts
    return [*parts[:-1], {**parts[-1], "cache_control": mark}]


def content_of(parts: list[dict[str, Any]]) -> str | list[dict[str, Any]]:
    """The parts as chat content: a lone text without a mark is plain text, and so is nothing."""
    if not parts:
        return ""
    first = parts[0]
    if len(parts) == 1 and first["type"] == "text" and "cache_control" not in first:
        text: str = first["text"]
        return text
    return parts


def _text_part(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _text(block: dict[str, Any]) -> list[dict[str, Any]]:
    return [_text_part(block["text"])]


def _image(block: dict[str, Any]) -> list[dict[str, Any]]:
    source = block["source"]
    url = source["url"] if source["type"] == "url" else _data_url(source)
    return [{"type": "image_url", "image_url": {"url": url}}]


def _data_url(source: dict[str, Any]) -> str:
    return f"data:{source['media_type']};base64,{source['data']}"


def _document(block: dict[str, Any]) -> list[dict[str, Any]]:
    source = block["source"]
    context = [_text_part(block["context"])] if block.get("context") else []
    if source["type"] == "content" and type(source["content"]) is list:
        title = [_text_part(block["title"])] if block.get("title") else []
        return title + context + parts_of(source["content"])
    file = _file(source)
    if block.get("title"):
        file["filename"] = block["title"]
    return [*context, {"type": "file", "file": file}]


def _file(source: dict[str, Any]) -> dict[str, Any]:
    kind = source["type"]
    if kind == "file":
        return {"file_id": source["file_id"]}
    if kind == "url":
        return {"file_data": source["url"]}
    if kind == "base64":
        return {"file_data": _data_url(source)}
    text = source["data"] if kind == "text" else source["content"]
    encoded = base64.b64encode(text.encode()).decode()
    return {"file_data": f"data:text/plain;base64,{encoded}"}


def _search_result(block: dict[str, Any]) -> list[dict[str, Any]]:
    texts = [inner["text"] for inner in block["content"]]
    return [_text_part("\n".join([block["title"], block["source"], "", *texts]))]


def _tool_reference(block: dict[str, Any]) -> list[dict[str, Any]]:
    return [_text_part(block["tool_name"])]


_MAKERS: Final[dict[str, Callable[[dict[str, Any]], list[dict[str, Any]]]]] = {
    "text": _text,
    "image": _image,
    "document": _document,
    "search_result": _search_result,
    "tool_reference": _tool_reference,
}
PART_BLOCKS: Final = frozenset(_MAKERS)
