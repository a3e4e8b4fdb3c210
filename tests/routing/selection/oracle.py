"""Section 7.6 of the inference reference, read aloud: plain, slow and exact.

Where the reference leaves a choice open, a comment says which one the gateway has taken.
"""

from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

from routing.entities.entries import EndpointEntry
from routing.selection.types import EndpointState, EndpointStats, Policy
from tests.routing.selection.oracle_steps import (
    ABSENT,
    MAX_TOKENS,
    NOT_A_FALLBACK,
    SOFT,
    TOOLS,
    Case,
    Pair,
    after_soft_preference,
    is_candidate,
    is_opted_by_tier,
    keys,
    names,
    steps,
)

_GOOD_RECORD: Final = 0.9


@dataclass(frozen=True)
class Verdict:
    """Keys of the endpoints in order, and the step that took each other one out.

    `drawn` are the groups of which the first was drawn: weights by key.
    """

    order: list[int]
    removed: dict[int, str]
    considered: set[int]
    failed_step: str | None = None
    output_caps: dict[int, int] = field(default_factory=dict)
    drawn: list[dict[int, Fraction]] = field(default_factory=list)


def judge(case: Case) -> Verdict:
    """What the reference says of a case."""
    every = [(model, each) for model in case.models for each in model.endpoints]
    pairs = [pair for pair in every if is_candidate(pair, case.ask)]
    removed = {each.pk: ABSENT for pair in every for each in pair[1:] if pair not in pairs}
    caps: dict[int, int] = {}
    for step, keeps in steps(case):
        kept = [pair for pair in pairs if keeps(pairs)(pair)]
        if pairs and not kept and step == MAX_TOKENS:
            caps = {each.pk: each.max_completion_tokens or 0 for _, each in pairs}
            continue
        removed |= {pair[1].pk: step for pair in pairs if pair not in kept}
        if pairs and not kept:
            return Verdict([], removed, keys(pairs), step)
        pairs = kept
    considered = keys(pairs)
    soft = after_soft_preference(case.ask, pairs)
    removed |= {each.pk: SOFT for _, each in pairs if each.pk not in keys(soft)}
    if pairs and not soft:
        return Verdict([], removed, considered, TOOLS)
    return _arrange(case, soft, Verdict([], removed, considered, None, caps))


def _arrange(case: Case, pairs: list[Pair], found: Verdict) -> Verdict:
    policy, state = case.policy, case.state
    apart = [[each for own, each in pairs if own is model] for model in case.models]
    groups = [[each for _, each in pairs]] if policy.across_models else apart
    placed = [_order_group(case, group, found.drawn) for group in groups]
    order = _quick_first(case, [each for group in placed for each in group])
    for group in groups:
        order = _byok_first(state, order, {each.pk for each in group})
    order = _sticky_first(case, order)
    tried = order if policy.allow_fallbacks else _without_fallbacks(policy, order)
    left_out = {each.pk: NOT_A_FALLBACK for each in order if each not in tried}
    return Verdict(
        [each.pk for each in tried],
        found.removed | left_out,
        found.considered,
        None,
        {pk: cap for pk, cap in found.output_caps.items() if pk in found.considered},
        found.drawn,
    )


def price(each: EndpointEntry) -> Decimal:
    assert each.prices is not None
    return each.prices.prompt + each.prices.completion


def _cheapest_first(each: EndpointEntry) -> Any:
    return price(each), each.tag


def _order_group(
    case: Case, group: list[EndpointEntry], drawn: list[dict[int, Fraction]]
) -> list[EndpointEntry]:
    """Rules 1 to 4. By 7.7 who is unstable or parked, or under a sort of the caller's failing,
    comes last, but in a list of the caller's."""
    standing, is_callers = case.state.health, not case.policy.sort_is_default
    sick = standing.unstable | standing.parked
    if case.policy.sort is not None and is_callers:
        sick = standing.failing
    listed: list[EndpointEntry] = []
    for reference in case.policy.order:
        # Named in full it has a place of its own, which its provider's slug does not take.
        means = [e for e in group if names(reference, e, opted=is_opted_by_tier(case, e))]
        listed += sorted((e for e in means if e not in listed), key=_cheapest_first)
    rest = [each for each in group if each not in listed]
    if case.ask.service_tier == "flex" and any(each.tier == "flex" for each in rest):
        by_price = sorted(rest, key=_cheapest_first)
        return listed + sorted(by_price, key=lambda each: each.pk in sick)
    asked = case.ask.service_tier == "priority"
    first = [each for each in rest if asked and each.tier == "priority"]
    first.sort(key=lambda each: _sort_key(case, "throughput", each))
    others = [each for each in rest if each not in first]
    found = first + _sorted_or_drawn(case, others, drawn)
    return listed + sorted(found, key=lambda each: each.pk in sick)


