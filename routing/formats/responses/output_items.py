"""Output items while they grow.

Every item keeps the place it began at. `status` is `in_progress` until the item is closed."""

from abc import ABC, abstractmethod
from collections import Counter
from typing import Final, Protocol

import pydantic_core

from gateway.http.jsonio import JsonObject
from routing.formats.caller import ToolActivity
from routing.formats.responses.events import (
    SUMMARY_TEXT,
    EventWriter,
    OutputPart,
    PartKind,
    TextFragments,
)
from routing.formats.server_tools import (
    ADVISOR,
    FUSION,
    IMAGE_GENERATION,
    SUBAGENT,
    WEB_FETCH,
    WEB_SEARCH,
)


class OutputItem(Protocol):
    status: str

    def value(self) -> JsonObject:
        """The item as it stands."""

    def closing(self, status: str) -> bytes:
        """The events that end it."""


class _GrowingItem(ABC):
    """What items have in common: their place, how they open and how they close."""

    def __init__(self, events: EventWriter, item_id: str, output_index: int) -> None:
        self.events = events
        self.id = item_id
        self.output_index = output_index
        self.status = "in_progress"

    @property
    def place(self) -> JsonObject:
        return {"item_id": self.id, "output_index": self.output_index}

    @abstractmethod
    def value(self) -> JsonObject:
        """The item as it stands."""

    def opening(self) -> bytes:
        return self._write_change("added")

    def closing(self, status: str) -> bytes:
        ended = self.end_of_content()
        self.status = status
        return ended + self._write_change("done")

    def end_of_content(self) -> bytes:
        return b""

    def _write_change(self, change: str) -> bytes:
        return self.events.say(
            f"response.output_item.{change}",
            {"output_index": self.output_index, "item": self.value()},
        )


class _ItemWithParts(_GrowingItem):
    """An item that says texts, one at a time."""

    def __init__(self, events: EventWriter, item_id: str, output_index: int) -> None:
        super().__init__(events, item_id, output_index)
        self.parts: list[OutputPart] = []
        self._counts: Counter[str] = Counter()
        self._open: OutputPart | None = None

    def open_part(self, kind: PartKind) -> OutputPart | None:
        """The part that is being said, where it is of this kind."""
        part = self._open
        return part if part is not None and part.kind is kind else None

    def begin(self, kind: PartKind) -> tuple[OutputPart, bytes]:
        """A new part; the one before it ends."""
        ended = self.end_of_content()
        index = self._counts[kind.index_name]
        self._counts[kind.index_name] += 1
        self._open = part = OutputPart(self.events, kind, self.place, index)
        self.parts.append(part)
        return part, ended + part.opening()

    def end_of_content(self) -> bytes:
        part, self._open = self._open, None
        return part.closing() if part is not None else b""


class OutputMessage(_ItemWithParts):
    """What the model says to the user."""

    def value(self) -> JsonObject:
        return {
            "id": self.id,
            "type": "message",
            "role": "assistant",
            "status": self.status,
            "content": [part.value() for part in self.parts],
        }


class OutputReasoning(_ItemWithParts):
    """What the model thinks, readable or sealed. `given_id` and `index` are those of the chat
    details it is made of: details with the same belong to one item."""

    def __init__(
        self, events: EventWriter, item_id: str, output_index: int, detail: JsonObject
    ) -> None:
        super().__init__(events, item_id, output_index)
        self.given_id = detail.get("id")
        self.index = detail.get("index")
        self.format: str | None = detail.get("format")
        self.signature: str | None = None
        self.encrypted: str | None = None

    def takes(self, detail: JsonObject) -> bool:
        """Whether the detail is a further piece of this item; a bare signature seals plain text."""
        given_id, index = detail.get("id"), detail.get("index")
        if self.encrypted is not None or (
            self.signature is not None and detail.get("type") != "reasoning.encrypted"
        ):
            return False
        if (
            self.index is None
            and self.given_id is None
            and given_id is None
            and bool(detail.get("signature"))
            and not detail.get("text")
        ):
            return True
        return index == self.index and given_id in (None, self.given_id)

    def value(self) -> JsonObject:
        value: JsonObject = {"id": self.id, "type": "reasoning", "status": self.status}
        value["summary"] = [part.value() for part in self.parts if part.kind is SUMMARY_TEXT]
        if content := [part.value() for part in self.parts if part.kind is not SUMMARY_TEXT]:
            value["content"] = content
        optional = {
            "encrypted_content": self.encrypted,
            "signature": self.signature,
            "format": self.format,
        }
        return value | {
            name: field_value for name, field_value in optional.items() if field_value is not None
        }


