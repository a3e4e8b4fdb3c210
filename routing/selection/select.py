"""From a request's models to an ordered list of endpoints, with a reason for each excluded one.

`select` is a pure function of requirements, catalogue entries, policy, statistics and a random
source.
"""

import math
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any, Final, NamedTuple

from routing.entities.entries import EndpointEntry, ModelEntry
from routing.entities.identity_cache import IdentityCache
from routing.selection.filters import (
    TOOLS_STEP,
    list_filters,
    model_id_of,
    prefer_supporting,
)
from routing.selection.ordering import (
    OrderingInputs,
    Random,
    has_candidate,
    order_endpoints,
    rule_of,
)
from routing.selection.types import (
    NO_POLICY,
    NOTHING_LEARNED,
    Candidate,
    EndpointState,
    Excluded,
    Plan,
    Policy,
    Requirements,
)

NOT_SERVED: Final = "Not Served"
NO_PRICE: Final = "No Price"
DOWN: Final = "Down"
PREFERENCE: Final = "Parameter Preference"
OWN_CREDENTIALS: Final = "Own Credentials Only"
NO_FALLBACKS: Final = "Fallbacks Disabled"
_DOWN_STATUS: Final = -3
_DISABLED_STATUS: Final = -5
# Cached kinds of requests per model, or models and kinds per policy; beyond that the cache is
# emptied.
_KEPT_MAX: Final = 16
_of_policies: IdentityCache[Policy, dict[Any, Any]] = IdentityCache(lambda policy: {})


class FilterResult(NamedTuple):
    """`endpoints` passed all hard filters. If none did, they are those before the filter that
    excluded the last ones, and `failed_step` names that filter. `supporting` are the endpoints that
    the soft preference keeps. Any request with at most `tokens_max` tokens of prompt and answer
    together, and at most `output_max` of the answer, fits all of them.
    """

    endpoints: list[EndpointEntry]
    removed: list[Excluded]
    supporting: list[EndpointEntry]
    failed_step: str | None = None
    tokens_max: float = 0
    output_max: float = 0


def filter_endpoints(
    models: Sequence[ModelEntry], requirements: Requirements, policy: Policy
) -> FilterResult:
    """The endpoints that pass the filters. The lists are cached: do not change them."""
    if not policy.is_shared or len(models) != 1:
        return _run_filters(models, requirements, policy)
    (model,) = models
    kinds, tools, inputs, outputs, supplied, required, prompt, output, tier, native = requirements
    kind = (id(model), kinds, tools, inputs, outputs, supplied, required, tier, native)
    store = model.kept if policy is NO_POLICY else _of_policies(policy)
    cached = store.get(kind)
    kept: FilterResult
    if cached is not None:
        kept = cached[1]
    else:
        # The result for a short request of this kind, and how long such a request may be.
        short = requirements._replace(prompt_tokens=0, output_tokens=None)
        kept = _run_filters(models, short, policy)
        rooms = [
            (
                min(each.prompt_tokens_max, each.context_length or math.inf),
                math.inf if each.max_completion_tokens is None else each.max_completion_tokens,
            )
            for each in kept.endpoints
        ]
        kept = kept._replace(
            tokens_max=min([tokens for tokens, _ in rooms], default=0),
            output_max=min([tokens for _, tokens in rooms], default=0),
        )
        if len(store) >= _KEPT_MAX:
            store.clear()
        # The policy's entry also holds the model: its `id` is only unique while it lives.
        store[kind] = None if store is model.kept else model, kept
    answer = output or 0
    fits = answer <= kept.output_max and prompt + answer <= kept.tokens_max
    if kept.failed_step is None and fits:
        return kept
    return _run_filters(models, requirements, policy)


def _run_filters(
    models: Sequence[ModelEntry], requirements: Requirements, policy: Policy
) -> FilterResult:
    """Filter the endpoints that serve the caller's format, model by model, cheapest first."""
    kinds = requirements.kinds
    endpoints: list[EndpointEntry] = []
    removed: list[Excluded] = []
    for model in models:
        servable = [each for each in model.by_price if each.serves(kinds)]
        endpoints += servable
        if len(servable) == len(model.endpoints):
            continue
        present = set(servable)
        for each in model.endpoints:
            if each not in present:
                reason = NO_PRICE if each.prices is None else DOWN
                removed.append(Excluded(each, reason if each.serves(kinds) else NOT_SERVED))
    for step, keep in list_filters(requirements, policy):
        kept = keep(endpoints)
        if len(kept) != len(endpoints):
            removed += list_excluded(endpoints, kept, step)
            if not kept:
                return FilterResult(endpoints, removed, [], failed_step=step)
            endpoints = kept
    supporting = endpoints
    if requirements.supplied_parameters or requirements.tools:
        by_model = groupby(endpoints, key=model_id_of)
        supporting = [
            each for _, group in by_model for each in prefer_supporting(group, requirements)
        ]
    if endpoints and not supporting:
        removed += list_excluded(endpoints, (), TOOLS_STEP)
        return FilterResult(endpoints, removed, [], failed_step=TOOLS_STEP)
    return FilterResult(endpoints, removed, supporting)


