"""Hedged requests: an endpoint that has given no content for a while is raced by a second one."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gateway.http.jsonio import JsonObject
from routing.serving.request.legs import Leg

if TYPE_CHECKING:
    from routing.serving.request.context import Attempt


@dataclass
class Hedge:
    """The one race of a request. `racing` are its attempts, `winner` the one whose content came
    first, `legs` what the provider of a cancelled one bills."""

    delay_s: float
    racing: "list[Attempt]"
    winner: "Attempt | None" = None
    legs: list[Leg] = field(default_factory=list)

    def describe(self) -> JsonObject:
        """As the trace keeps it, for operators and the caller."""
        return {
            "after_ms": round(self.delay_s * 1000),
            "attempts": [self._describe_attempt(attempt) for attempt in self.racing],
        }

    def _describe_attempt(self, attempt: "Attempt") -> JsonObject:
        result = "failed" if attempt.failure is not None else "left"
        if attempt is self.winner:
            result = "won"
        elif attempt.is_cancelled:
            result = "cancelled"
        leg = next((each for each in self.legs if each.attempt is attempt), None)
        return {
            "endpoint_id": attempt.endpoint.tag,
            "model": attempt.endpoint.model_id,
            "result": result,
            "tokens_prompt": leg.usage.prompt_tokens if leg else 0,
            "tokens_completion": leg.usage.completion_tokens if leg else 0,
            "cost_nano": leg.cost.total_nano if leg else 0,
        }
