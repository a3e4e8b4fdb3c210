"""The order in which endpoints are tried.

Each function takes the endpoints of a group (one model's, or all) by price and tag, and keeps that
order among equals. The steps, in this order:

1. within each group: the caller's list, else the service tier, a sort or load balancing;
2. unhealthy endpoints last in their group, except those that the caller's list names;
3. across groups: endpoints that meet the latency and throughput thresholds first, and before them
   those that are likely to meet the deadline;
4. endpoints for which the team has own credentials first, in the places of their group;
5. the endpoint of the conversation first, where its cache is worth it.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, NamedTuple

from routing.entities.entries import BY_PRICE, EndpointEntry
from routing.selection.filters import model_id_of
from routing.selection.staying import decide_stay
from routing.selection.types import (
    Candidate,
    EndpointState,
    EndpointStats,
    Policy,
    Requirements,
    Stay,
)

Places = Mapping[int, tuple[int, ...]]


Random = Callable[[], float]
# An endpoint whose tool calls succeed less often comes after those without figures.
GOOD_TOOL_SUCCESS: Final = 0.9
_LAST: Final = (float("inf"),)


class OrderingInputs(NamedTuple):
    """The inputs of an order. `random` gives floats in [0, 1). `weights` is an output: the shares
    of the draws, by endpoint key."""

    requirements: Requirements
    policy: Policy
    state: EndpointState
    random: Random
    weights: dict[int, float]


class Order(NamedTuple):
    """The endpoints in the order to try. `candidates` is empty unless the team has credentials of
    its own; `stay` as in `Plan`."""

    endpoints: list[EndpointEntry]
    candidates: list[Candidate]
    stay: Stay | None


def order_endpoints(endpoints: Sequence[EndpointEntry], case: OrderingInputs) -> Order:
    """`endpoints` come model by model, cheapest first."""
    policy, state = case.policy, case.state
    groups: Sequence[Sequence[EndpointEntry]]
    if policy.across_models:
        groups = [sorted(endpoints, key=BY_PRICE)]
    elif not endpoints or endpoints[0].model_id == endpoints[-1].model_id:
        groups = [endpoints]
    else:
        groups = [list(group) for _, group in groupby(endpoints, key=model_id_of)]
    ordered = [each for group in groups for each in order_group(group, case)]
    if policy.max_latency_s or policy.min_throughput_tps:
        ordered = put_meeting_first(ordered, policy, state.figures)
    if policy.deadline_s is not None:
        ordered = put_punctual_first(ordered, case, policy.deadline_s)
    # The conversation's endpoint does not go before the caller's order, nor, outside of a session,
    # before the caller's sort.
    sticks = (
        state.sticky is not None
        and not policy.order
        and state.sticky not in state.health.parked
        and (state.sticky_by_session or not policy.sort_named)
    )
    if sticks and policy.deadline_s is not None:
        sticks = _is_punctual(state.sticky or 0, case, policy.deadline_s)
    stay = None
    if sticks and state.sticky_cache is not None:
        sticky = next((each for each in ordered if each.pk == state.sticky), None)
        if sticky is not None:
            stay = decide_stay(sticky, ordered[0], case.requirements, policy, state)
            sticks = stay is None or stay.stays
    if not (state.byok or state.byok_fallback):
        return Order(_put_sticky_first(ordered, state) if sticks else ordered, [], stay)
    across, usual = policy.across_models, ordered
    if state.byok:
        ordered = put_own_credentials_first(ordered, state.byok, across_models=across)
    if sticks:
        ordered, usual = _put_sticky_first(ordered, state), _put_sticky_first(usual, state)
    candidates = list_candidates(usual, state, across_models=across, sticks=sticks)
    return Order(ordered, candidates, stay)


def rule_of(endpoints: Sequence[EndpointEntry], requirements: Requirements, policy: Policy) -> str:
    """The name of the ordering that a request gets: order, priority, flex, a sort or balanced."""
    if policy.order:
        return "order"
    tier = requirements.service_tier
    if tier in ("priority", "flex") and any(each.tier == tier for each in endpoints):
        return tier
    return policy.sort or "balanced"


def list_named(
    endpoints: Sequence[EndpointEntry], policy: Policy, requirements: Requirements
) -> list[EndpointEntry]:
    """The endpoints that `order` names, in its order, each where it is named first.

    A base slug means the provider's endpoints, cheapest first. Those of a service tier are included
    only where the request asks for the tier; else their own slug gives them their place.
    """
    places: dict[str, int] = {}
    for place, reference in enumerate(policy.order):
        places.setdefault(reference.casefold(), place)
    named: list[tuple[int, EndpointEntry]] = []
    for each in endpoints:
        names = {each.tag_key}
        if each.tier == "default" or each.tier == requirements.service_tier:
            names |= each.provider.names
        if found := [places[name] for name in names if name in places]:
            named.append((min(found), each))
    return [each for _, each in sorted(named, key=itemgetter(0))]


# --- Within a group -------------------------------------------------------------------------------


def order_group(group: Sequence[EndpointEntry], case: OrderingInputs) -> list[EndpointEntry]:
    """One group: first what the caller's list names, the rest by tier, sort or draw."""
    if not case.policy.order:
        return _put_unhealthy_last(_order_by_tier(group, case), case)
    first = list_named(group, case.policy, case.requirements)
    first_keys = set(first)
    rest = _order_by_tier([each for each in group if each not in first_keys], case)
    return first + _put_unhealthy_last(rest, case)


