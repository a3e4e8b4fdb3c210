"""Streams of the responses API, event by event."""

from collections.abc import Callable
from typing import Any, Final

from gateway.http.jsonio import JsonObject
from routing.entities.exchange import Event, Native
from routing.upstreams.failures import malformed_answer
from routing.upstreams.payloads import DONE, parse_event, read_word
from routing.upstreams.responses.answer import (
    CALLS,
    KIND,
    build_chat_usage,
    build_error,
    read_failure,
    read_finish,
)
from routing.upstreams.responses.output import Output
from routing.upstreams.responses.output_items import OutputItem, OutputPart

_Object = JsonObject


class ResponsesReader:
    """Reads one stream. Every payload but `[DONE]` gives one event, which carries the payload."""

    def __init__(self) -> None:
        self.ended = False
        self._output = Output()
        self._piece = OutputPart()
        self._piece_id: Any = None
        self._piece_part: Any = None

    def events(self, payload: bytes) -> tuple[Event, ...]:
        """What the payload says. Raises `UpstreamFailure` for what is no event."""
        if self.ended:
            return ()
        if payload[:6] == DONE:
            if not self._output.said:
                raise malformed_answer("a stream without a response")
            self.ended = True
            return ()
        value = parse_event(payload)
        name = value.get("type")
        if type(name) is not str:
            name = ""
        event = Event(native=Native(KIND, name, payload, value))
        if name == "response.output_text.delta":
            self._text_delta(event, value)
        elif (take := _TAKERS.get(name)) is not None:
            take(self, event, value)
        elif value.get("error"):
            event.error = build_error(value["error"])
        return (event,)

    def _item(self, value: _Object) -> OutputItem:
        return self._output.items.for_event(value.get("item_id"), value.get("output_index"))

    def _text_delta(self, event: Event, value: _Object) -> None:
        text = value.get("delta")
        if type(text) is not str or not text:
            return
        id, part = value.get("item_id"), value.get("content_index")
        piece = self._piece
        # Nearly every event goes on with the part of the one before.
        is_next = type(id) is str and id == self._piece_id and type(part) is int
        if not is_next or part != self._piece_part:
            piece = self._piece = self._item(value).piece("text", part)
            self._piece_id, self._piece_part = id, part
        self._output.add_text(event, piece, text)
        if logprobs := value.get("logprobs"):
            self._output.add_tokens(event, piece, logprobs)

    def _text_done(self, event: Event, value: _Object) -> None:
        part = {"text": value.get("text"), "logprobs": value.get("logprobs")}
        self._output.finish_text(event, self._item(value), value.get("content_index"), part)

    def _refusal_delta(self, event: Event, value: _Object) -> None:
        if isinstance(text := value.get("delta"), str) and text:
            self._output.add_refusal(event, self._item(value), value.get("content_index"), text)

    def _refusal_done(self, event: Event, value: _Object) -> None:
        part = {"type": "refusal", "refusal": value.get("refusal")}
        self._output.finish_part(event, self._item(value), value.get("content_index"), part)

    def _part_done(self, event: Event, value: _Object) -> None:
        item, part = self._item(value), value.get("part")
        self._output.finish_part(event, item, value.get("content_index"), part)

    def _annotation(self, event: Event, value: _Object) -> None:
        item, part = self._item(value), value.get("content_index")
        self._output.add_annotation(event, item, part, value.get("annotation"))

    def _arguments_delta(self, event: Event, value: _Object) -> None:
        if isinstance(text := value.get("delta"), str) and text:
            self._output.add_arguments(event, self._item(value), text)

    def _arguments_done(self, event: Event, value: _Object) -> None:
        item = self._item(value)
        if isinstance(name := value.get("name"), str):
            item.name = item.name or name
        arguments = value.get("arguments", value.get("input"))
        self._output.finish_arguments(event, item, arguments)

    def _summary_delta(self, event: Event, value: _Object) -> None:
        self._reasoning_delta(event, value, "summary", value.get("summary_index"))

    def _reasoning_text_delta(self, event: Event, value: _Object) -> None:
        self._reasoning_delta(event, value, "text", value.get("content_index"))

    def _reasoning_delta(self, event: Event, value: _Object, kind: str, part: object) -> None:
        if isinstance(text := value.get("delta"), str) and text:
            self._output.add_reasoning(event, self._item(value), kind, part, text)

    def _summary_done(self, event: Event, value: _Object) -> None:
        text, index = value.get("text"), value.get("summary_index")
        self._output.finish_reasoning(event, self._item(value), "summary", index, text)

    def _summary_part_done(self, event: Event, value: _Object) -> None:
        if isinstance(part := value.get("part"), dict):
            self._summary_done(event, {**value, "text": part.get("text")})

    def _reasoning_text_done(self, event: Event, value: _Object) -> None:
        text, index = value.get("text"), value.get("content_index")
        self._output.finish_reasoning(event, self._item(value), "text", index, text)

    def _item_added(self, event: Event, value: _Object) -> None:
        if not isinstance(fields := value.get("item"), dict):
            return
        item = self._output.items.begin(fields.get("id"), value.get("output_index"))
        item.learn(fields)
        if fields.get("type") in CALLS and item.call_index is None:
            # The arguments follow, or are said at the end.
            self._output.begin_call(event, item)

    def _item_done(self, event: Event, value: _Object) -> None:
        if isinstance(fields := value.get("item"), dict):
            item = self._output.items.for_event(fields.get("id"), value.get("output_index"))
            item.learn(fields)
            self._output.finish_item(event, item, fields)

    def _began(self, event: Event, value: _Object) -> None:
        if isinstance(response := value.get("response"), dict):
            self._note(event, response)

    def _note(self, event: Event, response: _Object) -> None:
        event.upstream_id = read_word(response.get("id"))
        event.service_tier = read_word(response.get("service_tier"))
        event.usage = build_chat_usage(response.get("usage"), searches=self._output.searches)

    def _on_end(self, event: Event, value: _Object) -> None:
        """`response.completed` and `response.incomplete`; the event's name wins over a status."""
        response = value.get("response")
        if not isinstance(response, dict):
            response = {}
        response = {**response, "status": value["type"].removeprefix("response.")}
        event.error = read_failure(response)
        if event.error is None:
            if not self._output.said and not isinstance(response.get("output"), list):
                raise malformed_answer("a response without output")
            self._output.finish(event, response.get("output"))
            finish = read_finish(response)
            called = any(name.startswith("call ") for name in self._output.said)
            event.native_finish = "tool_calls" if called and finish == "stop" else finish
        self.ended = True
        self._note(event, response)

    def _on_failure(self, event: Event, value: _Object) -> None:
        response = value.get("response")
        if not isinstance(response, dict):
            response = {}
        self.ended = True
        self._note(event, response)
        event.error = read_failure(response) or build_error(None, response.get("error_type"))

    def _error(self, event: Event, value: _Object) -> None:
        self.ended = True
        flat = {"code": value.get("code"), "message": value.get("message")}
        event.error = build_error(value.get("error") or flat)


