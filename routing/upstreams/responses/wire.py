"""Endpoints that speak the responses API: what to send, and how to read what they answer."""

from collections.abc import Callable
from typing import Any, Final

from gateway.http.jsonio import JsonObject, dumps
from routing.entities.exchange import (
    Event,
    Native,
    Prompt,
    Terms,
    Wire,
    WireRequest,
)
from routing.upstreams.base import DONE, BearerWire, parse_event, read_word
from routing.upstreams.failures import malformed_answer
from routing.upstreams.responses.answer import (
    CALLS,
    KIND,
    build_chat_usage,
    build_error,
    read_answer,
    read_failure,
    read_finish,
)
from routing.upstreams.responses.output import Output
from routing.upstreams.responses.output_items import OutputItem, OutputPart
from routing.upstreams.responses.request import build_passthrough, build_request

PATH: Final = "/responses"
_TEXT_FIELDS: Final = ("text", "logprobs")


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
            if not self._output.emitted_kinds:
                raise malformed_answer("a stream without a response")
            self.ended = True
            return ()
        value = parse_event(payload)
        name = value.get("type")
        if type(name) is not str:
            name = ""
        event = Event(native=Native(KIND, name, payload, value))
        if name == "response.output_text.delta":
            self._take_text(event, value)
        elif (take := _TAKERS.get(name)) is not None:
            take(self, event, value)
        elif value.get("error"):
            event.error = build_error(value["error"])
        return (event,)

    def _item(self, value: JsonObject) -> OutputItem:
        return self._output.items.for_event(value.get("item_id"), value.get("output_index"))

    def _take_text(self, event: Event, value: JsonObject) -> None:
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

    def _take_refusal(self, event: Event, value: JsonObject) -> None:
        if isinstance(text := value.get("delta"), str) and text:
            self._output.add_refusal(event, self._item(value), value.get("content_index"), text)

    def _take_part_end(self, event: Event, value: JsonObject) -> None:
        """The whole of a part, or of its text or refusal."""
        part = value.get("part")
        if value["type"] == "response.output_text.done":
            part = {"type": "output_text", **{name: value.get(name) for name in _TEXT_FIELDS}}
        elif value["type"] == "response.refusal.done":
            part = {"type": "refusal", "refusal": value.get("refusal")}
        self._output.finish_part(event, self._item(value), value.get("content_index"), part)

    def _take_annotation(self, event: Event, value: JsonObject) -> None:
        item, part = self._item(value), value.get("content_index")
        self._output.add_annotation(event, item, part, value.get("annotation"))

    def _take_arguments(self, event: Event, value: JsonObject) -> None:
        if isinstance(text := value.get("delta"), str) and text:
            self._output.add_arguments(event, self._item(value), text)

    def _take_arguments_end(self, event: Event, value: JsonObject) -> None:
        item = self._item(value)
        if isinstance(name := value.get("name"), str):
            item.name = item.name or name
        arguments = value.get("arguments", value.get("input"))
        self._output.finish_arguments(event, item, arguments)

    def _take_reasoning(self, event: Event, value: JsonObject) -> None:
        """A fragment of a summary or of the reasoning itself."""
        kind, index = _find_reasoning(value)
        if isinstance(text := value.get("delta"), str) and text:
            self._output.add_reasoning(event, self._item(value), kind, index, text)

    def _take_reasoning_end(self, event: Event, value: JsonObject) -> None:
        """The whole of such a text, or of the part that has it."""
        kind, index = _find_reasoning(value)
        owner = value.get("part") if value["type"].endswith("_part.done") else value
        if isinstance(owner, dict):
            text = owner.get("text")
            self._output.finish_reasoning(event, self._item(value), kind, index, text)

    def _take_item(self, event: Event, value: JsonObject) -> None:
        if not isinstance(fields := value.get("item"), dict):
            return
        item = self._output.items.begin(fields.get("id"), value.get("output_index"))
        item.learn(fields)
        if fields.get("type") in CALLS and item.call_index is None:
            # The arguments follow, or come at the end.
            self._output.begin_call(event, item)

    def _take_item_end(self, event: Event, value: JsonObject) -> None:
        if isinstance(fields := value.get("item"), dict):
            item = self._output.items.for_event(fields.get("id"), value.get("output_index"))
            item.learn(fields)
            self._output.finish_item(event, item, fields)

    def _take_start(self, event: Event, value: JsonObject) -> None:
        if isinstance(response := value.get("response"), dict):
            self._put_response_fields(event, response)

    def _put_response_fields(self, event: Event, response: JsonObject) -> None:
        event.upstream_id = read_word(response.get("id"))
        event.service_tier = read_word(response.get("service_tier"))
        event.usage = build_chat_usage(response.get("usage"), searches=self._output.searches)

    def _take_end(self, event: Event, value: JsonObject) -> None:
        """`response.completed` and `response.incomplete`; the event's name wins over a status."""
        response = value.get("response")
        if not isinstance(response, dict):
            response = {}
        response = {**response, "status": value["type"].removeprefix("response.")}
        event.error = read_failure(response)
        if event.error is None:
            if not self._output.emitted_kinds and not isinstance(response.get("output"), list):
                raise malformed_answer("a response without output")
            self._output.finish(event, response.get("output"))
            finish = read_finish(response)
            called = any(name.startswith("call ") for name in self._output.emitted_kinds)
            event.native_finish = "tool_calls" if called and finish == "stop" else finish
        self.ended = True
        self._put_response_fields(event, response)

    def _take_failure(self, event: Event, value: JsonObject) -> None:
        response = value.get("response")
        if not isinstance(response, dict):
            response = {}
        self.ended = True
        self._put_response_fields(event, response)
        event.error = read_failure(response) or build_error(None, response.get("error_type"))

    def _take_error(self, event: Event, value: JsonObject) -> None:
        self.ended = True
        flat = {"code": value.get("code"), "message": value.get("message")}
        event.error = build_error(value.get("error") or flat)


