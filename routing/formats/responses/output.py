"""Chat-shaped deltas in; output items and their events out."""

from typing import Any, Final

from gateway.http.jsonio import JsonObject, dumps
from routing.formats.caller import ToolActivity
from routing.formats.chat.answer import read_text
from routing.formats.responses.events import (
    OUTPUT_TEXT,
    REASONING_TEXT,
    REFUSAL,
    SUMMARY_TEXT,
    EventWriter,
    OutputPart,
    PartKind,
)
from routing.formats.responses.output_items import (
    OutputCall,
    OutputImage,
    OutputItem,
    OutputMessage,
    OutputReasoning,
    OutputTool,
)
from routing.formats.responses.subagents import AGENT_ID, AGENT_ITEMS
from routing.formats.responses.write import item_id

# The kind of text in a reasoning detail, and the key that has it.
_DETAIL_TEXTS: Final[dict[str, tuple[PartKind, str]]] = {
    "reasoning.text": (REASONING_TEXT, "text"),
    "reasoning.summary": (SUMMARY_TEXT, "summary"),
}
# For reasoning that names no format: what a replayed item without one is taken for is OpenAI's.
_UNKNOWN_FORMAT: Final = "unknown"


class OutputWriter:
    """The output of one answer as it grows.

    One message or reasoning item is open at a time. Calls stay open to the end, because nothing
    before it says that no more of their arguments will come.
    """

    def __init__(self, events: EventWriter, stem: str) -> None:
        self._events = events
        self._stem = stem
        self._items: list[OutputItem] = []
        self._text_item: OutputMessage | OutputReasoning | None = None
        self._text: OutputPart | None = None
        self._calls: dict[Any, OutputCall] = {}
        self._last_call: OutputCall | None = None
        self._tools: dict[tuple[str, int], OutputTool] = {}
        self._waiting: list[OutputItem] = []

    @property
    def items(self) -> list[JsonObject]:
        return [item.value() for item in self._items]

    @property
    def is_empty(self) -> bool:
        return not self._items

    def add(self, delta: JsonObject, logprobs: object) -> bytes:
        """The events of one delta: reasoning before text before calls."""
        text = delta.get("content")
        if len(delta) == 1 and logprobs is None and self._text is not None and type(text) is str:
            return self._text.delta(text) if text else b""
        # A whole message can be long: pieces are joined once.
        out = [self._add_reasoning(delta)]
        text, tokens = read_text(text), _read_tokens(logprobs)
        if text or (tokens and self._text is not None):
            part, opened = self._part(OUTPUT_TEXT)
            out += (opened, part.delta(text, tokens))
        if refusal := _string(delta.get("refusal")):
            part, opened = self._part(REFUSAL)
            out += (opened, part.delta(refusal))
        out += map(self._add_annotation, delta.get("annotations") or ())
        out += map(self._add_image, delta.get("images") or ())
        out += map(self._add_call, delta.get("tool_calls") or ())
        return b"".join(out)

    def begin_tool(self, activity: ToolActivity) -> bytes:
        """A server tool is run; several may be at once."""
        out = self._close_message()
        item = OutputTool(self._events, self._id("st"), len(self._items), activity)
        self._tools[activity.call_id, activity.index] = item
        return out + self._open_item(item)

    def end_tool(self, activity: ToolActivity) -> bytes:
        """It has ended, or waits for the caller; its output is in the activity."""
        item = self._tools.pop((activity.call_id, activity.index))
        if activity.status == "in_progress":
            self._waiting.append(item)
        return item.closing(activity.status)

    def finish(self, *, cut: bool) -> bytes:
        """Close what is open. Where the answer was `cut` short, its last item is incomplete."""
        out: list[bytes] = []
        for item in self._items:
            if item.status == "in_progress" and item not in self._waiting:
                last = item is self._items[-1]
                out.append(item.closing("incomplete" if cut and last else "completed"))
        self._text_item = self._text = None
        return b"".join(out)

    def drop(self) -> None:
        """Leave what is open as it is: no more events of it follow."""
        for item in self._items:
            if item.status == "in_progress":
                item.status = "incomplete"

    # --- Messages -------------------------------------------------------------------------------

    def _add_annotation(self, note: object) -> bytes:
        """A citation as this format writes it; kinds without a page have no place here."""
        if not isinstance(note, dict) or note.get("type") != "url_citation":
            return b""
        citation = note.get("url_citation")
        if not isinstance(citation, dict):
            return b""
        always = {"url": "", "title": "", "start_index": 0, "end_index": 0}
        part, opened = self._part(OUTPUT_TEXT)
        return opened + part.annotation({"type": "url_citation", **always, **_drop_nulls(citation)})

    def _part(self, kind: PartKind) -> tuple[OutputPart, bytes]:
        """The open part of this kind in the open message, begun where there is none."""
        out = b""
        message = self._text_item
        if not isinstance(message, OutputMessage):
            out += self._close_message()
            message = OutputMessage(self._events, self._id("msg"), len(self._items))
            out += self._open_item(message)
            self._text_item = message
        part = message.open_part(kind)
        if part is None:
            part, opened = message.begin(kind)
            out += opened
        self._text = part if kind is OUTPUT_TEXT else None
        return part, out

    def _close_message(self) -> bytes:
        item, self._text_item, self._text = self._text_item, None, None
        return item.closing("completed") if item is not None else b""

    # --- Reasoning ------------------------------------------------------------------------------

    def _add_reasoning(self, delta: JsonObject) -> bytes:
        details = [d for d in delta.get("reasoning_details") or () if isinstance(d, dict)]
        text = _string(delta.get("reasoning"))
        out: list[bytes] = []
        if text and not any(d.get("text") or d.get("summary") for d in details):
            out.append(self._add_detail({"type": "reasoning.text", "text": text}, set()))
        begun_texts: set[tuple[int, PartKind]] = set()
        for detail in details:
            fields = {"format": _UNKNOWN_FORMAT, **_drop_nulls(detail)}
            out.append(self._add_detail(fields, begun_texts))
        return b"".join(out)

    def _add_detail(self, detail: JsonObject, begun_texts: set[tuple[int, PartKind]]) -> bytes:
        """`begun_texts` are those of this delta: a second one of an item is a part of its own."""
        kind, key = _DETAIL_TEXTS.get(detail.get("type", ""), (None, "data"))
        if kind is None and detail.get("type") != "reasoning.encrypted":
            return b""
        item, out = self._text_item, b""
        if not isinstance(item, OutputReasoning) or not item.takes(detail):
            out = self._close_message()
            given_id = detail.get("id") or self._id("rs")
            item = OutputReasoning(self._events, given_id, len(self._items), detail)
            out += self._open_item(item)
            self._text_item = item
        text = _string(detail.get(key))
        if kind is None:
            item.encrypted = text
        elif text:
            part = None if (id(item), kind) in begun_texts else item.open_part(kind)
            begun_texts.add((id(item), kind))
            if part is None:
                part, opened = item.begin(kind)
                out += opened
            out += part.delta(text)
        item.signature = detail.get("signature", item.signature)
        item.format = item.format or detail.get("format")
        return out

    def end_thought(self) -> bytes:
        """What is thought from here on is another item."""
        return self._close_message() if isinstance(self._text_item, OutputReasoning) else b""

    # --- Calls and pictures ---------------------------------------------------------------------

    def _add_call(self, call: object) -> bytes:
        if not isinstance(call, dict):
            return b""
        function = call.get("function") or {}
        out = b""
        item = self._call_of(call, function)
        if item is None:
            out += self._close_message()
            own_id = self._id("fc")
            item = OutputCall(
                self._events,
                own_id,
                len(self._items),
                call_id=call.get("id") or self._id("call"),
                name=function.get("name") or "",
                beside={name: call[name] for name in (AGENT_ID, AGENT_ITEMS) if name in call},
            )
            self._calls[call.get("index")] = self._last_call = item
            out += self._open_item(item)
        item.name = item.name or function.get("name") or ""
        arguments = function.get("arguments")
        # Arguments that came parsed are JSON text again.
        is_parsed = isinstance(arguments, dict)
        fragment = dumps(arguments).decode() if is_parsed else _string(arguments)
        if fragment:
            out += item.arguments.delta(fragment)
        return out

    def _call_of(self, call: JsonObject, function: JsonObject) -> OutputCall | None:
        """The open call that this is a piece of. Some upstreams leave the index out, or give every
        call the same: then a name with another id begins a call."""
        index, name = call.get("index"), function.get("name")
        item = self._last_call if index is None else self._calls.get(index)
        if item is None or not name:
            return item
        given_id = call.get("id")
        is_same = item.call_id == given_id if given_id else index is not None
        return item if is_same else None

    def _add_image(self, image: object) -> bytes:
        location = image.get("image_url") if isinstance(image, dict) else None
        url = location.get("url") if isinstance(location, dict) else None
        if not url:
            return b""
        out = self._close_message()
        item = OutputImage(self._events, self._id("ig"), len(self._items))
        self._items.append(item)
        return out + item.write_all(url)

    def _open_item(self, item: OutputMessage | OutputReasoning | OutputCall | OutputTool) -> bytes:
        self._items.append(item)
        return item.opening()

    def _id(self, prefix: str) -> str:
        return item_id(prefix, self._stem, len(self._items))


def _string(value: object) -> str:
    return value if type(value) is str else ""


def _read_tokens(logprobs: object) -> list[Any]:
    """The tokens of a content, with the lists on which this format insists."""
    tokens = logprobs.get("content") if isinstance(logprobs, dict) else None
    filled = []
    for token in tokens if isinstance(tokens, list) else ():
        if isinstance(token, dict):
            others = [_fill_bytes(each) for each in token.get("top_logprobs") or ()]
            filled.append({**_fill_bytes(token), "top_logprobs": others})
    return filled


def _fill_bytes(token: JsonObject) -> JsonObject:
    return {**token, "bytes": token.get("bytes") or []}


def _drop_nulls(value: JsonObject) -> JsonObject:
    return {name: item for name, item in value.items() if item is not None}
