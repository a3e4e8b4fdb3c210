"""Content of chat messages as content blocks. Blocks are new objects; the body stays as it was."""

from typing import Any, Final

from routing.upstreams.anthropic.call_ids import NOT_OF_AN_ID, CallIds
from routing.upstreams.anthropic.exact import exact_json
from routing.upstreams.anthropic.media import Block, document_block, image_block
from routing.upstreams.anthropic.replayed import reasoning_blocks

_NAME_CHARS_MAX: Final = 128

Content = str | list[dict[str, Any]] | None


def text_blocks(content: Content, name: str | None = None) -> list[Block]:
    """The texts of a message that may hold nothing else."""
    blocks = content_blocks(content, name)
    if isinstance(content, str):
        return blocks
    return [block for block in blocks if block["type"] == "text"]


def content_blocks(content: Content, name: str | None = None) -> list[Block]:
    """The blocks of a content, without the blank texts that the API refuses. There is no place for
    a speaker's name, so the content begins with it."""
    if isinstance(content, str):
        text = f"{name}: {content}" if name else content
        return [{"type": "text", "text": text}] if text.strip() else []
    parts = content or []
    if name:
        parts = _named(parts, name)
    return [block for part in parts if (block := _block(part)) is not None]


def _named(parts: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    if parts and parts[0]["type"] == "text":
        return [{**parts[0], "text": f"{name}: {parts[0]['text']}"}, *parts[1:]]
    return [{"type": "text", "text": f"{name}: "}, *parts]


def _block(part: dict[str, Any]) -> Block | None:
    """None for a blank text, and for audio and video, which no endpoint of this wire takes."""
    kind = part["type"]
    if kind == "text":
        if not part["text"].strip():
            return None
        block: Block = {"type": "text", "text": part["text"]}
    elif kind == "image_url":
        block = image_block(part["image_url"]["url"])
    elif kind == "file":
        block = document_block(part["file"])
    else:
        return None
    if mark := cache_mark(part):
        block["cache_control"] = mark
    return block


def cache_mark(part: dict[str, Any]) -> dict[str, Any] | None:
    """The breakpoint that a part, tool or tool message asks for, in either spelling; the format of
    the last says nothing of one, so it may hold anything."""
    mark = part.get("cache_control")
    if isinstance(mark, dict):
        return dict(mark)
    return {"type": "ephemeral"} if part.get("prompt_cache_breakpoint") is not None else None


def tool_result(message: dict[str, Any], ids: CallIds) -> Block:
    """A tool message; a mark inside its content stands on the result, where the API takes it."""
    call_id = ids.of_result(message["tool_call_id"])
    block: Block = {"type": "tool_result", "tool_use_id": call_id}
    content, mark = message["content"], cache_mark(message)
    if isinstance(content, str):
        if content.strip():
            block["content"] = content
    elif blocks := content_blocks(content):
        inside = [found for inner in blocks if (found := inner.pop("cache_control", None))]
        block["content"] = blocks
        mark = mark or (inside[-1] if inside else None)
    if message.get("is_error"):
        block["is_error"] = True
    if mark:
        block["cache_control"] = mark
    return block


def assistant_blocks(message: dict[str, Any], ids: CallIds) -> list[Block]:
    """An earlier answer: reasoning that may be replayed, then text, then calls."""
    blocks = text_blocks(message.get("content"), message.get("name"))
    if details := message.get("reasoning_details"):
        blocks = reasoning_blocks(details) + blocks
    if refusal := message.get("refusal"):
        blocks += text_blocks(refusal)
    if calls := message.get("tool_calls"):
        blocks += [_tool_use(call, ids) for call in calls]
    return blocks


def _tool_use(call: dict[str, Any], ids: CallIds) -> Block:
    function = call["function"]
    name = NOT_OF_AN_ID.sub("_", function["name"])[:_NAME_CHARS_MAX]
    return {
        "type": "tool_use",
        "id": ids.of_call(call["id"]),
        "name": name or "_",
        "input": _input(function["arguments"]),
    }


def _input(arguments: str) -> dict[str, Any]:
    """The API takes an object; arguments that are none are lost."""
    try:
        value = exact_json(arguments.encode())
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
