"""The texts inside output items: what a message says, what a reasoning item thinks."""

from typing import Any, Final, NamedTuple

from routing.formats.responses.streaming.events import Events, Fragments


class PartKind(NamedTuple):
    """How events speak of one kind of text: `type` of the part, its key there, the names of its
    own events and of those of the part, and which count places it."""

    type: str
    key: str
    text_events: str
    part_events: str
    index_name: str


OUTPUT_TEXT: Final = PartKind(
    "output_text", "text", "response.output_text", "response.content_part", "content_index"
)
REFUSAL: Final = PartKind(
    "refusal", "refusal", "response.refusal", "response.content_part", "content_index"
)
REASONING_TEXT: Final = PartKind(
    "reasoning_text", "text", "response.reasoning_text", "response.content_part", "content_index"
)
SUMMARY_TEXT: Final = PartKind(
    "summary_text",
    "text",
    "response.reasoning_summary_text",
    "response.reasoning_summary_part",
    "summary_index",
)


class OutputPart:
    """One text while it grows."""

    __slots__ = ("_annotations", "_events", "_fragments", "_logprobs", "_place", "kind")

    def __init__(self, events: Events, kind: PartKind, item: dict[str, Any], index: int) -> None:
        """`item` has item_id and output_index."""
        self.kind = kind
        self._events = events
        self._place = {**item, kind.index_name: index}
        beside: dict[str, Any] = {"logprobs": []} if kind is OUTPUT_TEXT else {}
        fields = {**self._place, **beside}
        self._fragments = Fragments(events, f"{kind.text_events}.delta", fields)
        self._annotations: list[dict[str, Any]] = []
        self._logprobs: list[Any] = []

    def value(self) -> dict[str, Any]:
        return self._value(self._fragments.text)

    def opening(self) -> bytes:
        return self._events.say(
            f"{self.kind.part_events}.added", {**self._place, "part": self._value("")}
        )

    def delta(self, text: str, logprobs: list[Any] | None = None) -> bytes:
        if not logprobs:
            return self._fragments.delta(text)
        self._fragments.pieces.append(text)
        self._logprobs += logprobs
        return self._events.say(
            f"{self.kind.text_events}.delta",
            {**self._place, "logprobs": logprobs, "delta": text},
        )

    def annotation(self, annotation: dict[str, Any]) -> bytes:
        index = len(self._annotations)
        self._annotations.append(annotation)
        return self._events.say(
            "response.output_text.annotation.added",
            {**self._place, "annotation_index": index, "annotation": annotation},
        )

    def closing(self) -> bytes:
        kind, text = self.kind, self._fragments.text
        beside = {"logprobs": self._logprobs} if kind is OUTPUT_TEXT else {}
        done = {**self._place, **beside, kind.key: text}
        return self._events.say(f"{kind.text_events}.done", done) + self._events.say(
            f"{kind.part_events}.done", {**self._place, "part": self._value(text)}
        )

    def _value(self, text: str) -> dict[str, Any]:
        value: dict[str, Any] = {"type": self.kind.type, self.kind.key: text}
        if self.kind is OUTPUT_TEXT:
            value["annotations"] = list(self._annotations)
            value["logprobs"] = list(self._logprobs)
        return value
