"""Messages as a caller format, and its streams: from chat-shaped deltas, or from an upstream's own
events."""

from typing import Final

from gateway.http.errors import GatewayError
from gateway.http.jsonio import JsonObject, dumps
from routing.entities.exchange import Native
from routing.entities.ids import tool_use_id
from routing.formats.caller import AnswerIdentity, CallerFormat, Ending, ToolActivity
from routing.formats.chat.answer import read_text
from routing.formats.chat.request import ChatRequest
from routing.formats.messages.block_writer import DELTA_END, PING, BlockWriter, write_event
from routing.formats.messages.native_stream import NativeEvents
from routing.formats.messages.pieces import (
    build_tool_result,
    build_tool_use,
    count_fetches,
    read_call_fragments,
    read_citations,
    read_reasoning_details,
)
from routing.formats.messages.read import parse_messages
from routing.formats.messages.write import (
    NO_USAGE,
    WIRE,
    add_fetches,
    build_answer,
    build_envelope,
    build_error,
    build_error_body,
    build_stop_fields,
    build_usage,
    is_reasoning_hidden,
)

_CHARS_PER_TOKEN: Final = 4


class MessagesStream:
    """See `StreamWriter`."""

    __slots__ = ("_begun", "_blocks", "_fetches", "_passed", "_prompt_chars", "_served")

    keep_alive = PING

    def __init__(self, served: AnswerIdentity, request: ChatRequest) -> None:
        self._served = served
        self._prompt_chars = request.prompt_text_chars
        self._blocks = BlockWriter(silent=is_reasoning_hidden(request))
        self._passed: NativeEvents | None = None
        self._begun = False
        self._fetches = 0

    def set_fingerprint(self, value: str) -> None:
        """The format has no place for it."""

    def debug(self, upstream_body: JsonObject) -> bytes:
        """The format does not show it."""
        return b""

    def write_opening(self) -> bytes:
        self._begun = True
        # The upstream tells its count with the end; until then the estimator's stands.
        usage = {**NO_USAGE, "input_tokens": max(1, self._prompt_chars // _CHARS_PER_TOKEN)}
        message = {**build_envelope(self._served), "usage": usage}
        return write_event("message_start", {"message": message}) + PING

    def delta(self, delta: JsonObject, logprobs: object = None) -> bytes:
        blocks = self._blocks
        if len(delta) == 1:
            # Nearly every delta of nearly every stream.
            text = delta.get("content")
            if type(text) is str and text and (head := blocks.text_head) is not None:
                return b"%b%b%b" % (head, dumps(text), DELTA_END)
            if "tool_calls" in delta:
                return b"".join(map(blocks.add_call, read_call_fragments(delta["tool_calls"])))
        events = [*map(blocks.add_reasoning, read_reasoning_details(delta))]
        if answer_text := read_text(delta.get("content")) + read_text(delta.get("refusal")):
            events.append(blocks.add_text(answer_text))
        events += map(blocks.add_citation, read_citations(delta.get("annotations")))
        events += map(blocks.add_call, read_call_fragments(delta.get("tool_calls")))
        return b"".join(events)

    def write_native(self, native: Native) -> bytes:
        if self._passed is None:
            self._passed = NativeEvents(self._served, self.write_opening)
        return self._passed.event(native)

    def begin_tool(self, activity: ToolActivity) -> bytes:
        return self._blocks.add_block(*build_tool_use(activity))

    def end_tool(self, activity: ToolActivity) -> bytes:
        result = build_tool_result(activity)
        self._fetches += count_fetches(activity)
        return self._blocks.add_block(result) if result is not None else b""

    def mark_seam(self, seam: JsonObject) -> bytes:
        self._blocks.end_thought()
        return write_event("ping", {"router_rescue": seam})

    def write_ending(self, ending: Ending) -> bytes:
        if self._passed is not None:
            remainder, last = self._passed.rest(), self._passed.last(ending)
        else:
            stop = build_stop_fields(
                ending.finish_reason, ending.native_finish, ending.stop_sequence
            )
            usage = add_fetches(build_usage(ending.usage, ending.service_tier), self._fetches)
            last = {"delta": {**stop, "container": None}, "usage": usage}
            remainder = (b"" if self._begun else self.write_opening()) + self._blocks.finish()
        events = remainder + write_event("message_delta", last)
        return events + write_event("message_stop", _metadata_fields(ending.router_metadata))

    def error(self, error: JsonObject, *, router_metadata: JsonObject | None) -> bytes:
        metadata = None if error.get("code") == 500 else router_metadata
        return write_event("error", {"error": build_error(error), **_metadata_fields(metadata)})


def _metadata_fields(router_metadata: JsonObject | None) -> JsonObject:
    return {} if router_metadata is None else {"router_metadata": router_metadata}


class MessagesFormat:
    """See `CallerFormat`."""

    name = "messages"
    wire = WIRE
    id_prefix = "gen-"
    api_type = "completions"
    finishing_errors: frozenset[str] = frozenset()

    parse = staticmethod(parse_messages)
    new_call_id = staticmethod(tool_use_id)
    write_answer = staticmethod(build_answer)
    writer = MessagesStream

    def error_body(
        self, error: GatewayError, *, generation_id: str | None, beside: JsonObject
    ) -> JsonObject:
        metadata = beside.get("router_metadata")
        return build_error_body(error, generation_id=generation_id, router_metadata=metadata)


MESSAGES: Final[CallerFormat] = MessagesFormat()
