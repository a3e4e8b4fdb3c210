"""The order in which endpoints are tried (inference reference 7.6).

Everything here takes the endpoints of a group, a model's or all of them, in the order of price and
tag, and keeps that order among equals. What the rules say one after the other is done in this
order: a list of the caller's (1), else the service tier (4), a sort (2) or load balancing (3)
within each group, and last in it, but for a list, whoever failed a moment ago, or under a sort of
the caller's whoever fails more often than not (7.7); thresholds across the groups (5, 6); the
caller's own credentials in the places that the group has (7); the endpoint of the conversation (8).
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, NamedTuple

from routing.entities.entries import BY_PRICE, EndpointEntry
from routing.selection.ask import Ask, Figures, Policy, State, Turn
from routing.selection.filters import model_id_of
from routing.selection.thresholds import meeting_first
from routing.selection.turns import turns_of

Random = Callable[[], float]
# Below this share of tool calls that succeed, an endpoint comes after those nothing is known of.
GOOD_TOOL_SUCCESS: Final = 0.9
_NOWHERE: Final = float("inf")
_LAST: Final = (_NOWHERE,)


class Case(NamedTuple):
    """What an order depends on. `random` gives floats in [0, 1); `weights` takes up the weights of
    the draws, by endpoint key, as shares of 1."""

    ask: Ask
    policy: Policy
    state: State
    random: Random
    weights: dict[int, float]


def ordered(
    endpoints: Sequence[EndpointEntry], case: Case
) -> tuple[list[EndpointEntry], list[Turn]]:
    """All of the endpoints, which come model by model and cheapest first, in the order to try; and
    the tries where the team has credentials of its own for some, else none."""
    policy, state = case.policy, case.state
    found = [each for group in _groups(endpoints, policy) for each in arranged(group, case)]
    if policy.max_latency_s or policy.min_throughput_tps:
        found = meeting_first(found, policy, state.figures)
    sticks = state.sticky is not None and _sticks(policy, state)
    if not (state.byok or state.byok_fallback):
        return (_sticky_first(found, state) if sticks else found), []
    across, usual = policy.across_models, found
    if state.byok:
        found = own_credentials_first(found, state.byok, across_models=across)
    if sticks:
        found, usual = _sticky_first(found, state), _sticky_first(usual, state)
    return found, turns_of(usual, state, across_models=across, sticks=sticks)


def rule_of(endpoints: Sequence[EndpointEntry], ask: Ask, policy: Policy) -> str:
    """The name of the ordering that a request gets: order, priority, flex, a sort or balanced."""
    if policy.order:
        return "order"
    tier = ask.service_tier
    if tier in ("priority", "flex") and any(each.tier == tier for each in endpoints):
        return tier
    return policy.sort or "balanced"


def listed(endpoints: Sequence[EndpointEntry], policy: Policy, ask: Ask) -> list[EndpointEntry]:
    """The endpoints that `order` names, in its order, each where it is named first.

    A base slug means the provider's endpoints, cheapest first, those of a service tier only where
    the request asks for the tier: else their own slug gives them their place.
    """
    places: dict[str, int] = {}
    for place, reference in enumerate(policy.order):
        places.setdefault(reference.casefold(), place)
    ranked = [(_place(each, places, ask.service_tier), each) for each in endpoints]
    named = sorted([pair for pair in ranked if pair[0] < _NOWHERE], key=itemgetter(0))
    return [each for _, each in named]


def _groups(
    endpoints: Sequence[EndpointEntry], policy: Policy
) -> Sequence[Sequence[EndpointEntry]]:
    if policy.across_models:
        return [sorted(endpoints, key=BY_PRICE)]
    if not endpoints or endpoints[0].model_id == endpoints[-1].model_id:
        return [endpoints]
    return [list(group) for _, group in groupby(endpoints, key=model_id_of)]


# --- Rules 1 to 4, within a group -----------------------------------------------------------------


def arranged(group: Sequence[EndpointEntry], case: Case) -> list[EndpointEntry]:
    """One group by the caller's own list, the others behind it; by tier, sort or draw without."""
    if not case.policy.order:
        return _ill_last(_by_tier(group, case), case)
    first = listed(group, case.policy, case.ask)
    named = set(first)
    rest = _by_tier([each for each in group if each not in named], case)
    return first + _ill_last(rest, case)


def _ill_last(endpoints: list[EndpointEntry], case: Case) -> list[EndpointEntry]:
    """A sort says who is best, not that everyone is to wait for an endpoint that does not answer:
    each such wait would also take a retry from the budget of all. Callers who chose the sort wait
    for one that answers every other time."""
    standing = case.state.standing
    ill = standing.failing if case.policy.keeps_sort else standing.unstable | standing.parked
    if not ill:
        return endpoints
    return sorted(endpoints, key=lambda each: each.pk in ill)


