"""Load balancing: who is tried first, by counting, and who comes after."""

from collections import Counter
from decimal import Decimal
from math import sqrt
from random import Random
from typing import Any

import pytest

from routing.selection.select import select
from routing.selection.types import EndpointState, HealthSnapshot, Policy
from tests.routing.selection.entries import endpoint
from tests.routing.selection.markets import CHAT, Market, priced

DRAWS = 10_000
# One honest run in fifteen thousand would miss by more; the seed makes each run the same.
DEVIATIONS = 4


def shares(market: Market, *, unstable: str = "") -> dict[str, float]:
    """How often each endpoint came first."""
    chance = Random(7).random
    state = EndpointState(health=HealthSnapshot(market.keys(unstable)))
    plans = (select(market.models, CHAT, Policy(), state, random=chance) for _ in range(DRAWS))
    counted = Counter(plan.order[0].tag for plan in plans)
    return {tag: count / DRAWS for tag, count in counted.items()}


def about(expected: dict[str, float]) -> dict[str, Any]:
    """Within so many standard deviations of the binomial."""
    return {
        tag: pytest.approx(share, abs=DEVIATIONS * sqrt(share * (1 - share) / DRAWS))
        for tag, share in expected.items()
    }


def costing(**usd_per_million: str) -> Market:
    """Endpoints by tag, with what a prompt and a completion token cost together."""
    return Market(
        *(priced(tag, str(Decimal(usd).scaleb(-6))) for tag, usd in usd_per_million.items())
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

    assert shares(costing(**prices)) == about(expected)


def test_the_example_of_the_reference() -> None:
    """Prices 1, 2, 3, and the second has just failed: 1 or 3 as 9 : 1, the failed one last."""
    market = Market(tags="abc")

    assert shares(market, unstable="b") == about({"a": 0.9, "c": 0.1})
    assert market.tags(unstable="b", mark=0.99) == "c a b"


def test_the_weight_counts_the_discount() -> None:
    pricing = {"prompt": "0.000002", "completion": "0.000002", "discount": "0.5"}

    market = Market(endpoint("halved", pricing=pricing), priced("plain", "0.000002"))

    assert market.plan().weights == dict.fromkeys(market.pks.values(), 0.5)


def test_the_plan_tells_the_weights_of_its_draw() -> None:
    market, free = costing(a="1", b="3", c="1"), costing(a="0", b="0", c="1")

    told = market.plan(unstable="c").weights
    assert told == pytest.approx({market.pks["a"]: 0.9, market.pks["b"]: 0.1})
    assert free.plan().weights == {free.pks["a"]: 0.5, free.pks["b"]: 0.5}
    assert market.plan(unstable="bc").weights == market.plan(sort="price").weights == {}


def test_after_the_first_comes_the_price_and_then_the_tag() -> None:
    market = costing(d="4", b="2", c="2", a="1")

    assert market.tags(mark=0.0) == "a b c d"
    assert market.tags(mark=0.9999) == "d a b c"


def test_the_unstable_and_the_parked_come_last_by_price() -> None:
    market = Market()

    assert market.tags(unstable="ab") == "c d a b"
    assert market.tags(parked="ab") == "c d a b"
    assert market.tags(unstable="b", parked="a") == "c d a b"
    assert market.tags(unstable="abcd") == "a b c d"


def test_a_half_open_endpoint_is_probed_by_the_request_that_begins_with_it() -> None:
    market = Market()

    assert market.plan(half_open="a").probe == market.pks["a"]
    assert market.plan(half_open="b").probe is None
    assert market.plan(half_open="b", mark=0.8).probe == market.pks["b"]
    assert market.plan(half_open="a", unstable="a").order[0].tag == "b"
    assert market.plan(half_open="d", order=("d",)).probe == market.pks["d"]