def list_excluded(
    endpoints: Sequence[EndpointEntry], kept: Sequence[EndpointEntry], step: str
) -> list[Excluded]:
    """The endpoints that a filter excluded, with the filter's name."""
    left = set(kept)
    return [Excluded(each, step) for each in endpoints if each not in left]


def select(
    models: Sequence[ModelEntry],
    requirements: Requirements,
    policy: Policy = NO_POLICY,
    state: EndpointState = NOTHING_LEARNED,
    *,
    random: Random,
) -> Plan:
    """Which endpoints of the models to try, and in which order. `random` gives floats in [0, 1).

    Every endpoint of the models is in `order` or in `removed`, once.
    """
    endpoints, left_out, supporting, failed_step, _, _ = filter_endpoints(
        models, requirements, policy
    )
    if failed_step is not None:
        return Plan((), left_out, endpoints, failed_step=failed_step)
    # A copy, because the filter result is shared by all requests of its kind.
    removed = [*left_out]
    if state.unshared:
        own = [each for each in endpoints if has_candidate(each, state)]
        if endpoints and not own:
            removed += list_excluded(endpoints, own, OWN_CREDENTIALS)
            return Plan((), removed, endpoints, failed_step=OWN_CREDENTIALS)
        endpoints = _narrow(endpoints, own, OWN_CREDENTIALS, removed)
        supporting = [each for each in supporting if has_candidate(each, state)] or endpoints
    case = OrderingInputs(requirements, policy, state, random, {})
    order, own_candidates, stay = order_endpoints(
        _narrow(endpoints, supporting, PREFERENCE, removed), case
    )
    if not policy.allow_fallbacks:
        order = _narrow(order, _first_choices(order, policy), NO_FALLBACKS, removed)
        own_candidates = [candidate for candidate in own_candidates if candidate.endpoint in order]
    output_tokens = requirements.output_tokens
    # They are there only if every endpoint falls short of the requested output.
    short = [
        each for each in order if output_tokens is not None and each.is_output_below(output_tokens)
    ]
    first = next(iter(own_candidates or map(Candidate, order)), None)
    # A try with a team's own credential is no probe: it says nothing about the shared endpoint.
    probe = first.endpoint.pk if first is not None and first.own is None else None
    return Plan(
        order,
        removed,
        endpoints,
        output_caps={each.pk: each.max_completion_tokens or 0 for each in short},
        weights=case.weights,
        rule=rule_of(order, requirements, policy),
        probe=probe if probe in state.health.half_open else None,
        own_candidates=own_candidates,
        stay=stay,
    )


def are_all_down(
    models: Sequence[ModelEntry], requirements: Requirements, policy: Policy = NO_POLICY
) -> bool:
    """Whether endpoints exist that could serve the request and every one of them is down."""
    offered = list_offered(models, requirements)
    for _, keep in list_filters(requirements, policy):
        offered = keep(offered)
    return bool(offered) and all(map(is_down, offered))


def is_down(endpoint: EndpointEntry) -> bool:
    """Whether the endpoint is down for now, but not disabled."""
    return endpoint.status == _DOWN_STATUS


def list_providers(models: Sequence[ModelEntry], requirements: Requirements) -> list[str]:
    """The slugs of the providers that serve the models in the caller's format, down or not."""
    return sorted({each.provider.slug for each in list_offered(models, requirements)})


def list_unpriced(models: Iterable[ModelEntry], requirements: Requirements) -> list[str]:
    """The ids of models that would serve the caller's format, had they a price."""
    return [
        model.id
        for model in models
        if any(
            each.prices is None
            and each.status > _DISABLED_STATUS
            and each.serves(requirements.kinds)
            for each in model.endpoints
        )
    ]


def list_offered(models: Iterable[ModelEntry], requirements: Requirements) -> list[EndpointEntry]:
    """The endpoints that serve the models in the caller's format, down or not."""
    return [
        each
        for model in models
        for each in model.endpoints
        if each.prices is not None
        and each.status > _DISABLED_STATUS
        and each.serves(requirements.kinds)
    ]


def _narrow(
    endpoints: list[EndpointEntry],
    kept: list[EndpointEntry],
    step: str,
    removed: list[Excluded],
) -> list[EndpointEntry]:
    """`endpoints` without those not in `kept`, which are appended to `removed`."""
    if len(kept) == len(endpoints):
        return endpoints
    gone = list_excluded(endpoints, kept, step)
    removed += gone
    left_out = {each.endpoint for each in gone}
    return [each for each in endpoints if each not in left_out]


def _first_choices(order: list[EndpointEntry], policy: Policy) -> list[EndpointEntry]:
    """The endpoints to try without fallbacks: those that an `order` lists, else the first one; of
    the first model only, unless the caller listed several.
    """
    if not policy.models_named:
        order = [each for each in order if each.model_id == order[0].model_id]
    if policy.order:
        return order
    firsts: dict[str, EndpointEntry] = {}
    for each in order:
        firsts.setdefault(each.model_id, each)
    return list(firsts.values())