def _place(endpoint: EndpointEntry, places: Mapping[str, int], tier: str | None) -> float:
    place = places.get(endpoint.tag_key, _NOWHERE)
    if endpoint.tier == "default" or endpoint.tier == tier:
        for name in endpoint.provider.names:
            place = min(place, places.get(name, _NOWHERE))
    return place


def _by_tier(group: Sequence[EndpointEntry], case: Case) -> list[EndpointEntry]:
    """`priority` puts its endpoints in front, the fastest first; flex endpoints go by price."""
    tier = case.ask.service_tier
    if tier == "priority":
        fast = [each for each in group if each.tier == tier]
        others = [each for each in group if each.tier != tier]
        return _sorted(fast, "throughput", case.state.figures) + _by_sort(others, case)
    if tier == "flex" and any(each.tier == tier for each in group):
        return list(group)
    return _by_sort(group, case)


def _by_sort(group: Sequence[EndpointEntry], case: Case) -> list[EndpointEntry]:
    if case.policy.sort is not None:
        return _sorted(group, case.policy.sort, case.state.figures)
    return balanced(group, case)


def _sorted(
    group: Sequence[EndpointEntry], sort: str, figures: Mapping[int, Figures]
) -> list[EndpointEntry]:
    """By one figure, unknown ones last. Price and tag decide between equals: they come that way."""
    key = _SORT_KEYS.get(sort)
    if key is None or not figures:
        return list(group)
    return sorted(group, key=lambda each: key(figures.get(each.pk, _UNKNOWN)))


_UNKNOWN: Final = Figures()


def _by_throughput(figures: Figures) -> tuple[Any, ...]:
    known = figures.throughput_tps
    return (True, 0.0) if known is None else (False, -known.p50)


def _by_latency(figures: Figures) -> tuple[Any, ...]:
    known = figures.latency_s
    return (True, 0.0) if known is None else (False, known.p50)


def _by_tool_success(figures: Figures) -> tuple[Any, ...]:
    share = figures.tool_success
    if share is None:
        return (1, 0.0, *_by_throughput(figures))
    return (0 if share >= GOOD_TOOL_SUCCESS else 2, -share, *_by_throughput(figures))


# `price` is not among them: the endpoints come sorted by it.
_SORT_KEYS: Final[Mapping[str, Callable[[Figures], tuple[Any, ...]]]] = {
    "throughput": _by_throughput,
    "latency": _by_latency,
    "exacto": _by_tool_success,
}


def balanced(group: Sequence[EndpointEntry], case: Case) -> list[EndpointEntry]:
    """Stable endpoints first: one drawn with weight 1/price squared, the rest by price."""
    unstable, parked, *_ = case.state.standing
    well, ill = list(group), []
    if unstable or parked:
        ill = [each for each in group if each.pk in unstable or each.pk in parked]
        lagging = set(ill)
        well = [each for each in group if each not in lagging]
    if len(well) > 1:
        well.insert(0, well.pop(_drawn(well, case)))
    return well + ill


def _drawn(by_price: list[EndpointEntry], case: Case) -> int:
    """The place of the one drawn. Free endpoints win outright, evenly."""
    cheapest = by_price[0].token_price
    if cheapest == 0:
        free = sum(1 for each in by_price if each.token_price == 0)
        case.weights.update((each.pk, 1 / free) for each in by_price[:free])
        return int(case.random() * free)
    # Relative to the cheapest, so that prices around 1e-7 do not overflow when squared.
    shares = [(cheapest / each.token_price) ** 2 for each in by_price]
    total = sum(shares)
    mark = case.random() * total
    drawn = -1
    for place, (each, share) in enumerate(zip(by_price, shares, strict=True)):
        case.weights[each.pk] = share / total
        mark -= share
        if mark < 0 and drawn < 0:
            drawn = place
    return drawn


# --- Rules 7 and 8, over what the others made -----------------------------------------------------


def own_credentials_first(
    endpoints: Sequence[EndpointEntry],
    places: Mapping[int, tuple[int, ...]],
    *,
    across_models: bool,
) -> list[EndpointEntry]:
    """Endpoints for which the workspace has a credential in front, by the best one's place.

    Within a model they take the places that the model's endpoints have, over all models the first.
    Fallback credentials move nothing: the endpoint is among the shared ones as well.
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


def _sticky_first(endpoints: list[EndpointEntry], state: State) -> list[EndpointEntry]:
    return sorted(endpoints, key=lambda each: each.pk != state.sticky)


def _sticks(policy: Policy, state: State) -> bool:
    """Whether the conversation's endpoint goes first: not where the caller gave an order, nor a
    sort of its own without a session, nor while the endpoint is parked."""
    if policy.order or state.sticky in state.standing.parked:
        return False
    return not policy.sort_named or state.sticky_by_session
