"""Streams of the messages API, event by event."""

from typing import Any

import orjson

from gateway.http.jsonio import DEPTH_MAX, JsonObject, is_deeper_than
from routing.entities.exchange import Event, Native
from routing.upstreams.anthropic.answer import (
    KIND,
    arguments_text,
    build_citation,
    build_reasoning_detail,
    build_tool_call,
    put_status_code,
    read_refusal,
)
from routing.upstreams.anthropic.usage import UsageCounter, read_tier
from routing.upstreams.base import DONE, read_word
from routing.upstreams.failures import malformed_answer


class _OpenBlock:
    """A block that has begun and not ended. `ordinal` is its place among the calls, or among the
    reasoning blocks. `initial_input` is an input that came at its start, `text_start` where its
    text begins in the content."""

    __slots__ = ("citations", "has_fragments", "initial_input", "kind", "ordinal", "text_start")

    def __init__(self, kind: str, ordinal: int, initial_input: object, text_start: int) -> None:
        self.kind = kind
        self.ordinal = ordinal
        self.initial_input = initial_input
        self.text_start = text_start
        self.has_fragments = False
        self.citations: list[Any] = []


class MessagesReader:
    """Reads one stream. Every payload gives one event, which carries the payload itself."""

    def __init__(self) -> None:
        self.ended = self._has_begun = self._has_start = False
        self._open: dict[Any, _OpenBlock] = {}
        self._text_chars = 0
        self._calls = 0
        self._reasonings = 0
        self._counter = UsageCounter()

    def events(self, payload: bytes) -> tuple[Event, ...]:
        """What the payload says. Raises `UpstreamFailure` for what is no event."""
        try:
            value = orjson.loads(payload)
        except ValueError:
            if payload.strip() != DONE:
                raise malformed_answer("a stream event is no JSON", raw=payload) from None
            # Upstreams that speak several formats may end a stream as another one does.
            self._end()
            return ()
        if type(value) is not dict:
            raise malformed_answer("a stream event is no object", raw=payload)
        name = value.get("type")
        if type(name) is not str:
            name = ""
        native = Native(KIND, name, payload, value)
        if name == "content_block_delta":
            self._has_begun = True
            return (self._delta(native),)
        if is_deeper_than(DEPTH_MAX, payload):
            raise malformed_answer("a stream event nests too deeply", raw=payload)
        event = Event(native=native)
        match name:
            case "message_start":
                self._take_message_start(event, value)
            case "content_block_start":
                self._take_block_start(event, value)
            case "content_block_stop":
                self._take_block_stop(event, value)
            case "message_delta":
                self._take_message_delta(event, value)
            case "message_stop":
                self._close_all(event)
                self._end()
            case "ping":
                event.has_choice = False
            case "error":
                event.has_choice = False
                event.error = put_status_code(value.get("error")) or {
                    "message": "the upstream broke off its answer"
                }
            case _ if value.get("error"):
                event.error = put_status_code(value["error"])
        return (event,)

    def _end(self) -> None:
        if not self._has_begun:
            raise malformed_answer("a stream without a message")
        self.ended = True

    def _delta(self, native: Native) -> Event:
        value = native.value
        piece = value.get("delta")
        if type(piece) is not dict:
            return Event(native=native)
        kind = piece.get("type")
        if kind == "text_delta":
            # Nearly every event of nearly every stream.
            text = piece.get("text")
            if type(text) is not str or not text:
                return Event(native=native)
            self._text_chars += len(text)
            return Event({"content": text}, native=native)
        event, block = Event(native=native), self._block(value)
        if kind == "input_json_delta":
            _put_fragment(event, block, piece.get("partial_json"))
        elif kind == "thinking_delta":
            self._put_thinking(event, block, piece.get("thinking"))
        elif kind == "signature_delta":
            self._put_signature(event, block, piece.get("signature"))
        elif kind == "citations_delta" and block is not None:
            block.citations.append(piece.get("citation"))
        return event

    def _block(self, value: JsonObject) -> _OpenBlock | None:
        index = value.get("index")
        return self._open.get(index) if type(index) is int else None

    def _put_thinking(self, event: Event, block: _OpenBlock | None, text: object) -> None:
        if type(text) is str and text:
            event.delta["reasoning"] = event.delta.get("reasoning", "") + text
            item = build_reasoning_detail("reasoning.text", self._reasoning_index(block), text=text)
            event.delta.setdefault("reasoning_details", []).append(item)

    def _put_signature(self, event: Event, block: _OpenBlock | None, signature: object) -> None:
        if type(signature) is str and signature:
            item = build_reasoning_detail(
                "reasoning.text", self._reasoning_index(block), signature=signature
            )
            event.delta.setdefault("reasoning_details", []).append(item)

    def _reasoning_index(self, block: _OpenBlock | None) -> int:
        """Reasoning without a beginning belongs to the block before it."""
        return block.ordinal if block is not None else max(0, self._reasonings - 1)

    def _take_block_start(self, event: Event, value: JsonObject) -> None:
        self._has_begun = True
        index, block = value.get("index"), value.get("content_block")
        if type(index) is not int or type(block) is not dict:
            return
        if (before := self._open.pop(index, None)) is not None:
            self._close(event, before)
        kind = block.get("type")
        if kind == "text":
            opened = self._open[index] = _OpenBlock("text", 0, None, self._text_chars)
            if isinstance(block.get("citations"), list):
                opened.citations += block["citations"]
            text = block.get("text")
            if type(text) is str and text:
                self._text_chars += len(text)
                event.delta["content"] = event.delta.get("content", "") + text
        elif kind == "tool_use":
            ordinal, self._calls = self._calls, self._calls + 1
            self._open[index] = _OpenBlock("tool_use", ordinal, block.get("input"), 0)
            calls = event.delta.setdefault("tool_calls", [])
            calls.append({"index": ordinal, **build_tool_call(block, "")})
        elif kind in ("thinking", "redacted_thinking"):
            self._open_reasoning(event, index, block)

    def _open_reasoning(self, event: Event, index: int, block: JsonObject) -> None:
        kind = str(block["type"])
        ordinal, self._reasonings = self._reasonings, self._reasonings + 1
        opened = self._open[index] = _OpenBlock(kind, ordinal, None, 0)
        if kind == "thinking":
            self._put_thinking(event, opened, block.get("thinking"))
            self._put_signature(event, opened, block.get("signature"))
        else:
            data = block.get("data")
            item = build_reasoning_detail(
                "reasoning.encrypted", ordinal, data=data if type(data) is str else ""
            )
            event.delta.setdefault("reasoning_details", []).append(item)

    def _take_block_stop(self, event: Event, value: JsonObject) -> None:
        if (block := self._block(value)) is not None:
            del self._open[value["index"]]
            self._close(event, block)

    def _close(self, event: Event, block: _OpenBlock) -> None:
        """What is known of a block only at its end: an input without fragments, and how far its
        citations reach."""
        if block.kind == "tool_use" and not block.has_fragments:
            _put_fragment(event, block, arguments_text(block.initial_input))
        for citation in block.citations:
            annotation = build_citation(citation, block.text_start, self._text_chars)
            if annotation is not None:
                event.delta.setdefault("annotations", []).append(annotation)

    def _close_all(self, event: Event) -> None:
        for block in self._open.values():
            self._close(event, block)
        self._open.clear()

    def _take_message_start(self, event: Event, value: JsonObject) -> None:
        message = value.get("message")
        if type(message) is not dict or self._has_start:
            return
        self._has_begun = self._has_start = True
        event.upstream_id = read_word(message.get("id"))
        content = message.get("content")
        for block in content if type(content) is list else ():
            # Calls that a program of the provider's made come with the start.
            self._take_block_start(event, {"index": -1, "content_block": block})
        self._take_block_stop(event, {"index": -1})
        self._take_stop(event, message)
        usage = message.get("usage")
        event.service_tier = read_tier(usage)
        completion = self._counter.completion
        self._counter.add(usage)
        if event.native_finish is None:
            # The output count of an answer that only begins is a placeholder.
            self._counter.completion = completion
        event.usage = self._counter.report()

    def _take_message_delta(self, event: Event, value: JsonObject) -> None:
        self._close_all(event)
        change = value.get("delta")
        if type(change) is dict:
            self._take_stop(event, change)
        usage = value.get("usage")
        if type(usage) is dict:
            event.service_tier = read_tier(usage)
            self._counter.add(usage)
            event.usage = self._counter.report()

    def _take_stop(self, event: Event, owner: JsonObject) -> None:
        event.native_finish = read_word(owner.get("stop_reason"))
        event.stop_sequence = read_word(owner.get("stop_sequence"))
        if refusal := read_refusal(event.native_finish, owner.get("stop_details")):
            event.delta["refusal"] = refusal


def _put_fragment(event: Event, block: _OpenBlock | None, fragment: object) -> None:
    if block is None or block.kind != "tool_use" or type(fragment) is not str or not fragment:
        return
    block.has_fragments = True
    calls = event.delta.setdefault("tool_calls", [])
    calls.append({"index": block.ordinal, "function": {"arguments": fragment}})
