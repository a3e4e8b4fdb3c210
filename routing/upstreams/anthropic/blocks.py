"""Content of chat messages as content blocks. Blocks are new objects; the body stays as it was."""

import base64
import binascii
import re
import zlib
from collections.abc import Iterable
from typing import Any, Final, NamedTuple
from urllib.parse import unquote_to_bytes

from gateway.http.jsonio import JsonObject
from routing.upstreams.base import parse_exactly

# --- Ids of calls ---------------------------------------------------------------------------------

_VALID_ID: Final = re.compile(r"[A-Za-z0-9_-]+")
INVALID_ID_CHAR: Final = re.compile(r"[^A-Za-z0-9_-]")


class CallIds:
    """The ids of one conversation's tool calls, asked for in its order.

    The API takes few characters, and each id once in a conversation. Other providers write more
    characters, and some begin to count anew with every answer.
    """

    def __init__(self) -> None:
        self._used: set[str] = set()
        self._times: dict[str, int] = {}
        self._latest: dict[str, str] = {}

    def assign(self, call_id: str) -> str:
        """The id to send for a call."""
        assigned = valid = _to_valid_id(call_id)
        while assigned in self._used:
            self._times[valid] = self._times.get(valid, 1) + 1
            assigned = f"{valid}_{self._times[valid]}"
        self._used.add(assigned)
        self._latest[call_id] = assigned
        return assigned

    def find(self, call_id: str) -> str:
        """The id of the latest call that had the given one."""
        return self._latest.get(call_id) or _to_valid_id(call_id)


def _to_valid_id(call_id: str) -> str:
    """Two ids that differ stay two."""
    if _VALID_ID.fullmatch(call_id):
        return call_id
    return f"{INVALID_ID_CHAR.sub('_', call_id)}_{zlib.crc32(call_id.encode()):08x}"


# --- Images and files -----------------------------------------------------------------------------

Block = JsonObject

_PDF: Final = "application/pdf"
# What says nothing about the content; the content's own first bytes may.
_UNSPECIFIC_TYPES: Final = ("", "application/octet-stream", "binary/octet-stream")
_PDF_BEGINNING: Final = "JVBERi"  # "%PDF-" in base64.
_TEXT_TYPES: Final = (
    "application/json",
    "application/xml",
    "application/yaml",
    "application/x-yaml",
    "application/javascript",
)


class _DataUrl(NamedTuple):
    """What a data URL holds, in base64 whichever way the URL had it."""

    media_type: str
    encoded: str


def build_image_block(url: str) -> Block:
    """An image by URL or from a data URL."""
    data = _parse_data_url(url)
    if data is None:
        return {"type": "image", "source": {"type": "url", "url": url}}
    return {
        "type": "image",
        "source": _build_base64_source(_normalize_image_type(data.media_type), data.encoded),
    }


def build_document_block(file: JsonObject) -> Block:
    """A chat `file`: an image stays an image, anything else is a document named after the file."""
    url = file.get("file_data")
    data = _parse_data_url(url) if url is not None else None
    if data is not None and data.media_type.startswith("image/"):
        return {
            "type": "image",
            "source": _build_base64_source(_normalize_image_type(data.media_type), data.encoded),
        }
    if data is not None:
        source = _build_document_source(data)
    elif url is not None:
        source = {"type": "url", "url": url}
    else:
        source = {"type": "file", "file_id": file["file_id"]}
    block: Block = {"type": "document", "source": source}
    if title := file.get("filename"):
        block["title"] = title
    return block


def _parse_data_url(url: str) -> _DataUrl | None:
    """None for a URL of another scheme."""
    if url[:5].lower() != "data:":
        return None
    header, _, content = url[5:].partition(",")
    media_type, *parameters = [part.strip() for part in header.split(";")]
    if "base64" not in [parameter.lower() for parameter in parameters]:
        content = base64.b64encode(unquote_to_bytes(content)).decode()
    return _DataUrl(media_type.lower(), content)


def _normalize_image_type(media_type: str) -> str:
    return "image/jpeg" if media_type == "image/jpg" else media_type


def _build_document_source(data: _DataUrl) -> Block:
    if data.media_type in _UNSPECIFIC_TYPES and data.encoded.startswith(_PDF_BEGINNING):
        return _build_base64_source(_PDF, data.encoded)
    if data.media_type.startswith("text/") or data.media_type in _TEXT_TYPES:
        try:
            text = base64.b64decode(data.encoded).decode()
            return {"type": "text", "media_type": "text/plain", "data": text}
        except (binascii.Error, ValueError):
            # It travels as it is.
            pass
    return _build_base64_source(data.media_type, data.encoded)


