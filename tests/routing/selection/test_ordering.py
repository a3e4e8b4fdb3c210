"""Who is tried first where something else than load balancing says it: sorts, a list of the
caller's, service tiers, thresholds."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.selection.ask import Figures, Percentiles, Sort
from tests.routing.selection.markets import CHAT, KNOWN, Market, priced, quick

# --- Sorts ----------------------------------------------------------------------------------------

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

    for mark in (0.0, 0.99):
        assert market.tags(sort=sort, figures=figures, mark=mark) == tags
    assert market.plan(sort=sort).rule == sort
    assert market.tags(sort=sort) == "a b c d"


@pytest.mark.parametrize(("sort", "tags"), SORTED)
def test_whoever_failed_a_moment_ago_comes_last_in_a_default_sort(sort: Sort, tags: str) -> None:
    """Else every request would wait for it first, and take a retry from the budget of all."""
    market = Market()
    told: dict[str, Any] = {
        "sort": sort,
        "sort_is_default": True,
        "figures": market.figures(**KNOWN),
    }

    found = market.tags(**told, unstable="a", parked="c", failing="b").split()

    assert found == sorted(tags.split(), key=lambda tag: tag in "ac")
    assert market.tags(**told, unstable="abcd") == tags


@pytest.mark.parametrize(("sort", "tags"), SORTED)
def test_a_sort_of_the_callers_holds_until_an_endpoint_is_failing(sort: Sort, tags: str) -> None:
    market = Market()
    told: dict[str, Any] = {"sort": sort, "figures": market.figures(**KNOWN), "unstable": "a"}

    assert market.tags(**told, parked="c") == tags
    found = market.tags(**told, failing="ac").split()
    assert found == sorted(tags.split(), key=lambda tag: tag in "ac")
    assert market.tags(order=("c",), **told, failing="c") == " ".join(
        ["c", *(tag for tag in tags.split() if tag != "c")]
    )


def test_without_a_sort_outages_decide() -> None:
    ask = CHAT._replace(service_tier="priority")

    assert Market().tags(unstable="a", failing="b", mark=0.99) == "d b c a"
    assert tiered().tags(ask=ask, unstable="p", failing="q") == "q a b p"
    assert tiered().tags(ask=ask, sort="price", unstable="p", failing="q") == "p a b q"


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
