"""What a trace says, that it says it of every endpoint once, and that it can be acted on again."""

import json
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.entities.entries import ModelEntry
from routing.selection.replay import NotReplayable, read_replay, read_rows, read_state
from routing.selection.select import select
from routing.selection.trace import (
    ENDPOINTS_MAX,
    WORD_CHARS_MAX,
    WORDS_MAX,
    TracedAttempt,
    build_trace,
    freeze_state,
)
from routing.selection.types import (
    NO_POLICY,
    NOTHING_LEARNED,
    EndpointState,
    EndpointStats,
    Excluded,
    HealthSnapshot,
    Percentiles,
    Plan,
    Policy,
    Requirements,
)
from tests.routing.selection.cases import ON_MANY, cases
from tests.routing.selection.entries import endpoint, model
from tests.routing.selection.oracle_steps import Case

CHAT = Requirements(kinds=frozenset({"openai"}), prompt_tokens=12)


def trace_of(
    plan: Plan,
    ask: Requirements = CHAT,
    policy: Policy | None = None,
    state: EndpointState = NOTHING_LEARNED,
    **told: Any,
) -> Any:
    """The trace as it is read back from its text."""
    usual: dict[str, Any] = {"models": ["acme/small"], "requested": ["acme/small"]}
    usual["strategy"] = "direct"
    return json.loads(json.dumps(build_trace(plan, ask, policy or Policy(), state, **usual | told)))


def plan_of_three() -> Plan:
    def pricing(usd: int) -> dict[str, str]:
        return {"prompt": f"0.00000{usd}", "completion": f"0.00000{2 * usd}"}

    cheap, dear = endpoint("cheap", pricing=pricing(1)), endpoint("dear", pricing=pricing(2))
    return plan_for(model(cheap, dear, endpoint("gone", status=-5)))


def plan_for(*models: ModelEntry, policy: Policy = NO_POLICY, state: Any = NOTHING_LEARNED) -> Plan:
    return select(models, CHAT, policy, state, random=lambda: 0.0)


def list_verdicts(trace: Any) -> list[tuple[str, str, str | None, int | None]]:
    return [(row.tag, row.verdict, row.why, row.place) for row in read_rows(trace)]


def test_a_trace_tells_of_each_endpoint_what_became_of_it() -> None:
    plan = plan_of_three()
    cheap, dear = plan.order

    trace = trace_of(
        plan,
        attempts=[TracedAttempt(cheap.pk, "timeout"), TracedAttempt(dear.pk, None)],
        chosen=dear.pk,
    )

    assert list_verdicts(trace) == [
        ("cheap", "failed", "timeout", 0),
        ("dear", "chosen", None, 1),
        ("gone", "removed", "Down", None),
    ]
    assert [row.usd for row in read_rows(trace)] == [[1.0, 2.0], [2.0, 4.0], [1.0, 2.0]]
    assert [row.weight for row in read_rows(trace)] == [0.8, 0.2, None]
    assert (trace["rule"], trace["strategy"], trace["v"]) == ("balanced", "direct", 1)


def test_who_came_before_the_last_attempt_was_passed_over_and_others_are_in_reserve() -> None:
    plan = Plan([endpoint(tag) for tag in "abcd"], (), ())
    first, _, third, _ = (each.pk for each in plan.order)
    attempts = [TracedAttempt(first, "timeout"), TracedAttempt(third, "broken off")]

    # An answer that broke off and was served all the same is chosen, with its error.
    assert list_verdicts(trace_of(plan, attempts=attempts, chosen=third)) == [
        *[("a", "failed", "timeout", 0), ("b", "passed over", None, 1)],
        *[("c", "chosen", "broken off", 2), ("d", "in reserve", None, 3)],
    ]


def test_only_what_was_known_is_told() -> None:
    plan = plan_of_three()
    cheap, dear = plan.order
    latency_s = Percentiles(0.51234, 0.6, 0.7, 0.8)
    known = EndpointStats(
        latency_s, Percentiles(91.26, 80.0, 70.0, 60.0), 0.98765, None, 99.987, calls=7
    )
    standing = HealthSnapshot(unstable=frozenset({dear.pk}), parked=frozenset({cheap.pk, dear.pk}))
    state = EndpointState({cheap.pk: known}, standing, dear.pk, True, byok={cheap.pk: (1,)})

    trace = trace_of(plan, state=state)

    first, second, third = read_rows(trace)
    assert first.figures == {
        "ttft": [0.512, 0.6, 0.7, 0.8],
        "tps": [91.3, 80.0, 70.0, 60.0],
        "tools": 0.988,
        "up": [None, 99.99, None],
        "n": 7,
    }
    assert (first.health, first.sticky, first.byok) == (("parked",), False, (1,))
    assert (second.health, second.sticky) == (("unstable", "parked"), True)
    assert (second.figures, third.figures, third.health) == ({}, {}, ())


def test_a_probe_is_told_as_one() -> None:
    served = model(endpoint("a"))
    standing = HealthSnapshot(half_open=frozenset({served.endpoints[0].pk}))
    state = EndpointState(health=standing)

    (row,) = read_rows(trace_of(plan_for(served, state=state), state=state))

    assert row.health == ("half_open", "probe")