def _put_unhealthy_last(
    endpoints: list[EndpointEntry], case: OrderingInputs
) -> list[EndpointEntry]:
    """Unhealthy endpoints go last even under a sort: waiting for them would also use up the shared
    retry budget. If the caller chose the sort, only failing endpoints go last."""
    health = case.state.health
    ill = health.failing if case.policy.has_own_sort else health.unstable | health.parked
    if not ill:
        return endpoints
    return sorted(endpoints, key=lambda each: each.pk in ill)


def _order_by_tier(group: Sequence[EndpointEntry], case: OrderingInputs) -> list[EndpointEntry]:
    """`priority` puts its endpoints in front, the fastest first; flex endpoints go by price. Others
    go by the sort, else by a draw."""
    tier, sort, figures = case.requirements.service_tier, case.policy.sort, case.state.figures
    fast: list[EndpointEntry] = []
    if tier == "priority":
        fast = [each for each in group if each.tier == tier]
        fast = _sort_by_figure(fast, "throughput", figures)
        group = [each for each in group if each.tier != tier]
    elif tier == "flex" and any(each.tier == tier for each in group):
        return list(group)
    rest = balance_load(group, case) if sort is None else _sort_by_figure(group, sort, figures)
    return fast + rest if fast else rest


def _sort_by_figure(
    group: Sequence[EndpointEntry], sort: str, figures: Mapping[int, EndpointStats]
) -> list[EndpointEntry]:
    """By one figure, endpoints without it last; equals keep their order by price and tag."""
    key = _SORT_KEYS.get(sort)
    if key is None or not figures:
        return list(group)
    return sorted(group, key=lambda each: key(figures.get(each.pk, _UNKNOWN)))


_UNKNOWN: Final = EndpointStats()


def _throughput_key(figures: EndpointStats) -> tuple[Any, ...]:
    percentiles = figures.throughput_tps
    return (True, 0.0) if percentiles is None else (False, -percentiles.p50)


def _latency_key(figures: EndpointStats) -> tuple[Any, ...]:
    percentiles = figures.latency_s
    return (True, 0.0) if percentiles is None else (False, percentiles.p50)


def _tool_success_key(figures: EndpointStats) -> tuple[Any, ...]:
    share = figures.tool_success
    if share is None:
        return (1, 0.0, *_throughput_key(figures))
    return (0 if share >= GOOD_TOOL_SUCCESS else 2, -share, *_throughput_key(figures))


# `price` is not among them: the endpoints come sorted by it.
_SORT_KEYS: Final[Mapping[str, Callable[[EndpointStats], tuple[Any, ...]]]] = {
    "throughput": _throughput_key,
    "latency": _latency_key,
    "exacto": _tool_success_key,
}


def balance_load(group: Sequence[EndpointEntry], case: OrderingInputs) -> list[EndpointEntry]:
    """Stable endpoints first: one drawn with weight 1/price squared, the rest by price. If some
    are free, one of these is drawn evenly."""
    unstable, parked, *_ = case.state.health
    well, ill = list(group), []
    if unstable or parked:
        ill = [each for each in group if each.pk in unstable or each.pk in parked]
        lagging = set(ill)
        well = [each for each in group if each not in lagging]
    if len(well) < 2:
        return well + ill
    cheapest = well[0].token_price
    if cheapest == 0:
        free = sum(1 for each in well if each.token_price == 0)
        case.weights.update((each.pk, 1 / free) for each in well[:free])
        drawn = int(case.random() * free)
    else:
        # Relative to the cheapest, so that prices around 1e-7 do not overflow when squared.
        shares = [(cheapest / each.token_price) ** 2 for each in well]
        total = sum(shares)
        mark = case.random() * total
        drawn = -1
        for place, (each, share) in enumerate(zip(well, shares, strict=True)):
            case.weights[each.pk] = share / total
            mark -= share
            if mark < 0 and drawn < 0:
                drawn = place
    well.insert(0, well.pop(drawn))
    return well + ill


# --- Across groups --------------------------------------------------------------------------------


