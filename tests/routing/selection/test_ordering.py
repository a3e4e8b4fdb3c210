"""Who is tried first: load balancing by counting, every other rule by table."""

import random
from collections import Counter
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.catalogue.entries import EndpointEntry
from routing.selection.ask import (
    Ask,
    Figures,
    Percentiles,
    Plan,
    Policy,
    Sort,
    Standing,
    State,
)
from routing.selection.select import select
from tests.routing.selection.entries import endpoint, model

RUNS = 10_000
CHAT = Ask(kinds=frozenset({"openai"}))


def priced(tag: str, total: str, **changes: Any) -> EndpointEntry:
    """An endpoint whose prompt and completion price add up to `total`."""
    half = str(Decimal(total) / 2)
    return endpoint(tag, pricing={"prompt": half, "completion": half}, **changes)


class Market:
    """Endpoints `a`, `b`, … of one model, at 1, 2, … dollars per million tokens."""

    def __init__(self, *endpoints: EndpointEntry, tags: str = "abcd") -> None:
        dearer = [priced(tag, f"0.00000{n}") for n, tag in enumerate(tags, start=1)]
        self.models = [model(*(endpoints or dearer))]
        self.pks = {each.tag: each.pk for own in self.models for each in own.endpoints}

    def keys(self, tags: Iterable[str]) -> frozenset[int]:
        return frozenset(self.pks[tag] for tag in tags)

    def figures(self, **figures: Figures) -> dict[int, Figures]:
        return {self.pks[tag]: told for tag, told in figures.items()}

    def plan(
        self,
        *,
        unstable: Iterable[str] = (),
        parked: Iterable[str] = (),
        half_open: Iterable[str] = (),
        mark: float = 0.0,
        ask: Ask = CHAT,
        figures: dict[int, Figures] | None = None,
        sticky: str | None = None,
        by_session: bool = False,
        byok: dict[str, int] | None = None,
        **wishes: Any,
    ) -> Plan:
        standing = Standing(self.keys(unstable), self.keys(parked), self.keys(half_open))
        state = State(
            figures=figures or {},
            standing=standing,
            sticky=None if sticky is None else self.pks[sticky],
            sticky_by_session=by_session,
            byok={self.pks[tag]: place for tag, place in (byok or {}).items()},
        )
        return select(self.models, ask, Policy(**wishes), state, random=lambda: mark)

    def tags(self, **told: Any) -> str:
        return " ".join(each.tag for each in self.plan(**told).order)


def firsts(endpoints: list[EndpointEntry], *, unstable: str = "") -> Counter[str]:
    market, chance = Market(*endpoints), random.Random(1).random
    state = State(standing=Standing(market.keys(unstable.split())))
    return Counter(
        select(market.models, CHAT, Policy(), state, random=chance).order[0].tag
        for _ in range(RUNS)
    )


def quick(tps: float, *, latency_s: float = 1.0) -> Figures:
    return Figures(
        latency_s=Percentiles(*(latency_s * n for n in (1, 2, 3, 4))),
        throughput_tps=Percentiles(*(tps / n for n in (1, 2, 3, 4))),
    )


# --- Load balancing -------------------------------------------------------------------------------


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


# --- Sorts ----------------------------------------------------------------------------------------

KNOWN = {
    "a": quick(10, latency_s=0.5),
    "b": quick(90, latency_s=2.0),
    "c": quick(90, latency_s=1.0),
}
SORTED: list[tuple[Sort, str]] = [
    ("price", "a b c d"),
    ("throughput", "b c a d"),
    ("latency", "a c b d"),
    ("exacto", "b c a d"),
]


@pytest.mark.parametrize(("sort", "tags"), SORTED)
def test_a_sort_puts_the_unknown_last_and_equals_by_price(sort: Sort, tags: str) -> None:
    market = Market()
    figures = market.figures(**KNOWN)

    # Whatever is drawn, and whoever is unwell.
    for mark in (0.0, 0.99):
        assert market.tags(sort=sort, figures=figures, mark=mark) == tags
        assert market.tags(sort=sort, figures=figures, unstable="a", parked="b") == tags
    assert market.plan(sort=sort).rule == sort
    assert market.tags(sort=sort) == "a b c d"


