"""Items of `reasoning_details` as thinking blocks (inference reference 1.5 and 11)."""

from collections.abc import Iterable
from typing import Any, Final

from routing.formats.messages.pieces import spoken
from routing.formats.messages.sealing import CLAUDE, sealed

_WORDS: Final = {"reasoning.text": "text", "reasoning.summary": "summary"}
_ENCRYPTED: Final = "reasoning.encrypted"
# Said piece by piece; an item's other fields come with its first piece.
_IN_PIECES: Final = ("text", "summary", "signature", "data")


def is_hidden(detail: dict[str, Any]) -> bool:
    """Whether nobody can read the item: it becomes a redacted block."""
    return detail.get("type") not in _WORDS


class Thought:
    """One item, put together from its pieces. `silent` keeps its words out of the block.

    Only Claude's own items fit into a block as they are, and plain ones, which are nothing but
    words; any other is `foreign` and travels sealed, so that it comes back as it was.
    """

    __slots__ = ("_kind", "_said", "_whole", "is_claudes", "silent")

    def __init__(self, detail: dict[str, Any], *, silent: bool) -> None:
        self._kind = detail.get("type")
        apart = _IN_PIECES if self._kind in _WORDS or self._kind == _ENCRYPTED else ()
        self._whole = {name: item for name, item in detail.items() if name not in apart}
        self._said: dict[str, list[str]] = {}
        self.silent = silent
        fits = self._kind in ("reasoning.text", _ENCRYPTED)
        self.is_claudes = fits and detail.get("format") == CLAUDE

    @property
    def foreign(self) -> bool:
        if self.is_claudes:
            return False
        if self._kind != "reasoning.text" or self.silent or "signature" in self._said:
            return True
        return self._whole.get("format") is not None or self._whole.get("id") is not None

    def takes(self, detail: dict[str, Any]) -> bool:
        """Whether the piece is of this item."""
        if detail.get("type") != self._kind or detail.get("index") != self._whole.get("index"):
            return False
        ids = (detail.get("id"), self._whole.get("id"))
        if None not in ids and ids[0] != ids[1]:
            return False
        if self._kind not in _WORDS:
            numbered = ids[0] is not None or detail.get("index") is not None
            return self._kind == _ENCRYPTED and numbered
        # Its signature ends an item, also where an upstream numbers all of them alike.
        return "signature" not in self._said or not spoken(detail)

    def add(self, detail: dict[str, Any]) -> None:
        for name in _IN_PIECES:
            piece = detail.get(name)
            if isinstance(piece, str) and piece:
                self._said.setdefault(name, []).append(piece)

    def block(self) -> dict[str, Any]:
        """The whole block."""
        if self._kind not in _WORDS:
            return {"type": "redacted_thinking", "data": self.data()}
        text = "" if self.silent else self._joined(_WORDS[self._kind])
        return {"type": "thinking", "thinking": text, "signature": self.signature()}

    def signature(self) -> str:
        if not self.foreign:
            return self._joined("signature")
        words = _WORDS[self._kind or ""]
        kept = self._whole | ({words: self._joined(words)} if self.silent else {words: ""})
        if "signature" in self._said:
            kept["signature"] = self._joined("signature")
        return sealed(kept)

    def data(self) -> str:
        if not self.foreign:
            return self._joined("data")
        return sealed(self._whole | {name: "".join(said) for name, said in self._said.items()})

    def _joined(self, name: str) -> str:
        return "".join(self._said.get(name, ()))


def blocks_of(details: Iterable[dict[str, Any]], *, silent: bool) -> list[dict[str, Any]]:
    """The blocks of the items of a whole answer."""
    thoughts: list[Thought] = []
    for detail in details:
        if not thoughts or not thoughts[-1].takes(detail):
            thoughts.append(Thought(detail, silent=silent))
        thoughts[-1].add(detail)
    return [thought.block() for thought in thoughts]