def test_a_sort_is_told_with_whom_it_puts_last() -> None:
    served = model(endpoint("a"), endpoint("b"))
    state = EndpointState(health=HealthSnapshot(failing=frozenset({served.by_price[0].pk})))
    callers = Policy(sort="price")
    default = replace(callers, sort_is_default=True)

    kept, moved = (
        trace_of(plan_for(served, policy=policy, state=state), policy=policy, state=state)
        for policy in (default, callers)
    )

    assert (kept["rule"], kept["last"]) == ("price", "unstable or parked")
    assert (moved["rule"], moved["last"]) == ("price", "failing")
    assert [row.health for row in read_rows(kept)] == [("failing",), ()]
    assert [row.health for row in read_rows(moved)] == [(), ("failing",)]
    assert "last" not in trace_of(plan_of_three())


@pytest.mark.parametrize("words", [("x",) * (WORDS_MAX + 1), ("x" * (WORD_CHARS_MAX + 1),)])
def test_a_list_without_end_is_cut_and_the_trace_says_so(words: tuple[str, ...]) -> None:
    trace = trace_of(plan_of_three(), policy=Policy(ignore=words), requested=words)

    assert trace["cut"] is True
    assert len(json.dumps(trace)) < 50_000
    with pytest.raises(NotReplayable, match="too long"):
        read_replay(trace)


def test_past_a_few_hundred_endpoints_the_rest_is_counted_by_what_became_of_it() -> None:
    order = [endpoint(f"e{n}") for n in range(ENDPOINTS_MAX + 50)]
    removed = [Excluded(endpoint(f"r{n}"), "Down") for n in range(2 * ENDPOINTS_MAX)]
    tried = order[ENDPOINTS_MAX + 9]
    attempts = [TracedAttempt(tried.pk, None)]

    trace = trace_of(Plan(order, removed[:7], ()), attempts=attempts, chosen=tried.pk)

    rows = list_verdicts(trace)
    assert len(rows) == ENDPOINTS_MAX + 1
    assert rows[-1] == (tried.tag, "chosen", None, ENDPOINTS_MAX + 9)
    assert trace["more"] == {"in reserve": 49, "Down": 7}
    # Of very many that were removed the first are named.
    others = trace_of(Plan([tried], removed, ()))
    assert (len(list_verdicts(others)), others["more"]) == (
        ENDPOINTS_MAX,
        {"Down": ENDPOINTS_MAX + 1},
    )


def test_a_call_keeps_the_figures_of_its_own_endpoints_only() -> None:
    plan = plan_of_three()
    everywhere = {each.pk: EndpointStats(calls=1) for each in plan.order} | {10**9: EndpointStats()}

    kept = freeze_state(plan, EndpointState(everywhere, sticky=5))

    assert set(kept.figures) == {each.pk for each in plan.order}
    assert kept.sticky == 5


@ON_MANY
@given(cases(), st.data())
def test_a_trace_explains_each_endpoint_once_and_read_back_leads_to_the_same_plan(
    case: Case, data: st.DataObject
) -> None:
    def select_for(ask: Requirements, policy: Policy, state: EndpointState) -> Plan:
        return select(case.models, ask, policy, state, random=lambda: case.chance)

    plan = select_for(case.ask, case.policy, case.state)
    keys = [each.pk for each in plan.order]
    tried = data.draw(st.lists(st.sampled_from(keys), unique=True)) if keys else []
    told: dict[str, Any] = {"models": [each.id for each in case.models]}
    told |= {"attempts": [TracedAttempt(key, "timeout") for key in tried]}
    trace = trace_of(plan, case.ask, case.policy, freeze_state(plan, case.state), **told)

    rows = list(read_rows(trace))
    assert Counter((row.model, row.tag) for row in rows) == Counter(
        (each.model_id, each.tag) for model in case.models for each in model.endpoints
    )
    verdicts = Counter(row.verdict for row in rows)
    assert (verdicts["failed"], verdicts["removed"]) == (len(tried), len(plan.removed))
    assert all(bool(row.why) == (row.verdict in ("removed", "failed")) for row in rows)
    replay = read_replay(trace)
    assert (replay.requirements, replay.policy) == (case.ask, case.policy)
    assert select_for(replay.requirements, replay.policy, read_state(replay, case.models)) == plan


@pytest.mark.parametrize(
    ("trace", "reason"),
    [
        ({}, "no trace"),
        (None, "no trace"),
        ([1], "no trace"),
        ({"v": 2}, "another version"),
        ({"v": 1}, "cannot be read"),
        ({"v": 1, "models": [], "ask": {}, "tag": ["a"], "usd": [None]}, "cannot be read"),
        ({"v": 1, "models": [], "ask": {}, "tag": [], "policy": {"new": 1}}, "cannot be read"),
    ],
)
def test_what_is_no_trace_is_not_replayed(trace: Any, reason: str) -> None:
    with pytest.raises(NotReplayable, match=reason):
        read_replay(trace)
