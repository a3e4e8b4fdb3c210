"""POST /responses as a caller format: how its streams and its whole answers are written."""

from collections.abc import Callable
from typing import Any, Final

from gateway.http import responses as http_responses
from gateway.http.errors import GatewayError
from gateway.http.jsonio import JsonObject, dumps
from routing.entities.exchange import Native
from routing.entities.ids import tool_call_id
from routing.formats.caller import (
    AnswerIdentity,
    CallerFormat,
    CompleteAnswer,
    Ending,
    ToolActivity,
)
from routing.formats.chat.format import DONE, KEEP_ALIVE, redact_payloads
from routing.formats.chat.request import ChatRequest
from routing.formats.responses.events import TERMINAL, EventWriter
from routing.formats.responses.output import OutputWriter
from routing.formats.responses.read import parse_responses
from routing.formats.responses.write import (
    LIMITS,
    ResponseStatus,
    build_native_progress,
    build_native_response,
    build_response,
    derive_stem,
    judge_ending,
)

# The gateway writes how it went, since it knows what is charged, and not the upstream's own words.
_REWRITTEN_EVENTS: Final = TERMINAL | {"error", "response.cancelled"}
_BY_STATUS: Final = {"incomplete": "response.incomplete", "failed": "response.failed"}
_REWRITTEN_FIELDS: Final = frozenset({"type", "sequence_number", "response"})
_BREAKS: Final = (b"\n", b"\r")


class ResponsesStream:
    """Writes the events of one stream."""

    keep_alive = KEEP_ALIVE

    def __init__(self, served: AnswerIdentity, request: ChatRequest) -> None:
        self._served = served
        self._request = request
        self._stem = derive_stem(served.generation_id)
        self._events = EventWriter()
        self._output = OutputWriter(self._events, self._stem)
        self._passed = NativeOutput()

    def set_fingerprint(self, value: str) -> None:
        """This format has no place for it."""

    def debug(self, upstream_body: JsonObject) -> bytes:
        debug_fields = {"echo_upstream_body": redact_payloads(upstream_body)}
        return self._events.say("response.debug", {"debug": debug_fields})

    def write_opening(self) -> bytes:
        fields = {"response": build_response(self._served, self._request, self._stem)}
        created = self._events.say("response.created", fields)
        return created + self._events.say("response.in_progress", fields)

    def delta(self, delta: JsonObject, logprobs: object = None) -> bytes:
        return self._output.add(delta, logprobs)

    def write_native(self, native: Native) -> bytes:
        kind, value, number = native.name, native.value, self._events.number
        if kind in _REWRITTEN_EVENTS or not kind.isprintable() or not kind:
            # A name with a line break in it would be two lines of the stream.
            return b""
        response = value.get("response")
        if isinstance(response, dict):
            patched = build_native_progress(response, self._served, self._request, self._stem)
            value = {**value, "response": patched}
        self._passed.take(kind, value)
        is_same = value is native.value and value.get("sequence_number") == number
        if is_same and not any(mark in native.raw for mark in _BREAKS):
            return self._events.say_raw(kind, native.raw)
        return self._events.say_raw(kind, dumps({**value, "sequence_number": number}))

    def begin_tool(self, activity: ToolActivity) -> bytes:
        return self._output.begin_tool(activity)

    def end_tool(self, activity: ToolActivity) -> bytes:
        return self._output.end_tool(activity)

    def mark_seam(self, seam: JsonObject) -> bytes:
        ended = self._output.end_thought()
        return ended + self._events.say("response.router_rescue", {"router_rescue": seam})

    def write_ending(self, ending: Ending) -> bytes:
        verdict = judge_ending(ending, has_output=self._has_output)
        out = self._output.finish(cut=verdict.is_cut)
        final = self._final(ending, verdict)
        fields = {"response": final}
        if ending.native is not None and "response" in ending.native.value:
            # What an upstream's own last event says beside its response stays.
            response = ending.native.value
            others = {
                name: item for name, item in response.items() if name not in _REWRITTEN_FIELDS
            }
            fields = others | fields
        kind = _BY_STATUS.get(str(final.get("status")), "response.completed")
        out += self._events.say(kind, fields)
        return out if kind == "response.failed" else out + DONE

    def error(self, error: JsonObject, *, router_metadata: JsonObject | None) -> bytes:
        self._output.drop()
        failed = build_response(
            self._served,
            self._request,
            self._stem,
            verdict=ResponseStatus("failed", failure=error),
            output=self._items(),
            router_metadata=router_metadata,
        )
        return self._events.say("response.failed", {"response": failed})

    def write_answer(self, answer: CompleteAnswer) -> JsonObject:
        """The response object of an answer that came at once: the same that a stream of it would
        end with."""
        ending = answer.ending
        if answer.pieces:
            for piece in answer.pieces:
                if isinstance(piece, ToolActivity):
                    self._output.begin_tool(piece)
                    self._output.end_tool(piece)
                else:
                    self._output.add(piece, piece.get("logprobs"))
        elif ending.native is None:
            self._output.add(answer.message, answer.logprobs)
        verdict = judge_ending(ending, has_output=self._has_output)
        self._output.finish(cut=verdict.is_cut)
        return self._final(ending, verdict)

    @property
    def _has_output(self) -> bool:
        return not (self._passed.is_empty and self._output.is_empty)

    def _items(self) -> list[JsonObject]:
        return self._passed.items or self._output.items

    def _final(self, ending: Ending, verdict: ResponseStatus) -> JsonObject:
        if ending.native is not None:
            return build_native_response(
                ending.native, self._served, self._request, self._stem, ending
            )
        return build_response(
            self._served,
            self._request,
            self._stem,
            verdict=verdict,
            output=self._items(),
            usage=ending.usage,
            service_tier=ending.service_tier,
            router_metadata=ending.router_metadata,
        )


