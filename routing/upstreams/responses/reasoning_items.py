"""`reasoning_details` put together again as the reasoning items they came from.

Pieces of one item share its id, or its index where they carry no id. A streamed piece comes in
fragments: all but its first are marked with `CONTINUES`.
"""

from typing import Any, Final

from gateway.http.jsonio import JsonObject

CONTINUES: Final = "continues"
FORMAT: Final = "openai-responses-v1"
_FORMAT_END: Final = "-responses-v1"
_UNNAMED: Final = (None, "unknown")


def is_of_this_wire(format: object) -> bool:
    """Whether reasoning of that format was written by an upstream of this wire kind."""
    return isinstance(format, str) and format.endswith(_FORMAT_END)


def build_reasoning_items(details: list[JsonObject] | None) -> list[JsonObject]:
    """The items of one assistant message, in order; details of other formats are left out."""
    if not details:
        return []
    collector = _ItemCollector()
    for detail in details:
        if is_replayed(detail):
            collector.add(detail)
    return [_serialize_item(item) for item in collector.items if _is_whole(item)]


def is_replayed(detail: JsonObject) -> bool:
    """Whether the upstream can make something of a detail.

    Text of nobody's format and without an id is another kind of model's: no item to return to.
    """
    format = detail.get("format")
    if format in _UNNAMED:
        return detail.get("type") == "reasoning.encrypted" or bool(detail.get("id"))
    return is_of_this_wire(format)


class _ItemCollector:
    """The items met so far."""

    def __init__(self) -> None:
        self.items: list[JsonObject] = []
        self._by_id: dict[str, JsonObject] = {}
        self._by_index: dict[Any, JsonObject] = {}

    def add(self, detail: JsonObject) -> None:
        match detail.get("type"):
            case "reasoning.summary":
                _add_text(self._item(detail)["summary"], detail, detail["summary"])
            case "reasoning.text":
                _add_text(self._item(detail)["content"], detail, detail.get("text"))
            case "reasoning.encrypted":
                self._item(detail)["encrypted_content"] = detail["data"]

    def _item(self, detail: JsonObject) -> JsonObject:
        id, index = detail.get("id"), detail.get("index")
        item = self._by_id.get(id) if id else None
        if item is None:
            item = self._by_index.get(index)
            if item is None or (id and item["id"] not in (None, id)):
                item = {"id": None, "summary": [], "content": [], "encrypted_content": None}
                self.items.append(item)
        if id:
            item["id"] = id
            self._by_id[id] = item
        self._by_index[index] = item
        return item


def _add_text(texts: list[list[str]], detail: JsonObject, text: str | None) -> None:
    """Each text stays in its fragments until it is sent."""
    if not text:
        return
    if detail.get(CONTINUES) and texts:
        texts[-1].append(text)
    else:
        texts.append([text])


def _is_whole(item: JsonObject) -> bool:
    """Nothing is stored: an item without its content would be looked up in vain, and refused."""
    return bool(item["content"]) or item["encrypted_content"] is not None


def _serialize_item(item: JsonObject) -> JsonObject:
    sent: JsonObject = {"type": "reasoning"}
    if item["id"]:
        sent["id"] = item["id"]
    sent["summary"] = _join_texts("summary_text", item["summary"])
    if item["content"]:
        sent["content"] = _join_texts("reasoning_text", item["content"])
    if item["encrypted_content"] is not None:
        sent["encrypted_content"] = item["encrypted_content"]
    return sent


def _join_texts(kind: str, texts: list[list[str]]) -> list[JsonObject]:
    return [{"type": kind, "text": "".join(fragments)} for fragments in texts]
