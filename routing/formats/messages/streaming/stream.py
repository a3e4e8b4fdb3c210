"""The streaming answer of messages (inference reference 4.7)."""

from collections.abc import Iterator
from typing import Any, Final

from gateway.http.jsonio import dumps
from routing.entities.exchange import Native
from routing.formats.caller import Activity, Ending
from routing.formats.chat.answer import Served
from routing.formats.chat.request import ChatRequest
from routing.formats.messages.answer import envelope, is_silent
from routing.formats.messages.errors import error_object
from routing.formats.messages.passing import PassedEvents
from routing.formats.messages.pieces import citations_of, details_of, fragments_of, text_of
from routing.formats.messages.server_use import fetches_of, result_of, use_of
from routing.formats.messages.streaming.block_writer import BlockWriter
from routing.formats.messages.streaming.frames import DELTA_END, PING, frame
from routing.formats.messages.usage import NO_USAGE, stop_of, usage_of, with_fetches

_CHARS_PER_TOKEN: Final = 4


class MessagesStream:
    """See `StreamWriter`."""

    __slots__ = ("_begun", "_blocks", "_fetches", "_passed", "_prompt_chars", "_served")

    keep_alive = PING

    def __init__(self, served: Served, request: ChatRequest) -> None:
        self._served = served
        self._prompt_chars = request.prompt_text_chars
        self._blocks = BlockWriter(silent=is_silent(request))
        self._passed: PassedEvents | None = None
        self._begun = False
        self._fetches = 0

    def fingerprint(self, value: str) -> None:
        """The format has no place for it."""

    def debug(self, upstream_body: dict[str, Any]) -> bytes:
        """The format does not show it."""
        return b""

    def first(self) -> bytes:
        self._begun = True
        # The upstream tells its count with the end; until then the estimator's stands.
        usage = {**NO_USAGE, "input_tokens": max(1, self._prompt_chars // _CHARS_PER_TOKEN)}
        message = {**envelope(self._served), "usage": usage}
        return frame("message_start", {"message": message}) + PING

    def delta(self, delta: dict[str, Any], logprobs: Any = None) -> bytes:
        blocks = self._blocks
        if len(delta) == 1:
            # Nearly every delta of nearly every stream.
            text = delta.get("content")
            if type(text) is str and text and (head := blocks.text_head) is not None:
                return b"%b%b%b" % (head, dumps(text), DELTA_END)
            if "tool_calls" in delta:
                return b"".join(map(blocks.call, fragments_of(delta["tool_calls"])))
        return b"".join(self._pieces(delta))

    def _pieces(self, delta: dict[str, Any]) -> Iterator[bytes]:
        blocks = self._blocks
        yield from map(blocks.reason, details_of(delta))
        if text := text_of(delta.get("content")) + text_of(delta.get("refusal")):
            yield blocks.text(text)
        yield from map(blocks.cite, citations_of(delta.get("annotations")))
        yield from map(blocks.call, fragments_of(delta.get("tool_calls")))

    def passed(self, native: Native) -> bytes:
        if self._passed is None:
            self._passed = PassedEvents(self._served, self.first)
        return self._passed.event(native)

    def tool_began(self, activity: Activity) -> bytes:
        return self._blocks.whole(*use_of(activity))

    def tool_ended(self, activity: Activity) -> bytes:
        result = result_of(activity)
        self._fetches += fetches_of(activity)
        return self._blocks.whole(result) if result is not None else b""

    def closing(self, ending: Ending) -> bytes:
        if self._passed is not None:
            rest, last = self._passed.rest(), self._passed.last(ending)
        else:
            stop = stop_of(ending.finish_reason, ending.native_finish, ending.stop_sequence)
            usage = with_fetches(usage_of(ending.usage, ending.service_tier), self._fetches)
            last = {"delta": {**stop, "container": None}, "usage": usage}
            rest = (b"" if self._begun else self.first()) + self._blocks.finish()
        said = rest + frame("message_delta", last)
        return said + frame("message_stop", _beside(ending.router_metadata))

    def error(self, error: dict[str, Any], *, router_metadata: dict[str, Any] | None) -> bytes:
        told = None if error.get("code") == 500 else router_metadata
        return frame("error", {"error": error_object(error), **_beside(told)})


def _beside(router_metadata: dict[str, Any] | None) -> dict[str, Any]:
    return {} if router_metadata is None else {"router_metadata": router_metadata}
