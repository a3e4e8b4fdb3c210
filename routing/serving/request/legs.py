"""What a request owes for attempts beside the one that answered it: the parts of a stream that were
broken off (`rescue`), and what had lost a race when it was cancelled (`hedge`)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from gateway.http.jsonio import JsonObject
from routing.metering.byok import fee_bound_nano, fee_nano
from routing.metering.cost import FREE, Cost
from routing.metering.usage import Usage, add_usages

if TYPE_CHECKING:
    from routing.serving.request.context import Attempt
    from routing.serving.request.outcome import Outcome

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


def include_legs(
    outcome: "Outcome", legs: Sequence[Leg], *, is_own: bool, most_nano: int
) -> "Outcome":
    """The outcome of the attempt that answered, made that of the whole request. `is_own` says that
    it was made with the team's own credential."""
    shared_nano, own_nano = sum_charges(legs)
    if is_own:
        own_nano += outcome.byok_nano
    else:
        shared_nano += outcome.charged_nano
    usage, cost = sum_legs(legs, outcome.usage, outcome.cost, most_nano=most_nano)
    return outcome._replace(
        usage=usage,
        cost=cost,
        charged_nano=min(most_nano, shared_nano + fee_nano(own_nano)),
        byok_nano=own_nano,
        shared_nano=shared_nano if own_nano else 0,
    )
