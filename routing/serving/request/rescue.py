"""Mid-stream rescue: the rest of an answer is asked of another endpoint, with what was said before.

Each part has its own attempt and its own cost (`Leg`). The caller is charged for all of them where
the answer comes to its end, and for none where nobody could finish it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from gateway.http.jsonio import JsonObject
from routing.formats.chat.facts import utf8_bytes
from routing.formats.chat.request import ChatRequest
from routing.metering.byok import fee_bound_nano, fee_nano
from routing.metering.cost import FREE, Cost
from routing.metering.usage import Usage, add_usages, estimate_tokens
from routing.upstreams.failures import UpstreamFailure

if TYPE_CHECKING:
    from routing.formats.caller import StreamWriter
    from routing.serving.request.context import Attempt
    from routing.serving.request.outcome import Outcome

_INSTRUCTION: Final = (
    "Your answer above was cut off by a technical fault. Continue it from exactly where it ends, "
    "even in the middle of a word. Write only what follows: repeat nothing, and do not mention the "
    "interruption."
)
_NOTHING: Final = Usage(prompt_tokens=0, completion_tokens=0)
_REFUSED: Final = 400
_CAPS: Final = ("max_tokens", "max_completion_tokens")


class Leg(NamedTuple):
    """A part of an answer that its upstream broke off."""

    attempt: "Attempt"
    usage: Usage
    cost: Cost

    def describe(self) -> JsonObject:
        """As the record keeps it, for operators."""
        return {
            "endpoint": self.attempt.endpoint.tag,
            "model": self.attempt.endpoint.model_id,
            "tokens_prompt": self.usage.prompt_tokens,
            "tokens_completion": self.usage.completion_tokens,
            "cost_nano": self.cost.total_nano,
        }


@dataclass
class Rescue:
    """What the parts of one stream have in common. `said` is the text that its caller has got,
    `writer` the one that all parts go out through, once the stream is open."""

    asked: ChatRequest
    said: str = ""
    legs: list[Leg] = field(default_factory=list)
    writer: "StreamWriter | None" = None
    # Endpoints, by key, that were sent the beginning of their answer, and that refused that.
    prefilled: set[int] = field(default_factory=set)
    refused: set[int] = field(default_factory=set)

    @property
    def completion_tokens(self) -> int:
        return sum(leg.usage.completion_tokens for leg in self.legs)

    @property
    def charges(self) -> tuple[int, int]:
        """What the legs cost at list price (nano-USD): on the gateway's credentials, and on the
        team's own."""
        own = sum(leg.cost.total_nano for leg in self.legs if leg.attempt.own is not None)
        return sum(leg.cost.total_nano for leg in self.legs) - own, own

    @property
    def most_owed(self) -> tuple[int, int]:
        """The most that the legs come to, for a hold: of the account's money, and at list price on
        the team's own credentials."""
        shared, own = self.charges
        return shared + fee_bound_nano(own), own

    def build_chat(self, *, prefills: bool) -> ChatRequest:
        """The request for the rest: what was said is the beginning of the answer (`prefills`), or
        stands above the instruction to go on."""
        asked = self._lower_caps()
        if not self.said:
            return asked
        said = self.said.rstrip() if prefills else self.said
        more: list[JsonObject] = [{"role": "assistant", "content": said}]
        if not prefills:
            more.append({"role": "user", "content": _INSTRUCTION})
        body = {**asked.body, "messages": [*asked.body["messages"], *more]}
        # The rest of a JSON document is none.
        body.pop("response_format", None)
        added = self.said if prefills else self.said + _INSTRUCTION
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
        produced = max(estimate_tokens(len(self.said)), self.completion_tokens)
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
            "said_chars": len(self.said),
        }


def sum_legs(
    legs: Sequence[Leg], usage: Usage = _NOTHING, cost: Cost = FREE, *, most_nano: int
) -> tuple[Usage, Cost]:
    """Usage and cost of the legs and of what came after them."""
    for leg in legs:
        usage = add_usages(leg.usage, usage)
        cost = Cost(*[min(most_nano, sum(parts)) for parts in zip(leg.cost, cost, strict=True)])
    return usage, cost


def include_legs(outcome: "Outcome", rescue: Rescue, *, is_own: bool, most_nano: int) -> "Outcome":
    """The outcome of the last part, made that of the whole answer. `is_own` says that the last part
    was got with the team's own credential."""
    shared_nano, own_nano = rescue.charges
    if is_own:
        own_nano += outcome.byok_nano
    else:
        shared_nano += outcome.charged_nano
    usage, cost = sum_legs(rescue.legs, outcome.usage, outcome.cost, most_nano=most_nano)
    return outcome._replace(
        usage=usage,
        cost=cost,
        charged_nano=min(most_nano, shared_nano + fee_nano(own_nano)),
        byok_nano=own_nano,
        shared_nano=shared_nano if own_nano else 0,
    )
