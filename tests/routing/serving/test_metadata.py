"""`router_metadata`, field by field (inference reference 8), and what a caller calls its app."""

from typing import Any

import pytest

from routing.selection.types import Policy
from routing.serving.request.context import Attempt, RequestProgress, read_categories
from routing.serving.settlement.router_metadata import build_wanted_metadata, router_metadata
from tests.routing.selection.entries import endpoint, model
from tests.routing.serving.calls import attempt_at, call_to, failed_at

ALPHA, BETA = endpoint("alpha"), endpoint("beta")


def describe(call: RequestProgress, selected: Attempt | None = None) -> dict[str, Any]:
    return router_metadata(call, selected=selected)


def endpoint_row(name: str, selected: bool = False) -> dict[str, Any]:
    return {"provider": name, "model": "acme/small", "selected": selected}


def attempt_row(name: str, status: int) -> dict[str, Any]:
    return {"provider": name, "model": "acme/small", "status": status}


UNTRIED = {
    "requested": "acme/small",
    "strategy": "direct",
    "region": "local",
    "summary": "available=1",
    "attempt": 0,
    "is_byok": False,
    "endpoints": {"total": 1, "available": [endpoint_row("Alpha")]},
}


def test_an_answer_is_told_with_who_was_asked_and_chosen() -> None:
    call, last = call_to(ALPHA, BETA), attempt_at(BETA, status=200, ended=2.5)
    call.attempts += [failed_at(ALPHA, 500), last]

    whole = UNTRIED | {
        "summary": "available=2, selected=Beta",
        "attempt": 2,
        "endpoints": {"total": 2, "available": [endpoint_row("Alpha"), endpoint_row("Beta", True)]},
        "generation_time": 1500,
        "attempts": [attempt_row("Alpha", 500), attempt_row("Beta", 200)],
    }
    assert describe(call, last) == whole
    # Nobody is told who did not ask.
    assert build_wanted_metadata(call, selected=last) is None
    call.context = call.context._replace(wants_metadata=True)
    assert build_wanted_metadata(call, selected=last) == whole


def test_a_part_served_of_an_earlier_attempt_is_that_attempts() -> None:
    call, first = call_to(ALPHA, BETA), failed_at(ALPHA, 200, caller_status=502)
    call.attempts += [first, failed_at(BETA, 503)]
    found = describe(call, first)
    assert (found["attempt"], found["summary"]) == (1, "available=2, selected=Alpha")


@pytest.mark.parametrize(
    ("strategy", "floors", "params"),
    [
        ("latest", {}, {"version_group": "acme/small"}),
        ("direct", {"p50": 40.0, "p90": 20.0}, {"throughput_floor": 40.0}),
        ("direct", {"p90": 20.0, "p99": 10.0}, {"throughput_floor": 10.0}),
        ("direct", {}, None),
    ],
)
def test_params_say_what_the_choice_was_held_to(strategy: str, floors, params: Any) -> None:
    call, family = call_to(ALPHA), model(ALPHA)
    object.__setattr__(family, "family", "acme/small")
    call.context = call.context._replace(strategy=strategy)
    call.context = call.context._replace(choice=call.context.choice._replace(models=(family,)))
    if floors:
        call.context = call.context._replace(
            choice=call.context.choice._replace(policy=Policy(min_throughput_tps=floors))
        )
    assert describe(call).get("params") == params


@pytest.mark.parametrize(
    ("header", "kept"),
    [
        ("", ()),
        ("cli-agent", ("cli-agent",)),
        (" cli-agent , ide2 ", ("cli-agent", "ide2")),
        ("one,two,three", ("one", "two")),
        ("Upper,not ok,under_score,-a,a-,a--b,,fine", ("fine",)),
        ("a" * 31 + "," + "b" * 30, ("b" * 30,)),
        ("é,٣,ok\n", ("ok",)),
    ],
)
def test_the_first_two_lower_case_hyphenated_words_are_kept(header: str, kept) -> None:
    assert read_categories(header) == kept