def test_equal_prices_are_sorted_by_tag() -> None:
    market = Market(*(priced(tag, "0.000001") for tag in ("c", "a", "b")))

    assert market.tags(sort="price") == "a b c"


def test_exacto_has_the_unknown_between_good_and_poor_records() -> None:
    market = Market(tags="abcdef")
    figures = market.figures(
        a=Figures(tool_success=0.89),
        b=Figures(tool_success=0.9),
        d=Figures(tool_success=1.0),
        e=Figures(tool_success=0.2, throughput_tps=Percentiles(500, 400, 300, 200)),
        f=Figures(throughput_tps=Percentiles(50, 40, 30, 20)),
    )

    assert market.tags(sort="exacto", figures=figures) == "d b f c a e"


@given(
    st.lists(st.one_of(st.none(), st.floats(0.001, 1000)), min_size=1, max_size=8),
    st.sampled_from(["throughput", "latency"]),
)
def test_a_sort_obeys_its_figure(values: list[float | None], sort: Sort) -> None:
    market = Market(*(priced(str(n), f"0.{n + 1:06d}") for n in range(len(values))))
    field = "throughput_tps" if sort == "throughput" else "latency_s"
    known_of: list[dict[str, Any]] = [
        {field: value and Percentiles(*[value] * 4)} for value in values
    ]
    figures = {market.pks[str(n)]: Figures(**known) for n, known in enumerate(known_of)}

    order = [values[int(each.tag)] for each in market.plan(sort=sort, figures=figures).order]

    known = [value for value in order if value is not None]
    assert order[: len(known)] == known
    assert known == sorted(known, reverse=sort == "throughput")


# --- A list of the caller's -----------------------------------------------------------------------

LISTED: list[tuple[dict[str, Any], str]] = [
    ({"order": ("c", "b")}, "c b a d"),
    ({"order": ("C", "nobody", "c")}, "c a b d"),
    ({"order": ("nobody",)}, "a b c d"),
    ({"order": ("d",), "sort": "price"}, "d a b c"),
    ({"order": ("c", "b"), "mark": 0.99}, "c b d a"),
    ({"order": ("c", "b"), "unstable": "cd"}, "c b a d"),
    ({"order": ("c", "b"), "sticky": "a", "by_session": True}, "c b a d"),
    ({"order": ("d", "c"), "allow_fallbacks": False}, "d c"),
]


@pytest.mark.parametrize(("told", "tags"), LISTED)
def test_what_is_listed_comes_first_and_as_it_is_listed(told: dict[str, Any], tags: str) -> None:
    assert Market().tags(**told) == tags
    assert Market().plan(**told).rule == "order"


def test_a_base_slug_stands_for_its_endpoints_cheapest_first() -> None:
    market = Market(
        priced("x/dear", "0.000009"),
        priced("x", "0.000005"),
        priced("y", "0.000001"),
        priced("x/cheap", "0.000002"),
        priced("x/flex", "0.000001", tier="flex"),
    )

    assert market.tags(order=("x",)) == "x/cheap x x/dear y"
    assert market.tags(order=("x/dear", "x")) == "x/dear x/cheap x y"
    assert market.tags(order=("y", "X/Dear")) == "y x/dear x/cheap x"
    # Naming a tier's endpoint opens it, and gives it the place it is named at.
    assert market.tags(order=("x", "y", "x/flex")) == "x/cheap x x/dear y x/flex"


# --- Service tiers --------------------------------------------------------------------------------


def tiered() -> Market:
    return Market(
        priced("a", "0.000001"),
        priced("b", "0.000002"),
        priced("p", "0.000008", tier="priority"),
        priced("q", "0.000009", tier="priority"),
        priced("f", "0.0000005", tier="flex"),
        priced("g", "0.0000001", tier="flex"),
    )


