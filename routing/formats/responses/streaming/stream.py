"""The streaming answer (inference reference 5.5)."""

from typing import Any, Final

from gateway.http.jsonio import dumps
from routing.entities.exchange import Native
from routing.formats.caller import Activity, Ending, Pieces, Whole
from routing.formats.chat.answer import Served
from routing.formats.chat.chunks import DONE, KEEP_ALIVE, without_payloads
from routing.formats.chat.request import ChatRequest
from routing.formats.responses.ids import stem_of
from routing.formats.responses.output import Output
from routing.formats.responses.passed import PassedOutput
from routing.formats.responses.response import (
    Verdict,
    native_progress,
    native_response,
    response_object,
    verdict_of,
)
from routing.formats.responses.streaming.events import TERMINAL, Events

# An upstream's own word on how it went is said by the gateway, which knows what is charged.
_KEPT_BACK: Final = TERMINAL | {"error", "response.cancelled"}
_BY_STATUS: Final = {"incomplete": "response.incomplete", "failed": "response.failed"}
_WRITTEN_ANEW: Final = frozenset({"type", "sequence_number", "response"})
_BREAKS: Final = (b"\n", b"\r")


class ResponsesStream:
    """Writes the events of one stream."""

    keep_alive = KEEP_ALIVE

    def __init__(self, served: Served, request: ChatRequest) -> None:
        self._served = served
        self._request = request
        self._stem = stem_of(served.generation_id)
        self._events = Events()
        self._output = Output(self._events, self._stem)
        self._passed = PassedOutput()

    def fingerprint(self, value: str) -> None:
        """This format has no place for it."""

    def debug(self, upstream_body: dict[str, Any]) -> bytes:
        shown = {"echo_upstream_body": without_payloads(upstream_body)}
        return self._events.say("response.debug", {"debug": shown})

    def first(self) -> bytes:
        begun = {"response": response_object(self._served, self._request, self._stem)}
        created = self._events.say("response.created", begun)
        return created + self._events.say("response.in_progress", begun)

    def delta(self, delta: dict[str, Any], logprobs: Any = None) -> bytes:
        return self._output.add(delta, logprobs)

    def passed(self, native: Native) -> bytes:
        kind, value, number = native.name, native.value, self._events.number
        if kind in _KEPT_BACK or not kind.isprintable() or not kind:
            # A name with a line break in it would be two lines of the stream.
            return b""
        own = value.get("response")
        if isinstance(own, dict):
            patched = native_progress(own, self._served, self._request, self._stem)
            value = {**value, "response": patched}
        self._passed.take(kind, value)
        is_same = value is native.value and value.get("sequence_number") == number
        if is_same and not any(mark in native.raw for mark in _BREAKS):
            return self._events.say_raw(kind, native.raw)
        return self._events.say_raw(kind, dumps({**value, "sequence_number": number}))

    def tool_began(self, activity: Activity) -> bytes:
        return self._output.begin_tool(activity)

    def tool_ended(self, activity: Activity) -> bytes:
        return self._output.end_tool(activity)

    def closing(self, ending: Ending) -> bytes:
        verdict = verdict_of(ending, has_output=self._has_output)
        out = self._output.finish(cut=verdict.is_cut)
        final = self._final(ending, verdict)
        status = final.get("status")
        kind = _BY_STATUS.get(str(status), "response.completed")
        out += self._events.say(kind, {**_beside(ending.native), "response": final})
        return out if kind == "response.failed" else out + DONE

    def error(self, error: dict[str, Any], *, router_metadata: dict[str, Any] | None) -> bytes:
        self._output.drop()
        failed = response_object(
            self._served,
            self._request,
            self._stem,
            verdict=Verdict("failed", failure=error),
            output=self._items(),
            router_metadata=router_metadata,
        )
        return self._events.say("response.failed", {"response": failed})

    def whole(self, whole: Whole) -> dict[str, Any]:
        """The response object of an answer that came at once: the same that a stream of it would
        end with."""
        ending = whole.ending
        if whole.pieces:
            self._add_pieces(whole.pieces)
        elif ending.native is None:
            self._output.add(whole.message, whole.logprobs)
        verdict = verdict_of(ending, has_output=self._has_output)
        self._output.finish(cut=verdict.is_cut)
        return self._final(ending, verdict)

    def _add_pieces(self, pieces: Pieces) -> None:
        for piece in pieces:
            if isinstance(piece, Activity):
                self._output.begin_tool(piece)
                self._output.end_tool(piece)
            else:
                self._output.add(piece, piece.get("logprobs"))

    @property
    def _has_output(self) -> bool:
        return not (self._passed.is_empty and self._output.is_empty)

    def _items(self) -> list[dict[str, Any]]:
        return self._passed.items or self._output.items

    def _final(self, ending: Ending, verdict: Verdict) -> dict[str, Any]:
        if ending.native is not None:
            return native_response(ending.native, self._served, self._request, self._stem, ending)
        return response_object(
            self._served,
            self._request,
            self._stem,
            verdict=verdict,
            output=self._items(),
            usage=ending.usage,
            service_tier=ending.service_tier,
            router_metadata=ending.router_metadata,
        )


def _beside(native: Native | None) -> dict[str, Any]:
    """What an upstream's own last event says beside its response."""
    if native is None or "response" not in native.value:
        return {}
    return {name: item for name, item in native.value.items() if name not in _WRITTEN_ANEW}
