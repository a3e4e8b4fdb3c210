"""What an answer of several turns has used and cost so far. Sums stay exact until reported."""

from fractions import Fraction
from math import ceil
from typing import Final, NamedTuple

from routing.metering.byok import fee_bound_nano, fee_nano
from routing.metering.cost import NO_COST, Cost, ExactCost
from routing.metering.usage import Usage, add_usages

_NOTHING: Final = Fraction(0)


class Charge(NamedTuple):
    """What the account owes, and the list price of what was got with the team's own credentials
    (nano-USD). Where there is such a price, all but `shared_nano` of the charge is its fee."""

    charged_nano: int
    byok_nano: int
    shared_nano: int = 0


class Tally:
    """Turns of the model that was asked, and fees: of tools, and of models that tools asked."""

    def __init__(self) -> None:
        self.usage = Usage(prompt_tokens=0, completion_tokens=0)
        # Of the web: what tools found and read there, and what they searched with.
        self.search_results = self.fetches = 0
        self.search_engine: str | None = None
        self._cost = NO_COST
        self._turns_nano = self._own_turns_nano = _NOTHING
        self._fees_nano = self._own_fees_nano = _NOTHING
        # What providers bill for agents that nobody is charged for.
        self._lost_nano = _NOTHING

    def add_turn(self, usage: Usage, cost: ExactCost, *, is_own: bool, is_free: bool) -> None:
        """`is_free` is an answer that costs something upstream and that nobody is charged for."""
        self.usage = add_usages(self.usage, usage)
        self._cost = self._cost.plus(cost)
        if is_free:
            return
        if is_own:
            self._own_turns_nano += cost.total_nano
        else:
            self._turns_nano += cost.total_nano

    def add_searches(self, count: int) -> None:
        """Searches that tools made; what they cost is a fee."""
        self.usage = self.usage._replace(web_searches=self.usage.web_searches + count)

    def add_web(self, *, results: int, engine: str | None, fetches: int) -> None:
        self.search_results += results
        self.search_engine = engine or self.search_engine
        self.fetches += fetches

    def add_fee(self, nano: Fraction, *, own_nano: Fraction = _NOTHING) -> None:
        """`own_nano` is the list price of what a team's own credential paid for."""
        self._fees_nano += nano
        self._own_fees_nano += own_nano

    def add_fees_of(self, other: "Tally", *, turns: bool) -> None:
        """What another model that was asked for this answer has cost: its tools, and its `turns`
        where it gave an answer. The rest of what it cost is reported, and charged to nobody."""
        before_nano = self.total_nano
        self.add_fee(other._fees_nano, own_nano=other._own_fees_nano)
        if turns:
            self.add_fee(other._turns_nano, own_nano=other._own_turns_nano)
        self._lost_nano += other.total_nano - (self.total_nano - before_nano)

    @property
    def cost(self) -> Cost:
        """By the price lists, whoever pays; the parts are those of the model that was asked."""
        turns = self._cost
        return ExactCost(self.total_nano, turns.prompt_nano, turns.completion_nano).round()

    @property
    def total_nano(self) -> Fraction:
        fees_nano = self._fees_nano + self._own_fees_nano + self._lost_nano
        return self._cost.total_nano + fees_nano

    @property
    def whole_charge(self) -> Charge:
        """For an answer in full, or as far as its caller stayed."""
        return _charge(
            self._turns_nano + self._fees_nano, self._own_turns_nano + self._own_fees_nano
        )

    @property
    def fees(self) -> Charge:
        """For an answer that failed: no tokens, but what tools did."""
        return _charge(self._fees_nano, self._own_fees_nano)

    @property
    def most_owed(self) -> Charge:
        """The most that `whole` can come to by now, for a hold."""
        own_nano = ceil(self._own_turns_nano + self._own_fees_nano)
        return Charge(ceil(self._turns_nano + self._fees_nano) + fee_bound_nano(own_nano), own_nano)


def _charge(nano: Fraction, own_nano: Fraction) -> Charge:
    shared, own = round(nano), round(own_nano)
    return Charge(shared + fee_nano(own), own, shared if own else 0)
