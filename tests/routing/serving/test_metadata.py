"""`router_metadata`, field by field (inference reference 8)."""

from typing import Any

import pytest

from routing.selection.ask import NO_POLICY, NOTHING_LEARNED, Ask, Policy
from routing.serving.call import Attempt, Call, Choice
from routing.serving.metadata import router_metadata, wished_metadata
from tests.routing.selection.entries import endpoint, model
from tests.routing.serving.calls import attempt_at, call_to, failed_at

ALPHA, BETA = endpoint("alpha"), endpoint("beta")
REQUIRED = {"requested", "strategy", "region", "summary", "attempt", "is_byok", "endpoints"}


def answered(call: Call, *failed: Attempt) -> Attempt:
    """The call's last attempt, which answered after 1.5 seconds."""
    last = attempt_at(BETA, status=200, ended=2.5)
    call.attempts += [*failed, last]
    return last


def test_an_answer_is_told_with_who_was_asked_and_chosen() -> None:
    call = call_to(ALPHA, BETA)
    last = answered(call, failed_at(ALPHA, 500))

    told = router_metadata(call, selected=last)

    assert told == {
        "requested": "acme/small",
        "strategy": "direct",
        "region": "local",
        "summary": "available=2, selected=Beta",
        "attempt": 2,
        "is_byok": False,
        "endpoints": {
            "total": 2,
            "available": [
                {"provider": "Alpha", "model": "acme/small", "selected": False},
                {"provider": "Beta", "model": "acme/small", "selected": True},
            ],
        },
        "generation_time": 1500,
        "attempts": [
            {"provider": "Alpha", "model": "acme/small", "status": 500},
            {"provider": "Beta", "model": "acme/small", "status": 200},
        ],
    }


def test_nothing_tried_leaves_out_what_only_an_attempt_has() -> None:
    told = router_metadata(call_to(ALPHA), selected=None)

    assert told.keys() == REQUIRED
    assert (told["attempt"], told["summary"]) == (0, "available=1")
    assert told["endpoints"]["available"] == [
        {"provider": "Alpha", "model": "acme/small", "selected": False}
    ]


def test_a_total_failure_counts_its_attempts_and_selects_nobody() -> None:
    call = call_to(ALPHA, BETA)
    call.attempts += [failed_at(ALPHA, 502), failed_at(BETA, 524)]

    told = router_metadata(call, selected=None)

    assert told["attempt"] == 2
    assert [each["status"] for each in told["attempts"]] == [502, 524]
    assert not any(each["selected"] for each in told["endpoints"]["available"])
    assert "generation_time" not in told


def test_a_part_served_of_an_earlier_attempt_is_that_attempts() -> None:
    call = call_to(ALPHA, BETA)
    first = failed_at(ALPHA, 200, told_status=502)
    call.attempts += [first, failed_at(BETA, 503)]

    told = router_metadata(call, selected=first)

    assert (told["attempt"], told["summary"]) == (1, "available=2, selected=Alpha")


@pytest.mark.parametrize(
    ("strategy", "floors", "params"),
    [
        ("latest", {}, {"version_group": "acme/small"}),
        ("direct", {"p50": 40.0, "p90": 20.0}, {"throughput_floor": 40.0}),
        ("direct", {"p90": 20.0, "p99": 10.0}, {"throughput_floor": 10.0}),
        ("direct", {}, None),
    ],
)
def test_params_say_what_the_choice_was_held_to(
    strategy: str, floors: dict[str, float], params: Any
) -> None:
    call = call_to(ALPHA)
    family = model(ALPHA)
    object.__setattr__(family, "family", "acme/small")
    policy = Policy(min_throughput_tps=floors) if floors else NO_POLICY
    call.strategy = strategy
    call.choice = Choice(
        ("~acme/small-latest",),
        (family,),
        Ask(kinds=frozenset({"openai"})),
        policy,
        NOTHING_LEARNED,
    )

    assert router_metadata(call, selected=None).get("params") == params


def test_the_pipeline_shows_only_stages_that_did_something() -> None:
    call = call_to(ALPHA)
    assert "pipeline" not in router_metadata(call, selected=None)

    stage = {"type": "guardrail", "name": "pii", "data": {"action": "blocked"}}
    call.stages.append(stage)

    assert router_metadata(call, selected=None)["pipeline"] == [stage]


def test_nobody_is_told_who_did_not_ask() -> None:
    call = call_to(ALPHA)
    last = answered(call)

    assert wished_metadata(call, selected=last) is None
    call.wants_metadata = True
    assert wished_metadata(call, selected=last) == router_metadata(call, selected=last)