class NativeOutput:
    """Output items by their place. One that was not done by the end is incomplete, with as much of
    its text or arguments as came."""

    def __init__(self) -> None:
        self._items: dict[Any, JsonObject] = {}
        self._fragments: dict[tuple[Any, Any], list[str]] = {}

    def take(self, kind: str, value: JsonObject) -> None:
        """One event; those that say nothing of the output are none of it."""
        taker = _EVENT_READERS.get(kind)
        if taker is not None:
            taker(self, value)

    @property
    def is_empty(self) -> bool:
        return not self._items and not self._fragments

    @property
    def items(self) -> list[JsonObject]:
        return [self._item(index, item) for index, item in self._items.items()]

    def _item(self, index: object, item: JsonObject) -> JsonObject:
        if item.get("status") not in (None, "in_progress"):
            return item
        cut = {**item, "status": "incomplete"}
        if item.get("type") == "message":
            cut["content"] = [
                {
                    "type": "output_text",
                    "text": "".join(fragments),
                    "annotations": [],
                    "logprobs": [],
                }
                for fragments in self._fragments_of(index)
            ]
        elif item.get("type") == "function_call":
            cut["arguments"] = "".join(
                "".join(fragments) for fragments in self._fragments_of(index)
            )
        return cut

    def _fragments_of(self, index: object) -> list[list[str]]:
        return [fragments for (at, _), fragments in self._fragments.items() if at == index]

    def _add_fragment(self, value: JsonObject) -> None:
        index, text = _output_index(value), value.get("delta")
        part = value.get("content_index")
        if isinstance(text, str):
            key = (index, part if isinstance(part, int) else None)
            self._fragments.setdefault(key, []).append(text)

    def _put_item(self, value: JsonObject) -> None:
        item = value.get("item")
        if isinstance(item, dict):
            self._items[_output_index(value)] = item


def _output_index(value: JsonObject) -> int | None:
    index = value.get("output_index")
    return index if isinstance(index, int) else None


_EVENT_READERS: Final[dict[str, Callable[[NativeOutput, JsonObject], None]]] = {
    "response.output_text.delta": NativeOutput._add_fragment,
    "response.function_call_arguments.delta": NativeOutput._add_fragment,
    "response.output_item.added": NativeOutput._put_item,
    "response.output_item.done": NativeOutput._put_item,
}


class ResponsesFormat:
    """Parses, answers and streams in the responses format."""

    name = "responses"
    wire = "responses"
    id_prefix = "gen-"
    api_type = "completions"
    finishing_errors = LIMITS

    parse = staticmethod(parse_responses)
    new_call_id = staticmethod(tool_call_id)
    writer = ResponsesStream

    def write_answer(self, answer: CompleteAnswer) -> JsonObject:
        return ResponsesStream(answer.served, answer.request).write_answer(answer)

    def error_body(
        self, error: GatewayError, *, generation_id: str | None, beside: JsonObject
    ) -> JsonObject:
        """The ordinary body; the generation's id travels in its header."""
        return http_responses.error_body(error, **beside)


RESPONSES: CallerFormat = ResponsesFormat()
