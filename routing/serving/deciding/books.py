"""What the calls of one request for decisions took, and what of it is charged.

Calls of which nothing was used cost the gateway what they cost, and the caller nothing.
"""

from collections.abc import Iterable, Sequence
from functools import reduce
from typing import Final, NamedTuple

from gateway.http.errors import GatewayError
from routing.entities.prices import Prices
from routing.metering.byok import fee_nano
from routing.metering.cost import FREE, Cost, Units, cost_of
from routing.metering.usage import Usage, add_usages
from routing.serving.deciding.crew import Spent
from routing.serving.request.call import Attempt, Call
from routing.serving.request.outcome import CHARGE_MAX_NANO, Outcome, failed

_NO_USAGE: Final = Usage(prompt_tokens=0, completion_tokens=0)


class Charged(NamedTuple):
    """The price of what was used: on the gateway's credentials, and on the team's own."""

    shared_nano: int
    own_nano: int


class Books:
    """All calls of one request that were answered, by the attempt they belong to."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._spent: list[tuple[Attempt, Spent]] = []

    def add(self, attempt: Attempt, spent: Iterable[Spent]) -> None:
        self._spent += [(attempt, each) for each in spent]

    def charged(self) -> Charged:
        used = [(attempt, each) for attempt, each in self._spent if each.counts]
        shared = self._cost([pair for pair in used if pair[0].own is None])
        own = self._cost([pair for pair in used if pair[0].own is not None])
        return Charged(shared.total_nano, own.total_nano)

    def outcome(self) -> Outcome:
        """Every question was answered."""
        shared_nano, own_nano = self.charged()
        fee = fee_nano(own_nano)
        return Outcome(
            status=200,
            usage=_sum_of(each.usage for _, each in self._spent if each.counts),
            cost=self._cost(self._spent),
            charged_nano=shared_nano + fee,
            byok_nano=own_nano,
            shared_nano=shared_nano if own_nano else 0,
            finish_reason="stop",
        )

    def owed(self, error: GatewayError) -> Outcome:
        """Some question was not: nothing is charged, whatever was answered before."""
        if not self._spent:
            return failed(error)
        usage = _sum_of(each.usage for _, each in self._spent)
        return failed(error, usage=usage, cost=self._cost(self._spent))

    def _cost(self, spent: Sequence[tuple[Attempt, Spent]]) -> Cost:
        """Rounded once for each price list: a request may be at the prices of several."""
        lists: dict[Prices, list[Usage]] = {}
        for attempt, each in spent:
            prices = attempt.endpoint.prices
            assert prices is not None
            pinned = prices.effective(each.usage.prompt_tokens, self._call.created_at)
            lists.setdefault(pinned, []).append(each.usage)
        return _added([_priced(usages, prices) for prices, usages in lists.items()])


def _priced(usages: Sequence[Usage], prices: Prices) -> Cost:
    usage = _sum_of(usages)
    units = Units(requests=len(usages), web_searches=usage.web_searches)
    return cost_of(usage, prices, units)


def _added(costs: Sequence[Cost]) -> Cost:
    if not costs:
        return FREE
    return Cost(*[min(CHARGE_MAX_NANO, sum(parts)) for parts in zip(*costs, strict=True)])


def _sum_of(usages: Iterable[Usage]) -> Usage:
    return reduce(add_usages, usages, _NO_USAGE)