def put_meeting_first(
    endpoints: Sequence[EndpointEntry], policy: Policy, figures: Mapping[int, EndpointStats]
) -> list[EndpointEntry]:
    """The endpoints that meet every cutoff before the others, else in the order they came in.

    What is not known of an endpoint counts as met.
    """
    if not figures:
        return list(endpoints)

    def misses(endpoint: EndpointEntry) -> bool:
        stats = figures.get(endpoint.pk, _UNKNOWN)
        latency, throughput = stats.latency_s, stats.throughput_tps
        slow = latency is not None and any(
            getattr(latency, percentile) > cutoff_s
            for percentile, cutoff_s in policy.max_latency_s.items()
        )
        return slow or (
            throughput is not None
            and any(
                getattr(throughput, percentile) < cutoff_tps
                for percentile, cutoff_tps in policy.min_throughput_tps.items()
            )
        )

    # False sorts before True, and a sort keeps the order of equals.
    return sorted(endpoints, key=misses)


def put_punctual_first(
    endpoints: Sequence[EndpointEntry], case: OrderingInputs, deadline_s: float
) -> list[EndpointEntry]:
    """The endpoints that are likely to have answered by the deadline before the others."""
    return sorted(endpoints, key=lambda each: not _is_punctual(each.pk, case, deadline_s))


def _is_punctual(endpoint: int, case: OrderingInputs, deadline_s: float) -> bool:
    """Whether nine of ten such answers begin, and the longest that was asked for usually ends, by
    the deadline. What is not known of an endpoint counts as met."""
    figures = case.state.figures.get(endpoint, _UNKNOWN)
    needed_s = figures.latency_s.p90 if figures.latency_s is not None else 0.0
    tokens, speed = case.requirements.output_tokens, figures.throughput_tps
    if tokens is not None and speed is not None and speed.p50 > 0:
        needed_s += tokens / speed.p50
    return needed_s <= deadline_s


# --- Own credentials and the conversation's endpoint ----------------------------------------------


def put_own_credentials_first(
    endpoints: Sequence[EndpointEntry], places: Places, *, across_models: bool
) -> list[EndpointEntry]:
    """Put endpoints for which the workspace has a credential first, by the best one's place.

    With `across_models` they come first of all, else first among the places of their model.
    Fallback credentials change nothing: the endpoint stays among the shared ones.
    """

    def own_first(group: Sequence[EndpointEntry]) -> list[EndpointEntry]:
        return sorted(group, key=lambda each: places.get(each.pk, _LAST)[0])

    if across_models:
        return own_first(endpoints)
    of_model: dict[str, list[EndpointEntry]] = {}
    for each in endpoints:
        of_model.setdefault(each.model_id, []).append(each)
    turns = {model_id: iter(own_first(group)) for model_id, group in of_model.items()}
    return [next(turns[each.model_id]) for each in endpoints]


def _put_sticky_first(endpoints: list[EndpointEntry], state: EndpointState) -> list[EndpointEntry]:
    return sorted(endpoints, key=lambda each: each.pk != state.sticky)


def list_candidates(
    usual: Sequence[EndpointEntry], state: EndpointState, *, across_models: bool, sticks: bool
) -> list[Candidate]:
    """All candidates of these endpoints; `usual` is the order without own credentials.

    Within a model (or over all models) own credentials go by their place, and endpoints of one
    credential in the usual order. A provider without a shared credential is tried with the team's
    credentials only, if there are any. With `sticks` the best candidate of the sticky endpoint
    goes first.
    """
    names = [None if across_models else each.model_id for each in usual]
    last = {name: at for at, name in enumerate(names)}
    groups: dict[str | None, list[EndpointEntry]] = {}
    for name, each in zip(names, usual, strict=True):
        groups.setdefault(name, []).append(each)
    candidates: list[Candidate] = []
    begun: set[str | None] = set()
    for at, (name, each) in enumerate(zip(names, usual, strict=True)):
        if name not in begun:
            begun.add(name)
            candidates += _own_candidates(groups[name], state.byok)
        brought = each.pk in state.byok or each.pk in state.byok_fallback
        # A server without a key may need none.
        if each.pk not in state.unshared and (each.provider.credential is not None or not brought):
            candidates.append(Candidate(each))
        if last[name] == at:
            candidates += _own_candidates(groups[name], state.byok_fallback)
    of_sticky = (each for each in candidates if each.endpoint.pk == state.sticky)
    best = next(of_sticky, None) if sticks else None
    # Credentials that are tried last stay there.
    if best is not None and best.own not in state.byok_fallback.get(best.endpoint.pk, ()):
        candidates.remove(best)
        candidates.insert(0, best)
    return candidates


def _own_candidates(group: Sequence[EndpointEntry], places: Places) -> list[Candidate]:
    candidates = [Candidate(each, place) for each in group for place in places.get(each.pk, ())]
    return sorted(candidates, key=lambda candidate: candidate.own or 0)


def has_candidate(endpoint: EndpointEntry, state: EndpointState) -> bool:
    """Whether there is any candidate: an unshared endpoint needs a credential of the team's."""
    if endpoint.pk not in state.unshared:
        return True
    return endpoint.pk in state.byok or endpoint.pk in state.byok_fallback