def test_priority_goes_first_by_throughput() -> None:
    market, ask = tiered(), CHAT._replace(service_tier="priority")
    figures = market.figures(p=quick(10), q=quick(20))

    assert market.tags(ask=ask) == "p q a b"
    assert market.tags(ask=ask, figures=figures, mark=0.99) == "q p b a"
    assert market.tags(ask=ask, figures=figures, sort="price") == "q p a b"
    assert market.plan(ask=ask).rule == "priority"


def test_flex_goes_by_price_and_stays_flex() -> None:
    market, ask = tiered(), CHAT._replace(service_tier="flex")

    for told in ({}, {"mark": 0.99}, {"sort": "throughput", "figures": market.figures(f=quick(9))}):
        assert market.tags(ask=ask, **told) == "g f"
    assert market.plan(ask=ask).rule == "flex"
    none = Market()
    assert none.tags(ask=ask, mark=0.99) == "d a b c"
    assert none.plan(ask=ask).rule == "balanced"


def test_a_tier_that_a_suffix_opened_is_sorted_with_the_others() -> None:
    market = tiered()

    floor = {"sort": "price", "admitted_tiers": frozenset({"flex"})}
    assert market.tags(**floor) == "g f a b"
    nitro = {"sort": "throughput", "admitted_tiers": frozenset({"priority"})}
    assert market.tags(**nitro, figures=market.figures(b=quick(20), q=quick(30))) == "q b a p"


# --- Thresholds -----------------------------------------------------------------------------------

CUTOFFS: list[tuple[dict[str, Any], str]] = [
    ({"min_throughput_tps": {"p50": 50}}, "b c d a"),
    ({"min_throughput_tps": {"p50": 90}}, "b c d a"),
    ({"min_throughput_tps": {"p50": 91}}, "d a b c"),
    ({"min_throughput_tps": {"p99": 22.5}}, "b c d a"),
    ({"max_latency_s": {"p50": 1}}, "a c d b"),
    ({"max_latency_s": {"p90": 2.9}}, "a d b c"),
    ({"max_latency_s": {"p50": 1}, "min_throughput_tps": {"p50": 50}}, "c d a b"),
    ({"max_latency_s": {"p50": 9, "p99": 1}}, "d a b c"),
    ({"max_latency_s": {"p50": 9}}, "a b c d"),
    ({"min_throughput_tps": {"p50": 91}, "sort": "latency"}, "d a c b"),
    ({"min_throughput_tps": {"p50": 50}, "order": ("a", "c")}, "c b d a"),
]


@pytest.mark.parametrize(("cutoffs", "tags"), CUTOFFS)
def test_who_meets_every_cutoff_goes_first_and_nobody_is_excluded(
    cutoffs: dict[str, Any], tags: str
) -> None:
    market = Market()

    assert market.tags(figures=market.figures(**KNOWN), **cutoffs) == tags
    unknown = {name: value for name, value in cutoffs.items() if name != "order"}
    assert market.tags(**unknown) == "a b c d"


# --- Several models -------------------------------------------------------------------------------


class TwoModels(Market):
    """`a` and `d` of model one, `b` and `c` of model two."""

    def __init__(self) -> None:
        a, b, c, d = (priced(tag, f"0.00000{n}") for n, tag in enumerate("abcd", start=1))
        self.models = [model(a, d, id="acme/one"), model(b, c, id="acme/two")]
        self.pks = {each.tag: each.pk for own in self.models for each in own.endpoints}


