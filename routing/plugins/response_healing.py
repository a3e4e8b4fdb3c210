"""`response-healing`: JSON that a model wrote carelessly is put in order (inference reference 1.9).

Only whole answers that were to be JSON. What cannot be mended stays as it came.
"""

import re
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

from orjson import loads

from routing.formats.chat.request import ChatRequest
from routing.plugins.interface import Plugin
from routing.plugins.mending import mended

ID: Final = "response-healing"
_OF_JSON: Final = frozenset({"json_object", "json_schema"})
_FENCED: Final = re.compile(r"```[A-Za-z0-9_+-]*[ \t]*\r?\n(.*?)(?:\r?\n[ \t]*```|\Z)", re.DOTALL)
_BRACKET: Final = re.compile(r"[{\[]")
CHARS_MAX: Final = 65_536
FENCES_MAX: Final = 3


class ResponseHealing(Plugin):
    def rewrites(self, chat: ChatRequest) -> bool:
        return not chat.stream and chat.response_format_type in _OF_JSON

    def answered(self, chat: ChatRequest, message: dict[str, Any]) -> dict[str, Any]:
        text = message.get("content")
        if not self.rewrites(chat) or type(text) is not str or not text.strip():
            return message
        made = healed(text, wants_object=_wants_object(chat))
        if made is None:
            return message
        summary = "The answer was put in order as JSON"
        self.stages.append({"type": "response_healing", "name": ID, "summary": summary})
        return {**message, "content": made}


def healed(text: str, *, wants_object: bool) -> str | None:
    """The JSON text that was meant; None where it is good as it is, or beyond mending."""
    if len(text) > CHARS_MAX or _is_wanted(_strict(text), wants_object):
        return None
    parts = list(dict.fromkeys(_parts(text)))
    for part in parts:
        if _is_wanted(_strict(part), wants_object):
            return part
    return mended(parts, wants_object=wants_object) if parts else None


def _parts(text: str) -> Iterator[str]:
    """Where the JSON may stand: in one of the first fences, else from the first bracket on."""
    for fenced in islice(_FENCED.finditer(text), FENCES_MAX):
        yield fenced.group(1).strip()
    first = _BRACKET.search(text)
    if first is not None:
        closing = "}" if first.group() == "{" else "]"
        last = text.rfind(closing)
        if last > first.start():
            yield text[first.start() : last + 1]
        yield text[first.start() :].strip()


def _strict(text: str) -> Any:
    """The value of JSON text; None where it is none."""
    try:
        return loads(text)
    except ValueError:
        return None


def _is_wanted(value: Any, wants_object: bool) -> bool:
    return isinstance(value, dict) or (isinstance(value, list) and not wants_object)


def _wants_object(chat: ChatRequest) -> bool:
    if chat.response_format_type == "json_object":
        return True
    schema = chat.body["response_format"]["json_schema"].get("schema") or {}
    return schema.get("type") == "object"
