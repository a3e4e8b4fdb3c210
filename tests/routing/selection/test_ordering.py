"""Who is tried first where something else than load balancing says it: sorts, a list of the
caller's, service tiers, thresholds, several models, a conversation."""

from typing import Any

import pytest

from routing.selection.types import EndpointStats, Percentiles, Sort
from tests.routing.selection.entries import model
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
    # Equal prices are sorted by tag.
    assert Market(*(priced(tag, "0.000001") for tag in "cab")).tags(sort=sort) == "a b c"


@pytest.mark.parametrize(("sort", "tags"), SORTED)
def test_whoever_failed_a_moment_ago_comes_last_in_a_default_sort(sort: Sort, tags: str) -> None:
    """Else every request would wait for it first, and take a retry from the budget of all."""
    market = Market()
    told: dict[str, Any] = {"sort": sort, "sort_is_default": True}
    told["figures"] = market.figures(**KNOWN)

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


# --- A list of the caller's, conversations --------------------------------------------------------

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
# A conversation stays where it was.
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
    ({"max_latency_s": {"p50": 0.1}, "slow": "c"}, "c a b d"),
    ({"allow_fallbacks": False}, "c"),
]


@pytest.mark.parametrize(
    ("told", "tags"),
    [*LISTED, *[({"sticky": "c"} | told, tags) for told, tags in STICKY]],
)
def test_lists_and_conversations_come_before_the_usual_order(
    told: dict[str, Any], tags: str
) -> None:
    market = Market()
    slow = market.figures(**{tag: quick(1, latency_s=9) for tag in told.get("slow", "")})
    said = {name: value for name, value in told.items() if name != "slow"}

    plan = market.plan(figures=slow, **said)

    assert " ".join(each.tag for each in plan.order) == tags
    assert plan.rule == ("order" if "order" in told else told.get("sort", "balanced"))


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
    ({"sort": "price", "across_models": True}, "a b c d"),
    ({"across_models": True}, "a b c d"),
    ({"order": ("c", "d")}, "d a c b"),
    ({"order": ("c", "d"), "across_models": True}, "c d a b"),
    ({"max_latency_s": {"p50": 1}, "across_models": True}, "a c b d"),
    ({"byok": {"d": 1, "b": 0}, "across_models": True}, "b d a c"),
    ({"byok": {"d": 0}, "max_latency_s": {"p50": 1}}, "d c a b"),
    ({"allow_fallbacks": False}, "a"),
    ({"allow_fallbacks": False, "models_named": True}, "a b"),
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