class OutputCall(_GrowingItem):
    """A function call, its arguments as the upstream spelt them."""

    def __init__(
        self,
        events: EventWriter,
        item_id: str,
        output_index: int,
        *,
        call_id: str,
        name: str,
        beside: JsonObject,
    ) -> None:
        """`beside` says which agent made it, where one did."""
        super().__init__(events, item_id, output_index)
        self.call_id = call_id
        self.name = name
        self._beside = beside
        kind = "response.function_call_arguments.delta"
        self.arguments = TextFragments(events, kind, self.place)

    def value(self) -> JsonObject:
        return {
            "id": self.id,
            "type": "function_call",
            "status": self.status,
            "call_id": self.call_id,
            "name": self.name,
            "arguments": self.arguments.text,
            **self._beside,
        }

    def end_of_content(self) -> bytes:
        done = {**self.place, "name": self.name, "arguments": self.arguments.text}
        return self.events.say("response.function_call_arguments.done", done)


_FUSION_CALL: Final = "fusion_call"
# Only items of these can have failed; others are incomplete then.
_MAY_FAIL: Final = frozenset({ADVISOR, SUBAGENT})
_PAGE_FIELDS: Final = ("url", "title", "content", "httpStatus", "error")
# Tools for whose work the format has events of its own: their name there, and the events when one
# begins.
_TOOL_EVENTS: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    WEB_SEARCH: ("web_search_call", ("in_progress", "searching")),
    IMAGE_GENERATION: ("image_generation_call", ("in_progress", "generating")),
    FUSION: (_FUSION_CALL, ("in_progress",)),
}


class OutputTool(_GrowingItem):
    """A server tool that the gateway ran, with the fields that are its own."""

    def __init__(
        self, events: EventWriter, item_id: str, output_index: int, activity: ToolActivity
    ) -> None:
        super().__init__(events, item_id, output_index)
        self._activity = activity
        self._steps = _TOOL_EVENTS.get(activity.tool)

    def opening(self) -> bytes:
        if self._steps is None:
            return super().opening()
        name, steps = self._steps
        events = (super().opening(), *(self._step(name, step) for step in steps))
        return b"".join(events)

    def closing(self, status: str) -> bytes:
        fails = status == "failed" and self._activity.tool not in _MAY_FAIL
        return super().closing("incomplete" if fails else status)

    def end_of_content(self) -> bytes:
        """The events that the format has for a few tools while they work."""
        if self._steps is None or self._activity.status != "completed":
            return b""
        name, item = self._steps[0], self._activity.item
        events = self._write_fusion(item) if name == _FUSION_CALL else b""
        return events + self._step(name, "completed")

    def _write_fusion(self, item: JsonObject) -> bytes:
        """Which models answered and how: all events at once, when the whole result is there."""
        answers = item.get("answers", ())
        # Each is numbered as it is written.
        events = [self._step(_FUSION_CALL, "panel.added", model=each["model"]) for each in answers]
        for each in answers:
            if "error" in each:
                step, outcome = "panel.failed", {"error": each["error"]}
            else:
                step, outcome = "panel.completed", {"content": each["answer"]}
            events.append(self._step(_FUSION_CALL, step, model=each["model"], **outcome))
        events.append(self._step(_FUSION_CALL, "analysis.in_progress"))
        events.append(self._step(_FUSION_CALL, "analysis.completed", analysis=item.get("analysis")))
        return b"".join(events)

    def _step(self, name: str, step: str, **fields: object) -> bytes:
        return self.events.say(f"response.{name}.{step}", {**self.place, **fields})

    def value(self) -> JsonObject:
        activity = self._activity
        return {
            **_required_fields(activity),
            **activity.item,
            "id": self.id,
            "type": activity.tool,
            "status": self.status,
            "call_id": activity.call_id,
            "arguments": activity.arguments,
        }


def _required_fields(activity: ToolActivity) -> JsonObject:
    """Fields that the item of a tool has in any case: also of a call that was stopped."""
    if activity.tool == WEB_FETCH:
        return dict.fromkeys(_PAGE_FIELDS)
    if activity.tool == WEB_SEARCH:
        try:
            value = pydantic_core.from_json(activity.arguments)
        except ValueError:
            value = None
        query = value.get("query") if isinstance(value, dict) else None
        return {"action": {"type": "search", "query": query if isinstance(query, str) else ""}}
    return {}


class OutputImage(_GrowingItem):
    """A picture the model made; it comes whole."""

    def __init__(self, events: EventWriter, item_id: str, output_index: int) -> None:
        super().__init__(events, item_id, output_index)
        self.result: str | None = None

    def value(self) -> JsonObject:
        return {
            "id": self.id,
            "type": "image_generation_call",
            "status": self.status,
            "result": self.result,
        }

    def write_all(self, url: str) -> bytes:
        """All events of the picture. A data URL is shown as its base64 alone."""
        out = self.opening() + self._step("in_progress") + self._step("generating")
        self.result = url.partition(",")[2] if url.startswith("data:") else url
        return out + self._step("completed") + self.closing("completed")

    def _step(self, step: str) -> bytes:
        return self.events.say(f"response.image_generation_call.{step}", self.place)