ACROSS: list[tuple[dict[str, Any], str]] = [
    ({}, "a d b c"),
    ({"mark": 0.99}, "d a c b"),
    ({"sort": "price"}, "a d b c"),
    ({"sort": "price", "across_models": True}, "a b c d"),
    ({"across_models": True}, "a b c d"),
    ({"across_models": True, "mark": 0.99999}, "d a b c"),
    ({"order": ("c", "d")}, "d a c b"),
    ({"order": ("c", "d"), "across_models": True}, "c d a b"),
    ({"max_latency_s": {"p50": 1}}, "a c d b"),
    ({"max_latency_s": {"p50": 1}, "across_models": True}, "a c b d"),
    ({"sticky": "c"}, "c a d b"),
    ({"byok": {"d": 0, "b": 1}}, "d a b c"),
    ({"byok": {"d": 1, "b": 0}, "across_models": True}, "b d a c"),
    ({"byok": {"d": 0}, "max_latency_s": {"p50": 1}}, "d c a b"),
    ({"allow_fallbacks": False}, "a"),
    ({"allow_fallbacks": False, "models_named": True}, "a b"),
    ({"allow_fallbacks": False, "models_named": True, "mark": 0.99}, "d c"),
    ({"allow_fallbacks": False, "order": ("c", "d", "b")}, "d"),
    ({"allow_fallbacks": False, "order": ("c", "d", "b"), "models_named": True}, "d c b"),
    ({"allow_fallbacks": False, "models_named": True, "sticky": "c"}, "c a"),
]


@pytest.mark.parametrize(("told", "tags"), ACROSS)
def test_models_keep_their_places_but_for_what_reaches_across(
    told: dict[str, Any], tags: str
) -> None:
    market = TwoModels()
    slow = market.figures(b=quick(10, latency_s=2), d=quick(10, latency_s=2))

    assert market.tags(figures=slow, **told) == tags


def test_what_may_not_be_fallen_back_to_is_told() -> None:
    plan = Market().plan(allow_fallbacks=False)

    assert [each.tag for each in plan.order] == ["a"]
    assert {(each.endpoint.tag, each.step) for each in plan.removed} == {
        (tag, "Fallbacks Disabled") for tag in "bcd"
    }
    assert len(plan.considered) == 4


# --- Own credentials and conversations ------------------------------------------------------------

OWN: list[tuple[dict[str, Any], str]] = [
    ({"byok": {"c": 0}}, "c a b d"),
    ({"byok": {"c": 1, "d": 0}}, "d c a b"),
    ({"byok": {"c": 0, "d": 0}}, "c d a b"),
    ({"byok": {"c": 0}, "order": ("b",)}, "c b a d"),
    ({"byok": {"c": 0}, "sort": "price"}, "c a b d"),
    ({"byok": {"c": 0}, "unstable": "c"}, "c a b d"),
    ({"byok": {"c": 0}, "sticky": "b"}, "b c a d"),
]


@pytest.mark.parametrize(("told", "tags"), OWN)
def test_own_credentials_go_first_whatever_else_is_said(told: dict[str, Any], tags: str) -> None:
    assert Market().tags(**told) == tags


STICKY: list[tuple[dict[str, Any], str]] = [
    ({}, "c a b d"),
    ({"by_session": True}, "c a b d"),
    ({"unstable": "c"}, "c a b d"),
    ({"parked": "c"}, "a b d c"),
    ({"sort": "price"}, "c a b d"),
    ({"sort": "price", "sort_named": True}, "a b c d"),
    ({"sort": "price", "sort_named": True, "by_session": True}, "c a b d"),
    ({"order": ("b",)}, "b a c d"),
    ({"only": ("a", "b")}, "a b"),
    ({"max_latency_s": {"p50": 0.1}}, "c a b d"),
    ({"allow_fallbacks": False}, "c"),
]


@pytest.mark.parametrize(("told", "tags"), STICKY)
def test_a_conversation_stays_where_it_was(told: dict[str, Any], tags: str) -> None:
    market = Market()
    figures = market.figures(c=quick(1, latency_s=9)) if "max_latency_s" in told else None

    assert market.tags(sticky="c", figures=figures, **told) == tags


def test_an_endpoint_that_is_gone_is_remembered_in_vain() -> None:
    market = Market()
    state = State(sticky=10**9)

    order = select(market.models, CHAT, Policy(), state, random=lambda: 0.0).order

    assert [each.tag for each in order] == ["a", "b", "c", "d"]