_TAKERS: Final[dict[str, Callable[[ResponsesReader, Event, _Object], None]]] = {
    "response.created": ResponsesReader._began,
    "response.in_progress": ResponsesReader._began,
    "response.output_item.added": ResponsesReader._item_added,
    "response.output_item.done": ResponsesReader._item_done,
    "response.content_part.done": ResponsesReader._part_done,
    "response.output_text.done": ResponsesReader._text_done,
    "response.output_text.annotation.added": ResponsesReader._annotation,
    "response.refusal.delta": ResponsesReader._refusal_delta,
    "response.refusal.done": ResponsesReader._refusal_done,
    "response.function_call_arguments.delta": ResponsesReader._arguments_delta,
    "response.function_call_arguments.done": ResponsesReader._arguments_done,
    "response.custom_tool_call_input.delta": ResponsesReader._arguments_delta,
    "response.custom_tool_call_input.done": ResponsesReader._arguments_done,
    "response.reasoning_text.delta": ResponsesReader._reasoning_text_delta,
    "response.reasoning_text.done": ResponsesReader._reasoning_text_done,
    "response.reasoning_summary_text.delta": ResponsesReader._summary_delta,
    "response.reasoning_summary_text.done": ResponsesReader._summary_done,
    "response.reasoning_summary_part.done": ResponsesReader._summary_part_done,
    "response.completed": ResponsesReader._on_end,
    "response.incomplete": ResponsesReader._on_end,
    "response.failed": ResponsesReader._on_failure,
    "response.cancelled": ResponsesReader._on_failure,
    "error": ResponsesReader._error,
}
