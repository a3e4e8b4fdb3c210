"""One attempt's stream, bytes in and bytes out: upstream events become the caller's chunks.

No I/O happens here. What the attempt produced so far is kept for the books.
"""

from typing import Any

from routing.exchange import Event
from routing.formats.chat.answer import Served
from routing.formats.chat.chunks import DONE, ChatChunks
from routing.formats.chat.message import clean_delta, has_content, text_chars
from routing.formats.finish import normal_finish
from routing.ids import tool_call_id
from routing.serving.tool_calls import StreamedCalls
from routing.upstreams import openai
from routing.upstreams.failures import UpstreamFailure, from_error_object, malformed
from routing.upstreams.sse import EventTooLarge, SseParser

_FINGERPRINT_CHARS_MAX = 256


class ChatRelay:
    """`feed` upstream bytes until `ended`; both raise `UpstreamFailure` for what is no stream.

    `seen` tells of a first parsed event, `started` of content that was written. `usage`,
    `native_finish`, `service_tier`, `upstream_id`, `produced_chars` and `tool_calls` are what it
    said so far.
    What stood before a failure in one piece is given out first: the next `feed` raises it.
    """

    def __init__(self, served: Served, *, exclude_reasoning: bool, event_bytes_max: int) -> None:
        self.chunks = ChatChunks(served)
        self.seen = self.started = self.ended = False
        self.usage: Any = None
        self.native_finish: str | None = None
        self.service_tier: str | None = None
        self.upstream_id: str | None = None
        self.produced_chars = 0
        self.tool_calls = StreamedCalls()
        self._parser = SseParser(event_bytes_max)
        self._exclude_reasoning = exclude_reasoning
        self._has_tool_calls = self._refused = self._fingerprint_said = False
        self._has_choice = False
        self.failure: UpstreamFailure | None = None

    def feed(self, data: bytes) -> bytes:
        """The chunks for one piece of the upstream's body; `data` empty is its end."""
        if self.failure is not None:
            raise self.failure
        out: list[bytes] = []
        try:
            self._take(data, out)
        except UpstreamFailure as failure:
            self.failure = failure
            if not any(out):
                raise
        return b"".join(out)

    def _take(self, data: bytes, out: list[bytes]) -> None:
        try:
            events = self._parser.feed(data) if data else self._parser.finish()
        except EventTooLarge as error:
            raise malformed("a stream event is too large") from error
        for line in events:
            out.append(self._line(line))
        if not data and not self.ended:
            self._end_unmarked()

    @property
    def finish_reason(self) -> str:
        return normal_finish(
            self.native_finish, has_tool_calls=self._has_tool_calls, refused=self._refused
        )

    def closing(self, usage: dict[str, Any], router_metadata: dict[str, Any] | None) -> bytes:
        """The clean end: terminal chunk, usage chunk, `[DONE]`."""
        finish, native = self.finish_reason, self.native_finish
        last = self.chunks.usage(
            finish,
            native,
            usage=usage,
            service_tier=self.service_tier,
            router_metadata=router_metadata,
        )
        return self._opening() + self.chunks.terminal(finish, native) + last + DONE

    def _opening(self) -> bytes:
        if self.started:
            return b""
        self.started = True
        return self.chunks.first()

    def _line(self, data: bytes) -> bytes:
        if self.ended or not data:
            return b""
        if data[:6] == openai.DONE:
            if not self._has_choice:
                raise malformed("a stream without choices")
            self.ended = True
            return b""
        event = openai.event(data)
        if event.error is not None:
            raise from_error_object(event.error)
        self.seen = True
        self._has_choice = self._has_choice or event.has_choice
        self._note(event)
        delta = event.delta
        content = delta.get("content")
        if self.started and len(delta) == 1 and type(content) is str and content:
            # Nearly every chunk of nearly every stream.
            self.produced_chars += len(content)
            return self.chunks.delta(delta, event.logprobs)
        if not has_content(delta) and event.logprobs is None:
            return b""
        opening = b"" if self.started else self._opening()
        self.produced_chars += text_chars(delta)
        if len(delta) > 1 or "content" not in delta:
            delta = self._cleaned(delta)
            if not has_content(delta) and event.logprobs is None:
                return opening
        return opening + self.chunks.delta(delta, event.logprobs)

    def _cleaned(self, delta: dict[str, Any]) -> dict[str, Any]:
        if calls := delta.get("tool_calls"):
            self._has_tool_calls = True
            self.tool_calls.add(calls)
        self._refused = self._refused or bool(delta.get("refusal"))
        return clean_delta(
            delta, exclude_reasoning=self._exclude_reasoning, new_call_id=tool_call_id
        )

    def _note(self, event: Event) -> None:
        if event.usage is not None:
            self.usage = event.usage
        if event.service_tier is not None:
            self.service_tier = openai.word(event.service_tier)
        if self.upstream_id is None:
            self.upstream_id = openai.word(event.upstream_id)
        if event.system_fingerprint and not self._fingerprint_said:
            self._fingerprint_said = True
            # It is repeated in every chunk, so its length is a factor of all that goes out.
            self.chunks.fingerprint(str(event.system_fingerprint)[:_FINGERPRINT_CHARS_MAX])
        if event.native_finish:
            self.native_finish = openai.word(event.native_finish)
            if self.finish_reason == "error":
                raise from_error_object({"message": "the upstream broke off its answer"})

    def _end_unmarked(self) -> None:
        """The connection closed without `[DONE]`: an end where the model had finished."""
        if self.native_finish is None:
            broken = malformed("the stream broke off")
            broken.outage = True
            raise broken
        self.ended = True
