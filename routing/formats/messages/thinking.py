"""Thinking blocks and the items of `reasoning_details` that they carry, in both directions.

A thinking block has room for a text and a signature, a redacted one for data. What else an item
says (id, format, kind) is sealed. It travels in the signature or the data behind `SEAL_PREFIX`,
which no provider writes. It is read back when the client replays the block."""

import base64
import binascii
from collections.abc import Iterable
from typing import Annotated, Final

from pydantic import ValidationError
from typing_extensions import TypedDict

from gateway.http.errors import MalformedJson
from gateway.http.jsonio import JsonObject, dumps, loads
from routing.formats.fields import REQUIRED, checker
from routing.formats.messages.pieces import visible_text
from routing.formats.reasoning import ReasoningDetail

CLAUDE: Final = "anthropic-claude-v1"
SEAL_PREFIX: Final = "router-sealed-v1."


class _Sealed(TypedDict, total=False):
    detail: Annotated[ReasoningDetail, REQUIRED]


_check_sealed = checker(_Sealed)


def seal(detail: JsonObject) -> str:
    """The item as a text that a client carries without looking inside."""
    return SEAL_PREFIX + base64.urlsafe_b64encode(dumps(detail)).decode()


def is_sealed(text: str) -> bool:
    return text.startswith(SEAL_PREFIX)


def unseal(text: str) -> JsonObject | None:
    """The item of a sealed text. None for one that is no item: clients may send anything."""
    try:
        detail = loads(base64.b64decode(text[len(SEAL_PREFIX) :], altchars=b"-_", validate=True))
        _check_sealed({"detail": detail})
    except (binascii.Error, ValueError, MalformedJson, ValidationError):
        return None
    item: JsonObject = detail
    return item


def read_thinking(block: JsonObject, index: int) -> JsonObject:
    """The item that a replayed thinking block means."""
    text, signature = block["thinking"], block["signature"]
    if is_sealed(signature) and (item := unseal(signature)) is not None:
        name = "summary" if item.get("type") == "reasoning.summary" else "text"
        return {**item, name: text or item.get(name) or ""}
    item = {"type": "reasoning.text", "text": text, "index": index, "id": None}
    if signature and not is_sealed(signature):
        return {**item, "signature": signature, "format": CLAUDE}
    return {**item, "format": None}


def read_redacted(block: JsonObject, index: int) -> JsonObject:
    """The item that a replayed redacted block means."""
    data = block["data"]
    if is_sealed(data) and (item := unseal(data)) is not None:
        return item
    return {
        "type": "reasoning.encrypted",
        "data": data,
        "index": index,
        "id": None,
        "format": CLAUDE,
    }


def is_gateway_thinking(block: JsonObject) -> bool:
    """Whether no provider wrote the block: message-style upstreams would refuse its signature."""
    kind = block["type"]
    if kind == "thinking":
        return not block["signature"] or is_sealed(block["signature"])
    return kind == "redacted_thinking" and is_sealed(block["data"])


_TEXT_KEYS: Final = {"reasoning.text": "text", "reasoning.summary": "summary"}
_ENCRYPTED: Final = "reasoning.encrypted"
# Said piece by piece; an item's other fields come with its first piece.
_STREAMED_KEYS: Final = ("text", "summary", "signature", "data")


def is_hidden(detail: JsonObject) -> bool:
    """Whether nobody can read the item: it becomes a redacted block."""
    return detail.get("type") not in _TEXT_KEYS


class ReasoningBlock:
    """One item, put together from its pieces. `silent` keeps its words out of the block; one that
    `is_over` takes no further piece.

    Two kinds of items fit into a block as they are: Claude's own, and plain ones, which are nothing
    but words. Any other is `foreign` and travels sealed, so that it comes back as it was.
    """

    __slots__ = ("_fragments", "_kind", "_whole", "is_claudes", "is_over", "silent")

    def __init__(self, detail: JsonObject, *, silent: bool) -> None:
        self._kind = detail.get("type")
        streamed = _STREAMED_KEYS if self._kind in _TEXT_KEYS or self._kind == _ENCRYPTED else ()
        self._whole = {name: item for name, item in detail.items() if name not in streamed}
        self._fragments: dict[str, list[str]] = {}
        self.silent, self.is_over = silent, False
        fits = self._kind in ("reasoning.text", _ENCRYPTED)
        self.is_claudes = fits and detail.get("format") == CLAUDE

    @property
    def is_foreign(self) -> bool:
        if self.is_claudes:
            return False
        if self._kind != "reasoning.text" or self.silent or "signature" in self._fragments:
            return True
        return self._whole.get("format") is not None or self._whole.get("id") is not None

    def accepts(self, detail: JsonObject) -> bool:
        """Whether the piece is of this item."""
        if self.is_over or detail.get("type") != self._kind:
            return False
        if detail.get("index") != self._whole.get("index"):
            return False
        ids = (detail.get("id"), self._whole.get("id"))
        if None not in ids and ids[0] != ids[1]:
            return False
        if self._kind not in _TEXT_KEYS:
            numbered = ids[0] is not None or detail.get("index") is not None
            return self._kind == _ENCRYPTED and numbered
        # Its signature ends an item, also where an upstream numbers all of them alike.
        return "signature" not in self._fragments or not visible_text(detail)

    def add(self, detail: JsonObject) -> None:
        for name in _STREAMED_KEYS:
            piece = detail.get(name)
            if isinstance(piece, str) and piece:
                self._fragments.setdefault(name, []).append(piece)

    def block(self) -> JsonObject:
        """The whole block."""
        if self._kind not in _TEXT_KEYS:
            return {"type": "redacted_thinking", "data": self.data()}
        text = "" if self.silent else self._join_fragments(_TEXT_KEYS[self._kind])
        return {"type": "thinking", "thinking": text, "signature": self.signature()}

    def signature(self) -> str:
        if not self.is_foreign:
            return self._join_fragments("signature")
        text_key = _TEXT_KEYS[self._kind or ""]
        sealed = self._whole | (
            {text_key: self._join_fragments(text_key)} if self.silent else {text_key: ""}
        )
        if "signature" in self._fragments:
            sealed["signature"] = self._join_fragments("signature")
        return seal(sealed)

    def data(self) -> str:
        if not self.is_foreign:
            return self._join_fragments("data")
        return seal(
            self._whole | {name: "".join(fragments) for name, fragments in self._fragments.items()}
        )

    def _join_fragments(self, name: str) -> str:
        return "".join(self._fragments.get(name, ()))


def build_thinking_blocks(details: Iterable[JsonObject], *, silent: bool) -> list[JsonObject]:
    """The blocks of the items of a whole answer."""
    thoughts: list[ReasoningBlock] = []
    for detail in details:
        if not thoughts or not thoughts[-1].accepts(detail):
            thoughts.append(ReasoningBlock(detail, silent=silent))
        thoughts[-1].add(detail)
    return [thought.block() for thought in thoughts]
