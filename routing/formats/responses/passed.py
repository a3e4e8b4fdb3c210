"""What the passed events of an upstream have said so far, for answers that break off."""

from collections.abc import Callable
from typing import Any, Final


class PassedOutput:
    """Output items by their place. One that was not done by the end is incomplete, with as much of
    its text or arguments as came."""

    def __init__(self) -> None:
        self._items: dict[Any, dict[str, Any]] = {}
        self._fragments: dict[tuple[Any, Any], list[str]] = {}

    def take(self, kind: str, value: dict[str, Any]) -> None:
        """One event; those that say nothing of the output are none of it."""
        taker = _TAKERS.get(kind)
        if taker is not None:
            taker(self, value)

    @property
    def is_empty(self) -> bool:
        return not self._items and not self._fragments

    @property
    def items(self) -> list[dict[str, Any]]:
        return [self._item(place, item) for place, item in self._items.items()]

    def _item(self, place: Any, item: dict[str, Any]) -> dict[str, Any]:
        if item.get("status") not in (None, "in_progress"):
            return item
        kept = {**item, "status": "incomplete"}
        if item.get("type") == "message":
            kept["content"] = [_text("".join(said)) for said in self._fragments_of(place)]
        elif item.get("type") == "function_call":
            kept["arguments"] = "".join("".join(said) for said in self._fragments_of(place))
        return kept

    def _fragments_of(self, place: Any) -> list[list[str]]:
        return [said for (at, _), said in self._fragments.items() if at == place]

    def _fragment(self, value: dict[str, Any]) -> None:
        place, text = _place(value), value.get("delta")
        part = value.get("content_index")
        if isinstance(text, str):
            key = (place, part if isinstance(part, int) else None)
            self._fragments.setdefault(key, []).append(text)

    def _begun_or_done(self, value: dict[str, Any]) -> None:
        item = value.get("item")
        if isinstance(item, dict):
            self._items[_place(value)] = item


def _place(value: dict[str, Any]) -> int | None:
    place = value.get("output_index")
    return place if isinstance(place, int) else None


def _text(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


_TAKERS: Final[dict[str, Callable[[PassedOutput, dict[str, Any]], None]]] = {
    "response.output_text.delta": PassedOutput._fragment,
    "response.function_call_arguments.delta": PassedOutput._fragment,
    "response.output_item.added": PassedOutput._begun_or_done,
    "response.output_item.done": PassedOutput._begun_or_done,
}
