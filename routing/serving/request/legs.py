"""What a request owes for attempts beside the one that answered it. These are the parts of a stream
that were broken off (`rescue`), and the cancelled loser of a race (`Hedge`)."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from gateway.http.jsonio import JsonObject
from routing.metering.byok import fee_bound_nano
from routing.metering.cost import FREE, Cost
from routing.metering.usage import Usage, add_usages

if TYPE_CHECKING:
    from routing.serving.request.context import Attempt

_NOTHING: Final = Usage(prompt_tokens=0, completion_tokens=0)


class Leg(NamedTuple):
    """One such attempt, and what its provider bills."""

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
class Hedge:
    """The one race of a request: an endpoint that has given no content for a while is raced by a
    second one. `racing` are its attempts, `winner` the one whose content came first, `legs` what
    the provider of a cancelled one bills."""

    delay_s: float
    racing: "list[Attempt]"
    winner: "Attempt | None" = None
    legs: list[Leg] = field(default_factory=list)

    def describe(self) -> JsonObject:
        """As the trace keeps it, for operators and the caller."""
        attempts = []
        for attempt in self.racing:
            result = "failed" if attempt.failure is not None else "left"
            if attempt is self.winner:
                result = "won"
            elif attempt.is_cancelled:
                result = "cancelled"
            leg = next((each for each in self.legs if each.attempt is attempt), None)
            attempts.append(
                {
                    "endpoint_id": attempt.endpoint.tag,
                    "model": attempt.endpoint.model_id,
                    "result": result,
                    "tokens_prompt": leg.usage.prompt_tokens if leg else 0,
                    "tokens_completion": leg.usage.completion_tokens if leg else 0,
                    "cost_nano": leg.cost.total_nano if leg else 0,
                }
            )
        return {"after_ms": round(self.delay_s * 1000), "attempts": attempts}


def sum_charges(legs: Sequence[Leg]) -> tuple[int, int]:
    """What the legs cost at list price (nano-USD): on the gateway's credentials, and on the team's
    own."""
    own = sum(leg.cost.total_nano for leg in legs if leg.attempt.own is not None)
    return sum(leg.cost.total_nano for leg in legs) - own, own


def bound_charges(legs: Sequence[Leg]) -> tuple[int, int]:
    """The most that the legs come to, for a hold: of the account's money, and at list price on the
    team's own credentials."""
    shared, own = sum_charges(legs)
    return shared + fee_bound_nano(own), own


def sum_legs(
    legs: Sequence[Leg], usage: Usage = _NOTHING, cost: Cost = FREE, *, most_nano: int
) -> tuple[Usage, Cost]:
    """Usage and cost of the legs and of what came after them."""
    for leg in legs:
        usage = add_usages(leg.usage, usage)
        cost = Cost(*[min(most_nano, sum(parts)) for parts in zip(leg.cost, cost, strict=True)])
    return usage, cost
