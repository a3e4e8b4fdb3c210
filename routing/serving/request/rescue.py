"""Mid-stream rescue: the rest of an answer is asked of another endpoint, with what was said before.

Each part has its own attempt and its own cost (`Leg`). The caller is charged for all of them where
the answer is completed, and for none where nobody could finish it.
"""

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from gateway.http.jsonio import JsonObject
from routing.formats.chat.facts import utf8_bytes
from routing.formats.chat.request import ChatRequest
from routing.metering.usage import estimate_tokens
from routing.serving.request.legs import Leg
from routing.upstreams.failures import UpstreamFailure

if TYPE_CHECKING:
    from routing.formats.caller import StreamWriter
    from routing.serving.request.context import Attempt

_INSTRUCTION: Final = (
    "Your answer above was cut off by a technical fault. Continue it from exactly where it ends, "
    "even in the middle of a word. Write only what follows: repeat nothing, and do not mention the "
    "interruption."
)
_REFUSED: Final = 400
_CAPS: Final = ("max_tokens", "max_completion_tokens")


@dataclass
class Rescue:
    """What the parts of one stream have in common. All parts go out through `writer`, once the
    stream is open."""

    asked: ChatRequest
    delivered_text: str = ""
    legs: list[Leg] = field(default_factory=list)
    writer: "StreamWriter | None" = None
    # Endpoints, by key, that were sent the beginning of their answer, and that refused that.
    prefilled: set[int] = field(default_factory=set)
    refused: set[int] = field(default_factory=set)

    @property
    def completion_tokens(self) -> int:
        return sum(leg.usage.completion_tokens for leg in self.legs)

    def build_chat(self, *, prefills: bool) -> ChatRequest:
        """The request for the rest. The delivered text is the beginning of the answer (`prefills`),
        or stands above the instruction to go on."""
        asked = self._lower_caps()
        if not self.delivered_text:
            return asked
        text = self.delivered_text.rstrip() if prefills else self.delivered_text
        more: list[JsonObject] = [{"role": "assistant", "content": text}]
        if not prefills:
            more.append({"role": "user", "content": _INSTRUCTION})
        body = {**asked.body, "messages": [*asked.body["messages"], *more]}
        # The rest of a JSON document is none.
        body.pop("response_format", None)
        added = self.delivered_text if prefills else self.delivered_text + _INSTRUCTION
        return replace(
            asked,
            body=body,
            rewritten=True,
            echo_upstream_body=False,
            response_format_type=None,
            text_bytes=asked.text_bytes + utf8_bytes(added),
            prompt_text_chars=asked.prompt_text_chars + len(added),
            message_count=asked.message_count + len(more),
        )

    def _lower_caps(self) -> ChatRequest:
        """The caller's request for what is left of its maximum of tokens: thoughts and calls that
        were broken off have used it up as well."""
        asked, cap = self.asked, self.asked.max_output_tokens
        if cap is None:
            return asked
        produced = max(estimate_tokens(len(self.delivered_text)), self.completion_tokens)
        body = dict(asked.body)
        for name in _CAPS:
            if isinstance(each := body.get(name), int):
                body[name] = max(1, each - produced)
        return replace(asked, body=body, rewritten=True, max_output_tokens=max(1, cap - produced))

    def note_refusal(self, attempt: "Attempt", failure: UpstreamFailure) -> bool:
        """Whether the endpoint did not take the beginning of its answer, as not all models do: it
        is to be asked again with the instruction."""
        endpoint = attempt.endpoint.pk
        is_refused = failure.status == _REFUSED and endpoint in self.prefilled
        if is_refused:
            self.prefilled.discard(endpoint)
            self.refused.add(endpoint)
        return is_refused

    def describe_seam(self, attempt: "Attempt") -> JsonObject:
        """What the stream tells where this attempt goes on."""
        broken = self.legs[-1].attempt
        return {
            "from": {"provider": broken.endpoint.provider.name, "model": broken.endpoint.model_id},
            "to": {"provider": attempt.endpoint.provider.name, "model": attempt.endpoint.model_id},
            "said_chars": len(self.delivered_text),
        }
