"""A stream that another upstream may go on with: its relay, and what is noted of each part."""

from typing import Any

from gateway.http.jsonio import JsonObject
from routing.formats.chat.answer import has_content
from routing.serving.admission.endpoint_limits import settle_attempt
from routing.serving.attempts.relay import Keeps, Relay
from routing.serving.request.context import Attempt, RequestProgress
from routing.serving.request.legs import Leg
from routing.serving.request.outcome import measure_usage, note_house_cost, price
from routing.serving.request.rescue import Rescue
from routing.serving.tool_loop.loop_relay import Recorder, Tee

# What only one model can have begun: nobody else goes on with a picture or a voice.
_UNTOLD = ("images", "audio")


class RescueRelay(Relay):
    """See `Relay`. Calls of tools are told once the upstream has ended well: one that broke off is
    made anew by the next upstream, and none is told twice."""

    def __init__(
        self,
        *given: Any,
        rescue: Rescue,
        seam: JsonObject | None,
        is_prefilled: bool,
        kept: Keeps | None,
        **options: Any,
    ) -> None:
        self._seam = seam
        self._recorder = Recorder()
        self._draft = kept
        self.can_go_on = True
        # How many blanks at the end of what was said this upstream was not shown, and how many of
        # those that it said again were left out.
        self._blanks_left = len(rescue.said) - len(rescue.said.rstrip()) if is_prefilled else 0
        self._dropped = 0
        super().__init__(*given, kept=Tee(self._recorder, kept), **options)

    @property
    def delivered_text(self) -> str:
        """The text that the caller has got of this part."""
        return (self._recorder.message["content"] or "")[self._dropped :]

    def _read_payloads(self, data: bytes, out: list[bytes]) -> None:
        super()._read_payloads(data, out)
        if self.ended and (calls := self._recorder.message.get("tool_calls")):
            told = self._clean_delta(
                {"tool_calls": [{"index": place, **call} for place, call in enumerate(calls)]}
            )
            if self._draft is not None:
                self._draft.add(told)
            out.append(self._write_opening() + self.writer.delta(told))

    def _translate_delta(self, delta: JsonObject, logprobs: object) -> bytes:
        if delta.get("tool_calls"):
            self._has_tool_calls = True
        if "tool_calls" in delta:
            delta = {name: each for name, each in delta.items() if name != "tool_calls"}
        if not has_content(delta) and logprobs is None:
            return b""
        self.can_go_on = self.can_go_on and not any(delta.get(name) for name in _UNTOLD)
        text = delta.get("content")
        if self._blanks_left and isinstance(text, str) and text:
            delta = {**delta, "content": self._drop_blanks(text)}
            if not has_content(delta):
                return b""
        return super()._translate_delta(delta, logprobs)

    def _drop_blanks(self, text: str) -> str:
        """The text without the blanks at its beginning that the caller has got already."""
        blanks = min(self._blanks_left, len(text) - len(text.lstrip()))
        self._blanks_left = self._blanks_left - blanks if blanks == len(text) else 0
        self._dropped += blanks
        return text[blanks:]

    def _write_opening(self) -> bytes:
        if self.started:
            return b""
        if self._seam is None:
            return super()._write_opening()
        # The caller's stream is open.
        self.started = True
        return self.writer.mark_seam(self._seam)


def begin_rescue(progress: RequestProgress, attempt: Attempt, relay: Relay) -> bool:
    """Note what the attempt has said before it broke off, and what that costs; False where nobody
    can go on with it."""
    rescue = progress.rescue
    if rescue is None or not isinstance(relay, RescueRelay) or not relay.can_go_on:
        return False
    # Nobody pays for the rest of an answer that is kept back.
    if progress.output_guard is not None and progress.output_guard.withheld:
        return False
    usage = measure_usage(progress, attempt, relay.usage, relay.produced_chars)
    note_house_cost(progress, attempt, usage)
    settle_attempt(attempt, usage.total_tokens)
    attempt.upstream_id = relay.upstream_id
    rescue.legs.append(Leg(attempt, usage, price(progress, attempt, usage)))
    rescue.said += relay.delivered_text
    rescue.writer = relay.writer
    chat = rescue.build_chat(prefills=False)
    demand = progress.context.demand._replace(
        text_bytes=chat.text_bytes,
        messages=chat.message_count,
        output_tokens_asked=chat.max_output_tokens,
    )
    progress.context = progress.context._replace(chat=chat, demand=demand)
    return True
