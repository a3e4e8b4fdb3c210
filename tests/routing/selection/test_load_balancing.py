"""Load balancing: who is tried first, by counting, and who comes after."""

import random
from collections import Counter
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.catalogue.entries import EndpointEntry
from routing.selection.ask import Policy, Standing, State
from routing.selection.select import select
from tests.routing.selection.entries import endpoint
from tests.routing.selection.markets import CHAT, Market, priced

RUNS = 10_000


def firsts(endpoints: list[EndpointEntry], *, unstable: str = "") -> Counter[str]:
    market, chance = Market(*endpoints), random.Random(1).random
    state = State(standing=Standing(market.keys(unstable.split())))
    return Counter(
        select(market.models, CHAT, Policy(), state, random=chance).order[0].tag
        for _ in range(RUNS)
    )


def test_prices_one_to_three_are_chosen_nine_to_one() -> None:
    counted = firsts([priced("cheap", "0.000001"), priced("dear", "0.000003")])

    assert counted["cheap"] + counted["dear"] == RUNS
    # Nine tenths, give or take five standard deviations of a fair draw.
    assert counted["cheap"] / RUNS == pytest.approx(0.9, abs=0.015)


def test_the_example_of_the_reference() -> None:
    three = [priced("one", "0.000001"), priced("two", "0.000002"), priced("three", "0.000003")]

    counted = firsts(three, unstable="two")

    assert counted["two"] == 0
    assert counted["one"] / counted["three"] == pytest.approx(9, rel=0.15)
    assert Market(*three).tags(unstable=["two"]).endswith(" two")


def test_the_weight_counts_the_discount() -> None:
    pricing = {"prompt": "0.000002", "completion": "0.000002", "discount": "0.5"}
    halved, plain = endpoint("halved", pricing=pricing), priced("plain", "0.000002")

    assert halved.token_usd == plain.token_usd
    assert firsts([halved, plain])["halved"] / RUNS == pytest.approx(0.5, abs=0.03)


@pytest.mark.parametrize("unit", ["0.0000000000000000001", "0.0000001", "1000"])
def test_the_ratio_holds_for_tiny_and_huge_prices(unit: str) -> None:
    dear = str(Decimal(unit) * 3)
    counted = firsts([priced("cheap", unit), priced("dear", dear)])

    assert counted["cheap"] / RUNS == pytest.approx(0.9, abs=0.015)


def test_free_endpoints_win_outright_and_evenly() -> None:
    market = [priced("paid", "0.0000000001"), priced("x", "0"), priced("y", "0")]

    counted = firsts(market)

    assert counted["paid"] == 0
    assert counted["x"] / RUNS == pytest.approx(0.5, abs=0.03)


def test_equal_prices_are_drawn_evenly() -> None:
    counted = firsts([priced(tag, "0.000001") for tag in "abcd"])

    assert all(share / RUNS == pytest.approx(0.25, abs=0.022) for share in counted.values())


def test_the_plan_tells_the_weights_of_its_draw() -> None:
    market = Market(priced("a", "0.000001"), priced("b", "0.000003"), priced("c", "0.000001"))

    assert market.plan(unstable=["c"]).weights == pytest.approx(
        {market.pks["a"]: 0.9, market.pks["b"]: 0.1}
    )
    free = Market(priced("a", "0"), priced("b", "0"), priced("c", "1"))
    assert free.plan().weights == {free.pks["a"]: 0.5, free.pks["b"]: 0.5}
    assert market.plan(sort="price").weights == {}
    assert market.plan(unstable="bc").weights == {}


def test_after_the_first_comes_the_price_and_then_the_tag() -> None:
    four = [
        priced("d", "0.000004"),
        priced("b", "0.000002"),
        priced("c", "0.000002"),
        priced("a", "0.000001"),
    ]

    assert Market(*four).tags(mark=0.0) == "a b c d"
    assert Market(*four).tags(mark=0.9999) == "d a b c"


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


@given(
    prices=st.lists(st.integers(0, 10**6), min_size=1, max_size=8),
    mark=st.floats(0, 1, exclude_max=True),
    ill=st.sets(st.integers(0, 7)),
)
def test_an_order_is_a_permutation_with_the_stable_in_front(
    prices: list[int], mark: float, ill: set[int]
) -> None:
    market = Market(*(priced(str(n), f"0.{price:09d}") for n, price in enumerate(prices)))
    unstable = [tag for tag in market.pks if int(tag) in ill]

    plan = market.plan(unstable=unstable, mark=mark)

    assert sorted(each.pk for each in plan.order) == sorted(market.pks.values())
    stability = [each.tag not in unstable for each in plan.order]
    assert stability == sorted(stability, reverse=True)
    assert sum(plan.weights.values()) == pytest.approx(1 if plan.weights else 0)