def _sorted_or_drawn(
    case: Case, group: list[EndpointEntry], drawn: list[dict[int, Fraction]]
) -> list[EndpointEntry]:
    """Rules 2 and 3."""
    sort, standing = case.policy.sort, case.state.health
    sick = standing.unstable | standing.parked
    if sort is not None:
        return sorted(group, key=lambda each: _sort_key(case, sort, each))
    stable = sorted((each for each in group if each.pk not in sick), key=_cheapest_first)
    unstable = sorted((each for each in group if each.pk in sick), key=_cheapest_first)
    if not stable:
        return unstable
    weights = _weights(stable)
    drawn.append({each.pk: weight for each, weight in zip(stable, weights, strict=True) if weight})
    first = stable[_draw_index(weights, case.chance)]
    return [first, *(each for each in stable if each is not first), *unstable]


def _weights(stable: list[EndpointEntry]) -> list[Fraction]:
    free = [price(each) == 0 for each in stable]
    if any(free):
        return [Fraction(is_free) for is_free in free]
    return [1 / Fraction(price(each)) ** 2 for each in stable]


def _draw_index(weights: list[Fraction], chance: float) -> int:
    reached, mark = Fraction(0), Fraction(chance) * sum(weights)
    for at, weight in enumerate(weights):
        reached += weight
        if mark < reached:
            return at
    raise AssertionError("a chance below one always finds somebody")


def figures_of(case: Case, each: EndpointEntry) -> EndpointStats:
    return case.state.figures.get(each.pk) or EndpointStats()


def _sort_key(case: Case, sort: str, each: EndpointEntry) -> Any:
    """Low comes first; what is not known comes last."""
    figures = figures_of(case, each)
    latency_s = figures.latency_s.p50 if figures.latency_s else float("inf")
    slowness = -figures.throughput_tps.p50 if figures.throughput_tps else float("inf")
    if sort == "latency":
        return latency_s, *_cheapest_first(each)
    if sort == "throughput":
        return slowness, *_cheapest_first(each)
    if sort == "exacto":
        return *_record(figures.tool_success), slowness, *_cheapest_first(each)
    assert sort == "price"
    return _cheapest_first(each)


def _record(success: float | None) -> tuple[int, float]:
    """Good ones, then those without data, then poor ones; the better first."""
    if success is None:
        return 1, 0.0
    return (0 if success >= _GOOD_RECORD else 2), -success


def _quick_first(case: Case, order: list[EndpointEntry]) -> list[EndpointEntry]:
    """Rule 5: a stable partition."""
    return sorted(order, key=lambda each: not meets_cutoffs(case.policy, figures_of(case, each)))


def meets_cutoffs(policy: Policy, figures: EndpointStats) -> bool:
    latency, throughput = figures.latency_s, figures.throughput_tps
    soon = all(
        latency is None or getattr(latency, name) <= most
        for name, most in policy.max_latency_s.items()
    )
    return soon and all(
        throughput is None or getattr(throughput, name) >= least
        for name, least in policy.min_throughput_tps.items()
    )


def _byok_first(
    state: EndpointState, order: list[EndpointEntry], group: set[int]
) -> list[EndpointEntry]:
    """Rule 7: the places that a group has stay its own. Management reference 13: by place."""
    members = [each for each in order if each.pk in group]
    own = sorted((e for e in members if e.pk in state.byok), key=lambda e: state.byok[e.pk])
    in_turn = iter(own + [each for each in members if each not in own])
    return [next(in_turn) if each.pk in group else each for each in order]


def _sticky_first(case: Case, order: list[EndpointEntry]) -> list[EndpointEntry]:
    """Rule 8."""
    policy, state = case.policy, case.state
    if policy.order or state.sticky in state.health.parked:
        return order
    if policy.sort_named and not state.sticky_by_session:
        return order
    return sorted(order, key=lambda each: each.pk != state.sticky)


def _without_fallbacks(policy: Policy, order: list[EndpointEntry]) -> list[EndpointEntry]:
    """The first of each model, or with `order` the listed ones; other models where named."""
    tried: list[EndpointEntry] = []
    for each in order:
        others = {other.model_id for other in tried}
        if policy.order or each.model_id not in others:
            tried.append(each)
    if not policy.models_named:
        tried = [each for each in tried if each.model_id == tried[0].model_id]
    return tried
