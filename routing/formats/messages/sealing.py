"""Reasoning of upstreams that do not speak messages, kept whole in fields that clients send back.

A thinking block has room for a text and a signature, a redacted one for data. What else an item of
`reasoning_details` says (id, format, kind) travels in the signature or the data, under a mark that
no provider writes, and is put together again when the client replays the block.
"""

import base64
import binascii
from typing import Annotated, Any, Final

from pydantic import ValidationError
from typing_extensions import TypedDict

from gateway.http.errors import MalformedJson
from gateway.http.jsonio import dumps, loads
from routing.formats.fields import REQUIRED, checker
from routing.formats.reasoning_details import ReasoningDetail

CLAUDE: Final = "anthropic-claude-v1"
MARK: Final = "router-sealed-v1."


class _Sealed(TypedDict, total=False):
    detail: Annotated[ReasoningDetail, REQUIRED]


_check = checker(_Sealed)


def sealed(detail: dict[str, Any]) -> str:
    """The item as a text that a client carries without looking inside."""
    return MARK + base64.urlsafe_b64encode(dumps(detail)).decode()


def is_sealed(text: str) -> bool:
    return text.startswith(MARK)


def unsealed(text: str) -> dict[str, Any] | None:
    """The item of a `sealed` text. None for one that is no item: clients may send anything."""
    try:
        detail = loads(base64.b64decode(text[len(MARK) :], altchars=b"-_", validate=True))
        _check({"detail": detail})
    except (binascii.Error, ValueError, MalformedJson, ValidationError):
        return None
    item: dict[str, Any] = detail
    return item


def thinking_detail(block: dict[str, Any], index: int) -> dict[str, Any]:
    """The item that a replayed thinking block means."""
    text, signature = block["thinking"], block["signature"]
    if is_sealed(signature) and (item := unsealed(signature)) is not None:
        name = "summary" if item.get("type") == "reasoning.summary" else "text"
        return {**item, name: text or item.get(name) or ""}
    item = {"type": "reasoning.text", "text": text, "index": index, "id": None}
    if signature and not is_sealed(signature):
        return {**item, "signature": signature, "format": CLAUDE}
    return {**item, "format": None}


def redacted_detail(block: dict[str, Any], index: int) -> dict[str, Any]:
    """The item that a replayed redacted block means."""
    data = block["data"]
    if is_sealed(data) and (item := unsealed(data)) is not None:
        return item
    return {
        "type": "reasoning.encrypted",
        "data": data,
        "index": index,
        "id": None,
        "format": CLAUDE,
    }


def is_gateways_own(block: dict[str, Any]) -> bool:
    """Whether no provider wrote the block: message-style upstreams would refuse its signature."""
    kind = block["type"]
    if kind == "thinking":
        return not block["signature"] or is_sealed(block["signature"])
    return kind == "redacted_thinking" and is_sealed(block["data"])
