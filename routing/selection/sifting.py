"""What the filters leave of a request's models, worked out once for requests of one kind.

All but two filters look at what is asked for and at what is wanted of the choice, and both are the
same for most requests: they say nothing of their own, or what their key's guardrails say. What is
left of a model for those that say nothing is kept with it, and so ends with its catalogue; what is
left for a key with guardrails is kept beside these, which are read anew every moment. The two other
filters ask for room; a request that fits everywhere passes them by.
"""

import math
from collections.abc import Sequence
from itertools import groupby
from typing import Any, Final, NamedTuple

from routing.entities.derived import Derived
from routing.entities.entries import EndpointEntry, ModelEntry
from routing.selection.ask import NO_POLICY, Ask, Policy, Removed
from routing.selection.filters import TOOLS_STEP, model_id_of, preferred, steps

NOT_SERVED: Final = "Not Served"
NO_PRICE: Final = "No Price"
DOWN: Final = "Down"
# Kinds of requests that are kept for a model, or models and kinds for a key's policy. Past them it
# begins anew.
_KEPT_MAX: Final = 16
_of_policies: Derived[Policy, dict[Any, Any]] = Derived(lambda policy: {})


class Sifted(NamedTuple):
    """`candidates` passed all hard filters; where nothing did, they are those before the filter
    that emptied the list, and `failed_step` names it. `supporting` are those of the candidates
    that the soft preference leaves. A request fits all of them with at most `tokens_max` tokens of
    prompt and answer together, and at most `output_max` of the answer.
    """

    candidates: list[EndpointEntry]
    removed: list[Removed]
    supporting: list[EndpointEntry]
    failed_step: str | None = None
    tokens_max: float = 0
    output_max: float = 0


def sifted(models: Sequence[ModelEntry], ask: Ask, policy: Policy) -> Sifted:
    """What the filters leave. Its lists are the caller's to read, not to change."""
    if policy.standing and len(models) == 1:
        kept = _kept(models[0], ask, policy)
        output_tokens = ask.output_tokens or 0
        if (
            kept.failed_step is None
            and output_tokens <= kept.output_max
            and ask.prompt_tokens + output_tokens <= kept.tokens_max
        ):
            return kept
    return _sifted(models, ask, policy)


def _kept(model: ModelEntry, ask: Ask, policy: Policy) -> Sifted:
    """What is left of the model for a request of this kind that has room everywhere."""
    kinds, tools, inputs, outputs, supplied, required, _, _, tier, native = ask
    kind = (id(model), kinds, tools, inputs, outputs, supplied, required, tier, native)
    store = model.kept if policy is NO_POLICY else _of_policies(policy)
    known = store.get(kind)
    if known is not None:
        found: Sifted = known[1]
        return found
    found = _sifted((model,), ask._replace(prompt_tokens=0, output_tokens=None), policy)
    found = found._replace(
        tokens_max=min(map(_tokens_max, found.candidates), default=0),
        output_max=min(map(_output_max, found.candidates), default=0),
    )
    if len(store) >= _KEPT_MAX:
        store.clear()
    # A policy keeps the model too: its place in memory is its name here.
    store[kind] = None if store is model.kept else model, found
    return found


def _tokens_max(endpoint: EndpointEntry) -> float:
    return min(endpoint.prompt_tokens_max, endpoint.context_length or math.inf)


def _output_max(endpoint: EndpointEntry) -> float:
    return math.inf if endpoint.max_completion_tokens is None else endpoint.max_completion_tokens


def _sifted(models: Sequence[ModelEntry], ask: Ask, policy: Policy) -> Sifted:
    removed: list[Removed] = []
    candidates = _servable(models, ask, removed)
    for step, keep in steps(ask, policy):
        kept = keep(candidates)
        if len(kept) != len(candidates):
            removed += without(candidates, kept, step)
            if not kept:
                return Sifted(candidates, removed, [], failed_step=step)
            candidates = kept
    supporting = _preferred(candidates, ask)
    if candidates and not supporting:
        removed += without(candidates, (), TOOLS_STEP)
        return Sifted(candidates, removed, [], failed_step=TOOLS_STEP)
    return Sifted(candidates, removed, supporting)


def without(
    candidates: Sequence[EndpointEntry], kept: Sequence[EndpointEntry], step: str
) -> list[Removed]:
    """The candidates that a step did not keep."""
    left = set(kept)
    return [Removed(each, step) for each in candidates if each not in left]


def _servable(
    models: Sequence[ModelEntry], ask: Ask, removed: list[Removed]
) -> list[EndpointEntry]:
    """What may be called in the caller's format, model by model and cheapest first."""
    found: list[EndpointEntry] = []
    for model in models:
        own = [each for each in model.by_price if each.serves(ask.kinds)]
        found += own
        if len(own) != len(model.endpoints):
            kept = set(own)
            absent = (each for each in model.endpoints if each not in kept)
            removed += [Removed(each, _why_absent(each, ask)) for each in absent]
    return found


def _why_absent(endpoint: EndpointEntry, ask: Ask) -> str:
    if not endpoint.serves(ask.kinds):
        return NOT_SERVED
    return NO_PRICE if endpoint.prices is None else DOWN


def _preferred(candidates: list[EndpointEntry], ask: Ask) -> list[EndpointEntry]:
    """Model by model those that support what was supplied, where some do."""
    if not (ask.supplied_parameters or ask.tools):
        return candidates
    by_model = groupby(candidates, key=model_id_of)
    return [each for _, group in by_model for each in preferred(list(group), ask)]
