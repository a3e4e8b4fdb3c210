"""Running the filters, and caching their result for requests of one kind.

All but two filters depend on the request's features and its policy alone, and most requests share
both: no preferences, or those of their key's guardrails. The result for requests without
preferences is cached on the model entry and ends with its catalogue. The result for a key with
guardrails is cached with its policy object, which is replaced within a second. The two other
filters compare lengths; a request that is short enough for every endpoint needs none of them.
"""

import math
from collections.abc import Sequence
from itertools import groupby
from typing import Any, Final, NamedTuple

from routing.entities.entries import EndpointEntry, ModelEntry
from routing.entities.identity_cache import IdentityCache
from routing.selection.filters import TOOLS_STEP, list_filters, model_id_of, prefer_supporting
from routing.selection.types import NO_POLICY, Excluded, Policy, Requirements

NOT_SERVED: Final = "Not Served"
NO_PRICE: Final = "No Price"
DOWN: Final = "Down"
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
    if policy.is_shared and len(models) == 1:
        kept = _cached_result(models[0], requirements, policy)
        output_tokens = requirements.output_tokens or 0
        if (
            kept.failed_step is None
            and output_tokens <= kept.output_max
            and requirements.prompt_tokens + output_tokens <= kept.tokens_max
        ):
            return kept
    return _run_filters(models, requirements, policy)


def _cached_result(model: ModelEntry, requirements: Requirements, policy: Policy) -> FilterResult:
    """The result for a short request of this kind."""
    kinds, tools, inputs, outputs, supplied, required, _, _, tier, native = requirements
    kind = (id(model), kinds, tools, inputs, outputs, supplied, required, tier, native)
    store = model.kept if policy is NO_POLICY else _of_policies(policy)
    known = store.get(kind)
    if known is not None:
        found: FilterResult = known[1]
        return found
    found = _run_filters(
        (model,), requirements._replace(prompt_tokens=0, output_tokens=None), policy
    )
    found = found._replace(
        tokens_max=min(map(_tokens_max, found.endpoints), default=0),
        output_max=min(map(_output_max, found.endpoints), default=0),
    )
    if len(store) >= _KEPT_MAX:
        store.clear()
    # The policy's entry also holds the model: its `id` is only unique while it lives.
    store[kind] = None if store is model.kept else model, found
    return found


def _tokens_max(endpoint: EndpointEntry) -> float:
    return min(endpoint.prompt_tokens_max, endpoint.context_length or math.inf)


def _output_max(endpoint: EndpointEntry) -> float:
    return math.inf if endpoint.max_completion_tokens is None else endpoint.max_completion_tokens


def _run_filters(
    models: Sequence[ModelEntry], requirements: Requirements, policy: Policy
) -> FilterResult:
    removed: list[Excluded] = []
    endpoints = _list_servable(models, requirements, removed)
    for step, keep in list_filters(requirements, policy):
        kept = keep(endpoints)
        if len(kept) != len(endpoints):
            removed += list_excluded(endpoints, kept, step)
            if not kept:
                return FilterResult(endpoints, removed, [], failed_step=step)
            endpoints = kept
    supporting = _prefer_supporting(endpoints, requirements)
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


def _list_servable(
    models: Sequence[ModelEntry], requirements: Requirements, removed: list[Excluded]
) -> list[EndpointEntry]:
    """The endpoints that can be called in the caller's format, model by model, cheapest first."""
    found: list[EndpointEntry] = []
    for model in models:
        own = [each for each in model.by_price if each.serves(requirements.kinds)]
        found += own
        if len(own) != len(model.endpoints):
            kept = set(own)
            absent = (each for each in model.endpoints if each not in kept)
            removed += [Excluded(each, _absence_reason(each, requirements)) for each in absent]
    return found


def _absence_reason(endpoint: EndpointEntry, requirements: Requirements) -> str:
    if not endpoint.serves(requirements.kinds):
        return NOT_SERVED
    return NO_PRICE if endpoint.prices is None else DOWN


def _prefer_supporting(
    endpoints: list[EndpointEntry], requirements: Requirements
) -> list[EndpointEntry]:
    """`prefer_supporting`, model by model."""
    if not (requirements.supplied_parameters or requirements.tools):
        return endpoints
    by_model = groupby(endpoints, key=model_id_of)
    return [each for _, group in by_model for each in prefer_supporting(list(group), requirements)]