def _find_reasoning(value: JsonObject) -> tuple[str, Any]:
    """Which text an event is about, and its index."""
    if value["type"].startswith("response.reasoning_summary"):
        return "summary", value.get("summary_index")
    return "text", value.get("content_index")


_TAKERS: Final[dict[str, Callable[[ResponsesReader, Event, JsonObject], None]]] = {
    "response.created": ResponsesReader._take_start,
    "response.in_progress": ResponsesReader._take_start,
    "response.output_item.added": ResponsesReader._take_item,
    "response.output_item.done": ResponsesReader._take_item_end,
    "response.content_part.done": ResponsesReader._take_part_end,
    "response.output_text.done": ResponsesReader._take_part_end,
    "response.output_text.annotation.added": ResponsesReader._take_annotation,
    "response.refusal.delta": ResponsesReader._take_refusal,
    "response.refusal.done": ResponsesReader._take_part_end,
    "response.function_call_arguments.delta": ResponsesReader._take_arguments,
    "response.function_call_arguments.done": ResponsesReader._take_arguments_end,
    "response.custom_tool_call_input.delta": ResponsesReader._take_arguments,
    "response.custom_tool_call_input.done": ResponsesReader._take_arguments_end,
    "response.reasoning_text.delta": ResponsesReader._take_reasoning,
    "response.reasoning_text.done": ResponsesReader._take_reasoning_end,
    "response.reasoning_summary_text.delta": ResponsesReader._take_reasoning,
    "response.reasoning_summary_text.done": ResponsesReader._take_reasoning_end,
    "response.reasoning_summary_part.done": ResponsesReader._take_reasoning_end,
    "response.completed": ResponsesReader._take_end,
    "response.incomplete": ResponsesReader._take_end,
    "response.failed": ResponsesReader._take_failure,
    "response.cancelled": ResponsesReader._take_failure,
    "error": ResponsesReader._take_error,
}


class Responses(BearerWire):
    """See `Wire`. Nothing is stored upstream: every call brings its whole conversation."""

    kind = KIND
    answer = staticmethod(read_answer)
    reader = ResponsesReader
    takes_budgets = False
    output_tokens_min = 16
    usual_parameters: tuple[str, ...] = (
        *("temperature", "top_p", "max_tokens", "response_format", "structured_outputs"),
        *("tools", "tool_choice", "parallel_tool_calls", "reasoning", "reasoning_effort"),
    )

    def request(self, prompt: Prompt, terms: Terms) -> WireRequest:
        if prompt.original is not None:
            body = build_passthrough(prompt.original, prompt, terms)
        else:
            body = build_request(prompt, terms)
        headers = self.headers(terms.credential, stream=prompt.stream)
        return WireRequest(PATH, headers, dumps(body))


RESPONSES: Final[Wire] = Responses()
