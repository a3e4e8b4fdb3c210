"""Load balancing: who is tried first, by counting, and who comes after."""

from collections import Counter
from decimal import Decimal

import pytest

from tests.routing.selection.entries import endpoint
from tests.routing.selection.markets import Market, priced_endpoint

# A mark in the middle of each thousandth: what is counted is exact but for one at each border.
MARKS = [(number + 0.5) / 1000 for number in range(1000)]


def count_firsts(market: Market) -> dict[str, float]:
    """How often each endpoint came first."""
    counted = Counter(market.plan(mark=mark).order[0].tag for mark in MARKS)
    return {tag: count / len(MARKS) for tag, count in counted.items()}


def costing(**usd_per_million: str) -> Market:
    """Endpoints by tag, with what a prompt and a completion token cost together."""
    return Market(
        *(
            priced_endpoint(tag, str(Decimal(usd).scaleb(-6)))
            for tag, usd in usd_per_million.items()
        )
    )


SHARES: dict[str, tuple[dict[str, str], dict[str, float]]] = {
    "1 : 3 is 9 : 1": ({"a": "1", "b": "3"}, {"a": 0.9, "b": 0.1}),
    "the order of the rows says nothing": ({"b": "3", "a": "1"}, {"a": 0.9, "b": 0.1}),
    "1 : 2 : 4 is 16 : 4 : 1": (
        {"a": "1", "b": "2", "c": "4"},
        {"a": 16 / 21, "b": 4 / 21, "c": 1 / 21},
    ),
    "ties share alike": ({"a": "2", "b": "2", "c": "2"}, {"a": 1 / 3, "b": 1 / 3, "c": 1 / 3}),
    "ties beside a dearer one": (
        {"a": "1", "b": "3", "c": "1"},
        {"a": 9 / 19, "b": 1 / 19, "c": 9 / 19},
    ),
    "one that is free wins outright": ({"a": "0.0001", "b": "0"}, {"b": 1.0}),
    "free ones share alike": ({"a": "0", "b": "5", "c": "0"}, {"a": 0.5, "c": 0.5}),
    "nano-dollars and dollars": ({"a": "0.001", "b": "1000"}, {"a": 1.0}),
    "tiny prices": ({"a": "0.0000000000001", "b": "0.0000000000003"}, {"a": 0.9, "b": 0.1}),
    "huge prices": ({"a": "1000000000", "b": "3000000000"}, {"a": 0.9, "b": 0.1}),
}


@pytest.mark.parametrize("name", SHARES)
def test_the_first_is_drawn_by_the_inverse_square_of_its_price(name: str) -> None:
    prices, expected = SHARES[name]

    assert count_firsts(costing(**prices)) == pytest.approx(expected, abs=0.002)


def test_the_weight_counts_the_discount() -> None:
    pricing = {"prompt": "0.000002", "completion": "0.000002", "discount": "0.5"}

    market = Market(endpoint("halved", pricing=pricing), priced_endpoint("plain", "0.000002"))

    assert market.plan().weights == dict.fromkeys(market.pks.values(), 0.5)


def test_the_plan_tells_the_weights_of_its_draw() -> None:
    market, free = costing(a="1", b="3", c="1"), costing(a="0", b="0", c="1")

    told = market.plan(unstable="c").weights
    assert told == pytest.approx({market.pks["a"]: 0.9, market.pks["b"]: 0.1})
    assert free.plan().weights == {free.pks["a"]: 0.5, free.pks["b"]: 0.5}
    assert market.plan(unstable="bc").weights == market.plan(sort="price").weights == {}
