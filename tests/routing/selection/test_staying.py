"""Whether a conversation stays where it may be cached, and what that is decided from."""

from typing import Any

import pytest

from routing.entities.entries import EndpointEntry
from routing.selection.explain import explain_route
from routing.selection.replay import read_replay, read_state
from routing.selection.select import select
from routing.selection.trace import build_trace
from routing.selection.types import (
    EndpointState,
    EndpointStats,
    Percentiles,
    Plan,
    Policy,
    Requirements,
    WarmCache,
)
from tests.routing.selection.entries import endpoint, model

# A cached token saves 0.9 of a micro-dollar at the one, and a token costs 0.3 less at the other.
DEAR = {"prompt": "0.000001", "completion": "0.000002", "input_cache_read": "0.0000001"}
CHEAP = {"prompt": "0.0000007", "completion": "0.000002"}
ASK = Requirements(kinds=frozenset({"openai"}), prompt_tokens=1000)
WARM = WarmCache(tokens=800, completion_tokens=100, age_s=30.0, lifetime_s=300.0)


def priced_endpoint(tag: str, pricing: dict[str, str]) -> EndpointEntry:
    return endpoint(tag, pricing=pricing)


def quick(seconds: float, tps: float) -> EndpointStats:
    return EndpointStats(
        latency_s=Percentiles(*[seconds] * 4), throughput_tps=Percentiles(*[tps] * 4)
    )


class Pair:
    """A dear endpoint that has answered the conversation, and a cheaper one that comes first."""

    def __init__(self, pricing: dict[str, str] = DEAR, **figures: EndpointStats) -> None:
        self.model = model(priced_endpoint("cheap", CHEAP), priced_endpoint("dear", pricing))
        self.keys = {each.tag: each.pk for each in self.model.endpoints}
        self.figures = {self.keys[tag]: stats for tag, stats in figures.items()}

    def state(self, cache: WarmCache | None = WARM, *, by_session: bool = False) -> EndpointState:
        return EndpointState(
            figures=self.figures,
            sticky=self.keys["dear"],
            sticky_by_session=by_session,
            sticky_cache=cache,
        )

    def plan(
        self, state: EndpointState, ask: Requirements = ASK, policy: Policy | None = None
    ) -> Plan:
        return select([self.model], ask, policy or Policy(sort="price"), state, random=lambda: 0.0)


def test_it_stays_while_the_cache_saves_more_than_the_request_costs_less_elsewhere() -> None:
    pair = Pair()

    plan = pair.plan(pair.state())

    assert plan.stay is not None
    assert plan.stay._asdict() == {
        "stays": True,
        "reason": "saving",
        "cached_tokens": 800,
        "saving_nano": 800 * 900,
        "dearer_nano": 1000 * 300,
        "other": pair.keys["cheap"],
    }
    assert [each.tag for each in plan.order] == ["dear", "cheap"]


TIGHT = WARM._replace(tokens=334)
SLOW = {"dear": quick(1.6, 10.0), "cheap": quick(1.0, 16.0)}
ALMOST = {"dear": quick(1.5, 10.0), "cheap": quick(1.0, 15.0)}
CASES: list[tuple[dict[str, Any], str, bool]] = [
    # 334 tokens save 300,600, and 333 save 299,700 of the 300,000 nano-dollars.
    ({"cache": TIGHT}, "saving", True),
    ({"cache": TIGHT._replace(tokens=333)}, "price", False),
    ({"cache": TIGHT._replace(tokens=333), "by_session": True}, "session", True),
    ({"cache": WARM._replace(age_s=300.0)}, "saving", True),
    ({"cache": WARM._replace(age_s=300.1)}, "cold", False),
    ({"cache": WARM._replace(age_s=301.0), "by_session": True}, "session", True),
    ({"cache": WARM._replace(tokens=0)}, "cold", False),
    # No more is cached than the prompt is long: 200 tokens save 180,000 and cost 60,000 more.
    ({"ask": ASK._replace(prompt_tokens=200)}, "saving", True),
    # The answer counts as well, no longer than it may be: 80,000 nano-dollars a token.
    ({"dear": DEAR | {"completion": "0.00008"}}, "price", False),
    (
        {"dear": DEAR | {"completion": "0.00008"}, "ask": ASK._replace(output_tokens=5)},
        "saving",
        True,
    ),
    ({"dear": DEAR | {"input_cache_read": "0.000001"}}, "cold", False),
    # Half as slow again is borne by who sorts by speed, and by who does not.
    ({"sort": "latency", "figures": SLOW}, "slower", False),
    ({"sort": "latency", "figures": ALMOST}, "saving", True),
    ({"sort": "throughput", "figures": SLOW}, "slower", False),
    ({"sort": "throughput", "figures": ALMOST}, "saving", True),
    ({"sort": "price", "figures": SLOW}, "saving", True),
    ({"dear": DEAR | {"prompt": "0.0000006"}}, "first", True),
]


@pytest.mark.parametrize(("told", "reason", "stays"), CASES)
def test_what_the_decision_goes_by(told: dict[str, Any], reason: str, stays: bool) -> None:
    pair = Pair(told.get("dear", DEAR), **told.get("figures", {}))
    state = pair.state(told.get("cache", WARM), by_session=told.get("by_session", False))

    plan = pair.plan(state, told.get("ask", ASK), Policy(sort=told.get("sort", "price")))

    assert plan.stay is not None
    assert (plan.stay.reason, plan.stay.stays) == (reason, stays)
    assert plan.order[0].tag == ("dear" if stays else "cheap")


def test_where_nothing_is_known_of_the_cache_the_conversation_stays() -> None:
    pair = Pair()

    plan = pair.plan(pair.state(None))

    assert (plan.stay, plan.order[0].tag) == (None, "dear")


@pytest.mark.parametrize(
    ("cache", "loser", "text"),
    [
        (WARM, "cheap", "which may have it cached. That was expected to save 0.00072 USD."),
        (
            WARM._replace(tokens=100),
            "dear",
            "Its cache would have saved 0.00009 USD, less than 0.0003 USD",
        ),
    ],
)
def test_a_trace_says_why_and_replays_to_the_same(cache: WarmCache, loser: str, text: str) -> None:
    pair, policy = Pair(), Policy(sort="price")
    state = pair.state(cache)
    plan = pair.plan(state)

    trace = build_trace(
        plan,
        ASK,
        policy,
        state,
        models=[pair.model.id],
        requested=[pair.model.id],
        strategy="direct",
        chosen=plan.order[0].pk,
    )

    change = next(each.change for each in explain_route(trace) if each.row.tag == loser)
    assert change is not None
    assert text in change.text
    again = read_state(read_replay(trace), [pair.model])
    assert pair.plan(again).stay == plan.stay


def test_a_caller_s_order_leaves_nothing_to_decide() -> None:
    pair = Pair()

    plan = pair.plan(pair.state(), policy=Policy(order=("cheap",)))

    assert plan.stay is None
    assert plan.order[0].tag == "cheap"