def _build_base64_source(media_type: str, data: str) -> Block:
    return {"type": "base64", "media_type": media_type, "data": data}


# --- Reasoning that a caller replays --------------------------------------------------------------

# The model checks its own seals, so what another kind of model reasoned is left out.
_FORMATS: Final = ("anthropic-claude-v1", "unknown", None)


def build_reasoning_blocks(details: Iterable[JsonObject]) -> list[Block]:
    """The blocks that the API takes back: signed texts and encrypted ones, in order.

    A stream sends a block in pieces, and callers replay the pieces as they came. Pieces of one
    block follow each other with the same `index`, and its signature ends it.
    """
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


# --- Contents of messages -------------------------------------------------------------------------

_NAME_CHARS_MAX: Final = 128

Content = str | list[JsonObject] | None


def build_text_blocks(content: Content, name: str | None = None) -> list[Block]:
    """The texts of a message that may hold nothing else."""
    blocks = build_content_blocks(content, name)
    if isinstance(content, str):
        return blocks
    return [block for block in blocks if block["type"] == "text"]


def build_content_blocks(content: Content, name: str | None = None) -> list[Block]:
    """The blocks of a content, without the blank texts that the API refuses. There is no place for
    a speaker's name, so the content begins with it."""
    if isinstance(content, str):
        text = f"{name}: {content}" if name else content
        return [{"type": "text", "text": text}] if text.strip() else []
    parts = content or []
    if name:
        if parts and parts[0]["type"] == "text":
            parts = [{**parts[0], "text": f"{name}: {parts[0]['text']}"}, *parts[1:]]
        else:
            parts = [{"type": "text", "text": f"{name}: "}, *parts]
    blocks: list[Block] = []
    for part in parts:
        kind = part["type"]
        if kind == "text" and part["text"].strip():
            blocks.append({"type": "text", "text": part["text"]})
        elif kind == "image_url":
            blocks.append(build_image_block(part["image_url"]["url"]))
        elif kind == "file":
            blocks.append(build_document_block(part["file"]))
        else:
            # No endpoint of this wire takes audio and video.
            continue
        if mark := read_cache_mark(part):
            blocks[-1]["cache_control"] = mark
    return blocks


def read_cache_mark(part: JsonObject) -> JsonObject | None:
    """The breakpoint that a part, tool or tool message asks for, in either spelling. The format of
    the last says nothing of one, so it may hold anything."""
    mark = part.get("cache_control")
    if isinstance(mark, dict):
        return dict(mark)
    return {"type": "ephemeral"} if part.get("prompt_cache_breakpoint") is not None else None


def build_tool_result_block(message: JsonObject, ids: CallIds) -> Block:
    """A tool message; a mark inside its content stands on the result, where the API takes it."""
    call_id = ids.find(message["tool_call_id"])
    block: Block = {"type": "tool_result", "tool_use_id": call_id}
    content, mark = message["content"], read_cache_mark(message)
    if isinstance(content, str):
        if content.strip():
            block["content"] = content
    elif blocks := build_content_blocks(content):
        inside = [
            inner_mark for inner in blocks if (inner_mark := inner.pop("cache_control", None))
        ]
        block["content"] = blocks
        mark = mark or (inside[-1] if inside else None)
    if message.get("is_error"):
        block["is_error"] = True
    if mark:
        block["cache_control"] = mark
    return block


def build_assistant_blocks(message: JsonObject, ids: CallIds) -> list[Block]:
    """An earlier answer: reasoning that may be replayed, then text, then calls."""
    blocks = build_text_blocks(message.get("content"), message.get("name"))
    if details := message.get("reasoning_details"):
        blocks = build_reasoning_blocks(details) + blocks
    if refusal := message.get("refusal"):
        blocks += build_text_blocks(refusal)
    if calls := message.get("tool_calls"):
        blocks += [_build_tool_use(call, ids) for call in calls]
    return blocks


def _build_tool_use(call: JsonObject, ids: CallIds) -> Block:
    function = call["function"]
    name = INVALID_ID_CHAR.sub("_", function["name"])[:_NAME_CHARS_MAX]
    try:
        arguments = parse_exactly(function["arguments"].encode())
    except ValueError:
        arguments = None
    return {
        "type": "tool_use",
        "id": ids.assign(call["id"]),
        "name": name or "_",
        # The API takes an object; arguments that are none are lost.
        "input": arguments if isinstance(arguments, dict) else {},
    }
