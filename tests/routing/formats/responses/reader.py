"""Puts a stream of events together again, and objects to whatever is out of order (5.5)."""

from dataclasses import dataclass, field
from typing import Any

TERMINAL = {"response.completed", "response.incomplete", "response.failed"}
# Deltas and ends of each kind of text: where it stands in the item, the part's type, its key.
TEXTS = {
    "response.output_text": ("content", "output_text", "text"),
    "response.refusal": ("content", "refusal", "refusal"),
    "response.reasoning_text": ("content", "reasoning_text", "text"),
    "response.reasoning_summary_text": ("summary", "summary_text", "text"),
}
PARTS = {"response.content_part": "content", "response.reasoning_summary_part": "summary"}


@dataclass
class Reader:
    """Reads one whole stream; `items` are the output as its events told it."""

    items: list[dict[str, Any]] = field(default_factory=list)
    open_parts: dict[tuple[int, str], int] = field(default_factory=dict)
    closed: set[int] = field(default_factory=set)
    final: dict[str, Any] = field(default_factory=dict)

    def read(self, events: list[dict[str, Any]]) -> "Reader":
        begun = [event["type"] for event in events[:2]]
        assert begun == ["response.created", "response.in_progress"]
        assert events[-1]["type"] in TERMINAL
        for event in events[2:-1]:
            self._take(event)
        self.final = events[-1]["response"]
        assert events[-1]["type"] == f"response.{self.final['status']}"
        return self

    def _take(self, event: dict[str, Any]) -> None:
        kind = event["type"]
        base, _, what = kind.rpartition(".")
        if base == "response.output_item":
            self._item(what, event["output_index"], event["item"])
        elif base in PARTS:
            self._part(what, PARTS[base], event)
        elif base in TEXTS:
            self._text(what, *TEXTS[base], event)
        elif kind == "response.output_text.annotation.added":
            part = self._open(event, "content")
            assert event["annotation_index"] == len(part["annotations"])
            part["annotations"].append(event["annotation"])
        elif base == "response.function_call_arguments":
            self._arguments(what, event)
        else:
            assert base == "response.image_generation_call"
            assert self._item_of(event)["type"] == "image_generation_call"

    def _item(self, what: str, index: int, item: dict[str, Any]) -> None:
        if what == "added":
            assert index == len(self.items)
            assert item["status"] == "in_progress"
            self.items.append(item)
            return
        assert index not in self.closed
        assert not any(place[0] == index for place in self.open_parts)
        self.closed.add(index)
        told = {**self.items[index], "status": item["status"]}
        if item["type"] == "reasoning":
            # What seals an item is known at its end.
            told |= {
                name: item[name]
                for name in ("encrypted_content", "signature", "format")
                if name in item
            }
        if item["type"] == "image_generation_call":
            told["result"] = item["result"]
        assert item == told
        assert item["status"] in ("completed", "incomplete")
        self.items[index] = item

    def _item_of(self, event: dict[str, Any]) -> dict[str, Any]:
        index = event["output_index"]
        assert index not in self.closed
        item = self.items[index]
        assert item["id"] == event["item_id"]
        return item

    def _part(self, what: str, place: str, event: dict[str, Any]) -> None:
        index = event["content_index" if place == "content" else "summary_index"]
        parts = self._item_of(event).setdefault(place, [])
        if what == "added":
            assert index == len(parts)
            assert not any(open_at[0] == event["output_index"] for open_at in self.open_parts)
            parts.append(event["part"])
            self.open_parts[event["output_index"], place] = index
        else:
            assert self.open_parts.pop((event["output_index"], place)) == index
            assert parts[index] == event["part"]

    def _open(self, event: dict[str, Any], place: str) -> dict[str, Any]:
        index = event["content_index" if place == "content" else "summary_index"]
        assert self.open_parts[event["output_index"], place] == index
        part: dict[str, Any] = self._item_of(event)[place][index]
        return part

    def _text(self, what: str, place: str, kind: str, key: str, event: dict[str, Any]) -> None:
        part = self._open(event, place)
        assert part["type"] == kind
        if what == "delta":
            part[key] += event["delta"]
            if "logprobs" in part:
                part["logprobs"] += event["logprobs"]
        else:
            assert what == "done"
            assert event[key] == part[key]

    def _arguments(self, what: str, event: dict[str, Any]) -> None:
        item = self._item_of(event)
        assert item["type"] == "function_call"
        if what == "delta":
            item["arguments"] += event["delta"]
        else:
            assert (event["name"], event["arguments"]) == (item["name"], item["arguments"])
