"""Events of a stream, numbered without a gap, and the texts that grow in them.

The constant part of a text's deltas is serialised once; per delta only the text is."""

from typing import Any, Final, NamedTuple

from gateway.http.jsonio import JsonObject, dumps

TERMINAL: Final = frozenset({"response.completed", "response.incomplete", "response.failed"})


class EventWriter:
    """Numbers the events of one stream."""

    __slots__ = ("number",)

    def __init__(self) -> None:
        self.number = 0

    def say(self, kind: str, fields: JsonObject) -> bytes:
        body = dumps({"type": kind, "sequence_number": self.number, **fields})
        self.number += 1
        return b"event: %b\ndata: %b\n\n" % (kind.encode(), body)

    def say_raw(self, kind: str, body: bytes) -> bytes:
        """An event that is written already, with the number that is due."""
        self.number += 1
        return b"event: %b\ndata: %b\n\n" % (kind.encode(), body)


class TextFragments:
    """One text that comes in pieces, and its delta events."""

    __slots__ = ("_events", "_head", "_tail", "pieces")

    def __init__(self, events: EventWriter, kind: str, fields: JsonObject) -> None:
        name = kind.encode()
        self._events = events
        self._head = b'event: %b\ndata: {"type":"%b","sequence_number":' % (name, name)
        self._tail = b",%b," % dumps(fields)[1:-1] + b'"delta":'
        self.pieces: list[str] = []

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    def delta(self, text: str) -> bytes:
        events = self._events
        number = events.number
        events.number = number + 1
        self.pieces.append(text)
        return b"%b%d%b%b}\n\n" % (self._head, number, self._tail, dumps(text))


class PartKind(NamedTuple):
    """How events speak of one kind of text. It has the `type` of the part, its key there, and which
    count places it. It also has the names of its own events and of those of the part."""

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

    def __init__(self, events: EventWriter, kind: PartKind, item: JsonObject, index: int) -> None:
        """`item` has item_id and output_index."""
        self.kind = kind
        self._events = events
        self._place = {**item, kind.index_name: index}
        logprobs: JsonObject = {"logprobs": []} if kind is OUTPUT_TEXT else {}
        fields = {**self._place, **logprobs}
        self._fragments = TextFragments(events, f"{kind.text_events}.delta", fields)
        self._annotations: list[JsonObject] = []
        self._logprobs: list[Any] = []

    def value(self) -> JsonObject:
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

    def annotation(self, annotation: JsonObject) -> bytes:
        index = len(self._annotations)
        self._annotations.append(annotation)
        return self._events.say(
            "response.output_text.annotation.added",
            {**self._place, "annotation_index": index, "annotation": annotation},
        )

    def closing(self) -> bytes:
        kind, text = self.kind, self._fragments.text
        logprobs = {"logprobs": self._logprobs} if kind is OUTPUT_TEXT else {}
        done = {**self._place, **logprobs, kind.key: text}
        return self._events.say(f"{kind.text_events}.done", done) + self._events.say(
            f"{kind.part_events}.done", {**self._place, "part": self._value(text)}
        )

    def _value(self, text: str) -> JsonObject:
        value: JsonObject = {"type": self.kind.type, self.kind.key: text}
        if self.kind is OUTPUT_TEXT:
            value["annotations"] = list(self._annotations)
            value["logprobs"] = list(self._logprobs)
        return value
