"""Load balancing by counting: who comes first how often, against the reference's weights."""

from collections import Counter
from math import sqrt
from random import Random
from typing import Any

import pytest

from routing.selection.ask import Ask, Policy, Standing, State
from routing.selection.select import select
from tests.routing.selection.entries import endpoint, model

DRAWS = 20_000
# One honest run in fifteen thousand would miss by more; the seed makes each run the same.
DEVIATIONS = 4
ASK = Ask(kinds=frozenset({"openai"}))


def tolerance(share: float, draws: int = DRAWS) -> float:
    """How far a counted share may be off: so many standard deviations of the binomial."""
    return DEVIATIONS * sqrt(share * (1 - share) / draws)


def priced(**usd_per_million: str) -> Any:
    """A model whose endpoints, by tag, cost so much for a prompt and a completion together."""
    return model(
        *(
            endpoint(tag, pricing={"prompt": f"{usd}e-6", "completion": "0"})
            for tag, usd in usd_per_million.items()
        )
    )


def firsts(chosen: Any, state: State | None = None, policy: Policy | None = None) -> Counter[str]:
    chance = Random(7)
    plans = (
        select([chosen], ASK, policy or Policy(), state or State(), random=chance.random)
        for _ in range(DRAWS)
    )
    return Counter(plan.order[0].tag for plan in plans)


SHARES: dict[str, tuple[dict[str, str], dict[str, float]]] = {
    "1 : 3 is 9 : 1": ({"a": "1", "b": "3"}, {"a": 0.9, "b": 0.1}),
    "the order of the rows says nothing": ({"b": "3", "a": "1"}, {"a": 0.9, "b": 0.1}),
    "1 : 2 : 4 is 16 : 4 : 1": (
        {"a": "1", "b": "2", "c": "4"},
        {"a": 16 / 21, "b": 4 / 21, "c": 1 / 21},
    ),
    "ties share alike": ({"a": "2", "b": "2", "c": "2"}, {"a": 1 / 3, "b": 1 / 3, "c": 1 / 3}),
    "ties beside a dearer one": ({"a": "1", "b": "3", "c": "1"}, {"a": 9 / 19, "c": 9 / 19}),
    "one that is free wins outright": ({"a": "0.001", "b": "0"}, {"b": 1.0}),
    "free ones share alike": ({"a": "0", "b": "5", "c": "0"}, {"a": 0.5, "c": 0.5}),
    "all are free": ({"a": "0", "b": "0"}, {"a": 0.5, "b": 0.5}),
    "nano-dollars and dollars": ({"a": "0.001", "b": "1000"}, {"a": 1.0}),
}


@pytest.mark.parametrize("name", SHARES)
def test_the_first_is_drawn_by_the_inverse_square_of_its_price(name: str) -> None:
    prices, shares = SHARES[name]
    counted = firsts(priced(**prices))
    for tag, share in shares.items():
        assert counted[tag] / DRAWS == pytest.approx(share, abs=tolerance(share)), counted


def test_the_example_of_the_reference() -> None:
    """Prices 1, 2, 3, and the second has just failed: 1 or 3 as 9 : 1, the failed one last."""
    chosen = priced(a="1", b="2", c="3")
    failed = {each.pk for each in chosen.endpoints if each.tag == "b"}
    state = State(standing=Standing(unstable=frozenset(failed)))

    counted = firsts(chosen, state)

    assert counted.keys() == {"a", "c"}
    assert counted["a"] / DRAWS == pytest.approx(0.9, abs=tolerance(0.9))
    plan = select([chosen], ASK, Policy(), state, random=Random(7).random)
    assert plan.order[-1].tag == "b"


def test_a_parked_endpoint_is_drawn_by_nobody() -> None:
    chosen = priced(a="1", b="3")
    state = State(standing=Standing(parked=frozenset({chosen.endpoints[0].pk})))

    assert firsts(chosen, state) == {"b": DRAWS}


def test_with_nobody_stable_the_cheapest_comes_first() -> None:
    chosen = priced(a="3", b="1")
    state = State(standing=Standing(unstable=frozenset(each.pk for each in chosen.endpoints)))

    assert firsts(chosen, state) == {"b": DRAWS}


@pytest.mark.parametrize("sort", ["price", "throughput", "latency", "exacto"])
def test_a_sort_draws_nothing(sort: Any) -> None:
    assert len(firsts(priced(a="1", b="1"), policy=Policy(sort=sort))) == 1
