"""Whose endpoints go first: those of several models, of own credentials, of a conversation."""

from typing import Any

import pytest

from routing.selection.ask import Policy, State
from routing.selection.select import select
from tests.routing.selection.entries import model
from tests.routing.selection.markets import CHAT, Market, priced, quick

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
