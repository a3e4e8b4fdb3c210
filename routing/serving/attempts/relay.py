"""One attempt's stream, bytes in and bytes out: upstream events become the caller's.

No I/O happens here. What the attempt produced so far is kept for the books.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from gateway.http.jsonio import JsonObject
from routing.entities.exchange import Event, Native, ProviderExtras, StreamReader
from routing.entities.ids import tool_call_id
from routing.formats.caller import Ending, StreamWriter
from routing.formats.chat.answer import clean_delta, count_text_chars, has_content, normalize_finish
from routing.serving.request.tool_call_checks import StreamedCalls
from routing.upstreams.base import read_word
from routing.upstreams.failures import UpstreamFailure, from_error_object, malformed_answer
from routing.upstreams.sse import EventTooLarge, SseParser

_FINGERPRINT_CHARS_MAX: Final = 256
# Openings are one to three events. An upstream that sends more of them without any content is
# believed to be answering after all.
_HELD_EVENTS_MAX: Final = 100


class Keeps(Protocol):
    """A listener of the answer."""

    def add(self, delta: Mapping[str, Any]) -> None: ...


class Relay:
    """`feed_bytes` of upstreams until `ended`; both raise `UpstreamFailure` for what is no stream.

    With `passes` the upstream speaks the caller's format: its events go through as they are, those
    before the first content once that is there. `seen` says that a first event was parsed,
    `started` that content was written. `usage`, `native_finish`, `service_tier`, `upstream_id`,
    `produced_chars` and `tool_calls` are what it said so far; `kept` hears every delta. What stood
    before a failure in one piece is given out first: the next `feed_bytes` raises it.
    """

    def __init__(
        self,
        writer: StreamWriter,
        reader: StreamReader,
        *,
        passes: bool,
        exclude_reasoning: bool,
        event_bytes_max: int,
        kept: Keeps | None = None,
        new_call_id: Callable[[], str] = tool_call_id,
    ) -> None:
        self.writer = writer
        self.seen = self.started = self.ended = False
        self.usage: Any = None
        self.native_finish: str | None = None
        self.service_tier: str | None = None
        self.upstream_id: str | None = None
        self.produced_chars = 0
        self.tool_calls = StreamedCalls()
        self.failure: UpstreamFailure | None = None
        self._reader = reader
        self._parser = SseParser(event_bytes_max)
        self._passes = passes
        self._exclude_reasoning = exclude_reasoning
        self._has_tool_calls = self._fingerprint_sent = False
        self._stop_sequence: str | None = None
        self._beside: ProviderExtras | None = None
        # The payload that is being read, where it may pass, and the one with the finish.
        self._current_payload: Native | None = None
        self._finish_payload: Native | None = None
        self._held: list[Native] = []
        self._held_bytes_left = event_bytes_max
        self._kept = kept
        self._new_call_id = new_call_id

    def feed_bytes(self, data: bytes) -> bytes:
        """What to write for one piece of the upstream's body; `data` empty is its end."""
        if self.failure is not None:
            raise self.failure
        out: list[bytes] = []
        try:
            self._read_payloads(data, out)
        except UpstreamFailure as failure:
            self.failure = failure
            if not any(out):
                raise
        return b"".join(out)

    def feed_unread(self, data: bytes | None) -> None:
        """`feed_bytes` for a caller who left: only the books want to know. None is no piece."""
        try:
            if data is not None:
                self.feed_bytes(data)
        except UpstreamFailure:
            self.ended = True

    @property
    def finish_reason(self) -> str:
        return normalize_finish(self.native_finish, has_tool_calls=self._has_tool_calls)

    def write_citations(self, annotations: list[JsonObject]) -> bytes:
        """What the answer cites, at its end. Events that pass as they are have no place for it."""
        if not annotations or self._passes:
            return b""
        return self.open_stream() + self.writer.delta({"annotations": annotations})

    def write_closing(
        self,
        usage: JsonObject,
        router_metadata: JsonObject | None,
        *,
        failure: JsonObject | None = None,
        finish_reason: str | None = None,
    ) -> bytes:
        """The clean end, or one by a `failure` that the caller's format takes for an end. `usage`
        is the report of what was charged, `finish_reason` another than the upstream gave."""
        finish = finish_reason or self.finish_reason
        ending = Ending(
            finish_reason=finish if failure is None else "length",
            native_finish=self.native_finish if finish == self.finish_reason else None,
            usage=usage,
            service_tier=self.service_tier,
            stop_sequence=self._stop_sequence,
            native=self._finish_payload,
            failure=failure,
            router_metadata=router_metadata,
            beside=self._beside,
        )
        return self.open_stream() + self.writer.write_ending(ending)

    def _read_payloads(self, data: bytes, out: list[bytes]) -> None:
        try:
            payloads = self._parser.feed_bytes(data) if data else self._parser.finish()
        except EventTooLarge as error:
            raise malformed_answer("a stream event is too large") from error
        for payload in payloads:
            if self.ended:
                return
            if payload:
                for event in self._reader.events(payload):
                    out.append(self._write_event(event))
                self.ended = self._reader.ended
        if not data and not self.ended:
            # The connection closed without the wire's own end.
            if self.native_finish is None:
                broken = malformed_answer("the stream broke off")
                broken.outage = True
                raise broken
            self.ended = True

    def _write_event(self, event: Event) -> bytes:
        if event.error is not None:
            # What the upstream bills of a failure is in the books, though nobody pays it.
            self.usage = self.usage if event.usage is None else event.usage
            raise from_error_object(event.error)
        self.seen = True
        self._note_event(event)
        if self._kept is not None and event.delta:
            self._kept.add(event.delta)
        if self._passes:
            return self._pass_through(event)
        delta = event.delta
        content = delta.get("content")
        if self.started and len(delta) == 1 and type(content) is str and content:
            # Nearly every event of nearly every stream.
            self.produced_chars += len(content)
            return self.writer.delta(delta, event.logprobs)
        if not has_content(delta) and event.logprobs is None:
            return b""
        self.produced_chars += count_text_chars(delta)
        return self._translate_delta(delta, event.logprobs)

    def _translate_delta(self, delta: JsonObject, logprobs: object) -> bytes:
        """The delta in the caller's format, and before it what opens the stream."""
        opening = b"" if self.started else self.open_stream()
        if len(delta) > 1 or "content" not in delta:
            delta = self._clean_delta(delta)
            if not has_content(delta) and logprobs is None:
                return opening
        return opening + self.writer.delta(delta, logprobs)

    def _pass_through(self, event: Event) -> bytes:
        """The event as it came; nothing is written before the first content."""
        delta, native = event.delta, event.native
        if delta:
            self.produced_chars += count_text_chars(delta)
            self._note_kinds(delta)
        if self.started:
            return self.writer.write_native(native) if native is not None else b""
        if native is not None:
            self._held.append(native)
            self._held_bytes_left -= len(native.raw)
        is_full = len(self._held) > _HELD_EVENTS_MAX or self._held_bytes_left < 0
        return self.open_stream() if is_full or has_content(delta) else b""

    def open_stream(self) -> bytes:
        """What opens the stream, once."""
        if self.started:
            return b""
        self.started = True
        if not self._passes:
            return self.writer.write_opening()
        held, self._held = self._held, []
        return b"".join(map(self.writer.write_native, held))

    def _clean_delta(self, delta: JsonObject) -> JsonObject:
        self._note_kinds(delta)
        return clean_delta(
            delta, exclude_reasoning=self._exclude_reasoning, new_call_id=self._new_call_id
        )

    def _note_kinds(self, delta: JsonObject) -> None:
        if calls := delta.get("tool_calls"):
            self._has_tool_calls = True
            self.tool_calls.add(calls)

    def _note_event(self, event: Event) -> None:
        if event.usage is not None:
            self.usage = event.usage
        if event.service_tier is not None:
            self.service_tier = read_word(event.service_tier)
        if self.upstream_id is None:
            self.upstream_id = read_word(event.upstream_id)
        if event.system_fingerprint and not self._fingerprint_sent:
            self._fingerprint_sent = True
            # It is repeated in every chunk, so its length is a factor of all that goes out.
            self.writer.set_fingerprint(str(event.system_fingerprint)[:_FINGERPRINT_CHARS_MAX])
        if (later := event.beside) is not None:
            earlier = self._beside or ProviderExtras({}, {})
            self._beside = ProviderExtras(
                _merge_objects(earlier.answer, later.answer),
                _merge_objects(earlier.choice, later.choice),
            )
        if event.stop_sequence is not None:
            self._stop_sequence = event.stop_sequence
        if self._passes and event.native is not None:
            self._current_payload = event.native
        if event.native_finish:
            self.native_finish = read_word(event.native_finish)
            self._finish_payload = self._current_payload
            if self.finish_reason == "error":
                raise from_error_object({"message": "the upstream broke off its answer"})


def _merge_objects(earlier: JsonObject, later: JsonObject) -> JsonObject:
    """What was said later has the last word, within objects too."""
    joined = earlier | later
    for name in earlier.keys() & later.keys():
        if isinstance(earlier[name], dict) and isinstance(later[name], dict):
            joined[name] = earlier[name] | later[name]
    return joined
