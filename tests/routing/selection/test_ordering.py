"""Who is tried first by sorts, tiers and thresholds; all else is compared in `test_oracle`."""

from typing import Any

import pytest

from routing.selection.types import EndpointStats, Percentiles, Sort
from tests.routing.selection.markets import CHAT, KNOWN, Market, priced_endpoint, quick

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
    # Equal prices are sorted by tag.
    assert Market(*(priced_endpoint(tag, "0.000001") for tag in "cab")).tags(sort=sort) == "a b c"


@pytest.mark.parametrize(("sort", "tags"), SORTED)
def test_a_default_sort_puts_the_unhealthy_last_and_a_caller_s_only_who_is_failing(
    sort: Sort, tags: str
) -> None:
    """Else every request would wait for it first, and take a retry from the budget of all."""
    market = Market()
    usual: dict[str, Any] = {"sort": sort, "figures": market.figures(**KNOWN), "unstable": "a"}
    moved = " ".join(sorted(tags.split(), key=lambda tag: tag in "ac"))

    assert market.tags(**usual, parked="c", sort_is_default=True) == moved
    assert market.tags(**usual, parked="c") == tags
    assert market.tags(**usual, failing="ac") == moved


def test_exacto_has_the_unknown_between_good_and_poor_records() -> None:
    market = Market(tags="abcdef")
    figures = market.figures(
        a=EndpointStats(tool_success=0.89),
        b=EndpointStats(tool_success=0.9),
        d=EndpointStats(tool_success=1.0),
        e=EndpointStats(tool_success=0.2, throughput_tps=Percentiles(500, 400, 300, 200)),
        f=EndpointStats(throughput_tps=Percentiles(50, 40, 30, 20)),
    )

    assert market.tags(sort="exacto", figures=figures) == "d b f c a e"


# --- Conversations --------------------------------------------------------------------------------

STICKY: list[tuple[dict[str, Any], str]] = [
    ({}, "c a b d"),
    ({"parked": "c"}, "a b d c"),
    ({"order": ("b",)}, "b a c d"),
    ({"sort": "price", "sort_named": True}, "a b c d"),
    ({"sort": "price", "sort_named": True, "by_session": True}, "c a b d"),
]


@pytest.mark.parametrize(("asked", "tags"), STICKY)
def test_a_conversation_stays_where_it_was_unless_the_request_says_where(
    asked: dict[str, Any], tags: str
) -> None:
    assert Market().tags(sticky="c", **asked) == tags


# --- Service tiers --------------------------------------------------------------------------------


def tiered_market() -> Market:
    return Market(
        priced_endpoint("a", "0.000001"),
        priced_endpoint("b", "0.000002"),
        priced_endpoint("p", "0.000008", tier="priority"),
        priced_endpoint("q", "0.000009", tier="priority"),
        priced_endpoint("f", "0.0000005", tier="flex"),
        priced_endpoint("g", "0.0000001", tier="flex"),
    )


def test_priority_goes_first_by_throughput() -> None:
    market, ask = tiered_market(), CHAT._replace(service_tier="priority")
    figures = market.figures(p=quick(10), q=quick(20))

    assert market.tags(ask=ask) == "p q a b"
    assert market.tags(ask=ask, figures=figures, mark=0.99) == "q p b a"
    assert market.tags(ask=ask, figures=figures, sort="price") == "q p a b"
    assert market.plan(ask=ask).rule == "priority"


# --- Thresholds -----------------------------------------------------------------------------------

CUTOFFS: list[tuple[dict[str, Any], str]] = [
    ({"min_throughput_tps": {"p50": 50}}, "b c d a"),
    ({"min_throughput_tps": {"p50": 90}}, "b c d a"),
    ({"min_throughput_tps": {"p50": 91}}, "d a b c"),
    ({"min_throughput_tps": {"p99": 22.5}}, "b c d a"),
    ({"max_latency_s": {"p90": 2.9}}, "a d b c"),
    ({"max_latency_s": {"p50": 1}, "min_throughput_tps": {"p50": 50}}, "c d a b"),
    ({"max_latency_s": {"p50": 9, "p99": 1}}, "d a b c"),
    ({"max_latency_s": {"p50": 9}}, "a b c d"),
    ({"deadline_s": 2.9}, "a d b c"),
    ({"deadline_s": 100.0}, "a b c d"),
    ({"min_throughput_tps": {"p50": 91}, "sort": "latency"}, "d a c b"),
    ({"min_throughput_tps": {"p50": 50}, "order": ("a", "c")}, "c b d a"),
]


@pytest.mark.parametrize(("cutoffs", "tags"), CUTOFFS)
def test_who_meets_every_cutoff_goes_first_and_nobody_is_excluded(
    cutoffs: dict[str, Any], tags: str
) -> None:
    market = Market()

    plan = market.plan(figures=market.figures(**KNOWN), **cutoffs)

    assert " ".join(each.tag for each in plan.order) == tags
    assert plan.rule == ("order" if "order" in cutoffs else cutoffs.get("sort", "balanced"))
    unknown = {name: value for name, value in cutoffs.items() if name != "order"}
    assert market.tags(**unknown) == "a b c d"


@pytest.mark.parametrize(("tps", "tags"), [(0.0, "a b c d"), (0.5, "b c d a"), (None, "a b c d")])
def test_a_deadline_counts_the_longest_answer_where_its_speed_is_known(
    tps: float | None, tags: str
) -> None:
    """Ten tokens at half a token per second take 20 s; nothing is known of who gave none."""
    market, ask = Market(), CHAT._replace(output_tokens=10)
    speed = EndpointStats() if tps is None else quick(tps)

    assert market.tags(ask=ask, figures=market.figures(a=speed), deadline_s=10.0) == tags
    assert market.tags(figures=market.figures(a=speed), deadline_s=10.0) == "a b c d"


# --- Fallbacks ------------------------------------------------------------------------------------


def test_what_may_not_be_fallen_back_to_is_told() -> None:
    plan = Market().plan(allow_fallbacks=False)

    assert [each.tag for each in plan.order] == ["a"]
    assert {(each.endpoint.tag, each.step) for each in plan.removed} == {
        (tag, "Fallbacks Disabled") for tag in "bcd"
    }
    assert len(plan.considered) == 4
