"""Load balancing, by counting."""

import random
from collections import Counter
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.catalogue.entries import EndpointEntry
from routing.selection.ordering import balanced, price_of
from tests.routing.selection.entries import endpoint

RUNS = 10_000


def priced(tag: str, total: str, **changes: Any) -> EndpointEntry:
    """An endpoint whose prompt and completion price add up to `total`."""
    half = str(Decimal(total) / 2)
    return endpoint(tag, pricing={"prompt": half, "completion": half}, **changes)


def firsts(endpoints: list[EndpointEntry], *, unstable: str = "") -> Counter[str]:
    chance = random.Random(1).random
    return Counter(
        balanced(endpoints, stable=lambda each: each.tag != unstable, random=chance)[0].tag
        for _ in range(RUNS)
    )


def tags(endpoints: list[EndpointEntry], *, unstable: str = "", mark: float = 0.0) -> list[str]:
    ordered = balanced(endpoints, stable=lambda e: e.tag not in unstable, random=lambda: mark)
    return [each.tag for each in ordered]


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
    assert tags(three, unstable="two")[-1] == "two"


def test_the_weight_counts_the_discount() -> None:
    pricing = {"prompt": "0.000002", "completion": "0.000002", "discount": "0.5"}
    halved, plain = endpoint("halved", pricing=pricing), priced("plain", "0.000002")

    assert price_of(halved) == price_of(plain)
    assert firsts([halved, plain])["halved"] / RUNS == pytest.approx(0.5, abs=0.03)


@pytest.mark.parametrize("unit", ["0.0000000000000000001", "0.0000001", "1000"])
def test_the_ratio_holds_for_tiny_and_huge_prices(unit: str) -> None:
    dear = str(Decimal(unit) * 3)
    counted = firsts([priced("cheap", unit), priced("dear", dear)])

    assert counted["cheap"] / RUNS == pytest.approx(0.9, abs=0.015)


def test_free_endpoints_win_outright_and_evenly() -> None:
    counted = firsts([priced("paid", "0.0000000001"), priced("x", "0"), priced("y", "0")])

    assert counted["paid"] == 0
    assert counted["x"] / RUNS == pytest.approx(0.5, abs=0.03)


def test_after_the_first_comes_the_price_and_then_the_tag() -> None:
    four = [
        priced("d", "0.000004"),
        priced("b", "0.000002"),
        priced("c", "0.000002"),
        priced("a", "0.000001"),
    ]

    assert tags(four, mark=0.0) == ["a", "b", "c", "d"]
    assert tags(four, mark=0.9999) == ["d", "a", "b", "c"]


def test_the_unstable_come_last_by_price() -> None:
    four = [priced(tag, f"0.00000{n}") for n, tag in enumerate("abcd", start=1)]

    assert tags(four, unstable="ab") == ["c", "d", "a", "b"]
    assert tags(four, unstable="abcd") == ["a", "b", "c", "d"]


def test_one_endpoint_alone_hands_out_no_probe() -> None:
    def never(_: EndpointEntry) -> bool:
        raise AssertionError("its health makes no difference")

    only = priced("only", "0.000001")

    assert balanced([only], stable=never, random=random.random) == [only]


@given(
    prices=st.lists(st.integers(0, 10**6), min_size=1, max_size=8),
    mark=st.floats(0, 1, exclude_max=True),
    ill=st.sets(st.integers(0, 7)),
)
def test_an_order_is_a_permutation_with_the_stable_in_front(
    prices: list[int], mark: float, ill: set[int]
) -> None:
    endpoints = [priced(str(n), f"0.{price:09d}") for n, price in enumerate(prices)]

    ordered = balanced(endpoints, stable=lambda e: int(e.tag) not in ill, random=lambda: mark)

    assert sorted(each.pk for each in ordered) == sorted(each.pk for each in endpoints)
    if len(endpoints) > 1:
        stability = [int(each.tag) not in ill for each in ordered]
        assert stability == sorted(stability, reverse=True)
