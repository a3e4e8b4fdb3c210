"""From candidate models to an ordered list of endpoints, with the reason for each one left out.

A pure function of the request, the catalogue's entries, what was learned, a random source and
nothing else.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from routing.entities.entries import EndpointEntry, ModelEntry
from routing.selection.ask import (
    NO_POLICY,
    NOTHING_LEARNED,
    Ask,
    Plan,
    Policy,
    Removed,
    State,
    Turn,
)
from routing.selection.filters import steps, too_short
from routing.selection.ordering import Case, Random, ordered, rule_of
from routing.selection.sifting import sifted, without
from routing.selection.turns import is_open

PREFERENCE: Final = "Parameter Preference"
OWN_CREDENTIALS: Final = "Own Credentials Only"
NO_FALLBACKS: Final = "Fallbacks Disabled"
_DOWN_STATUS: Final = -3
_DISABLED_STATUS: Final = -5


def select(
    models: Sequence[ModelEntry],
    ask: Ask,
    policy: Policy = NO_POLICY,
    state: State = NOTHING_LEARNED,
    *,
    random: Random,
) -> Plan:
    """Which endpoints of the models to try, and in which order. `random` gives floats in [0, 1).

    Every endpoint of the models is in `order` or in `removed`, once.
    """
    candidates, left_out, supporting, failed_step, _, _ = sifted(models, ask, policy)
    if failed_step is not None:
        return Plan((), left_out, candidates, failed_step=failed_step)
    # What was sifted belongs to all requests of its kind.
    removed = [*left_out]
    if state.unshared:
        own = [each for each in candidates if is_open(each, state)]
        if candidates and not own:
            removed += without(candidates, own, OWN_CREDENTIALS)
            return Plan((), removed, candidates, failed_step=OWN_CREDENTIALS)
        candidates = _narrowed(candidates, own, OWN_CREDENTIALS, removed)
        supporting = [each for each in supporting if is_open(each, state)] or candidates
    case = Case(ask, policy, state, random, {})
    order, turns = ordered(_narrowed(candidates, supporting, PREFERENCE, removed), case)
    if not policy.allow_fallbacks:
        order = _narrowed(order, _first_choices(order, policy), NO_FALLBACKS, removed)
        turns = [turn for turn in turns if turn.endpoint in order]
    first = next(iter(turns or map(Turn, order)), None)
    return Plan(
        order,
        removed,
        candidates,
        output_caps=_caps(order, ask.output_tokens),
        weights=case.weights,
        rule=rule_of(order, ask, policy),
        probe=_probed(first, state),
        turns=turns,
    )


def _probed(first: Turn | None, state: State) -> int | None:
    """A try with a team's own credential tells nothing of the endpoint that others would get."""
    if first is None or first.own is not None or first.endpoint.pk not in state.standing.half_open:
        return None
    return first.endpoint.pk


def all_down(models: Sequence[ModelEntry], ask: Ask, policy: Policy = NO_POLICY) -> bool:
    """Whether endpoints exist that could serve the request and every one of them is down."""
    left = offered(models, ask)
    for _, keep in steps(ask, policy):
        left = keep(left)
    return bool(left) and all(map(is_down, left))


def is_down(endpoint: EndpointEntry) -> bool:
    """Whether it is there, but may not be called for now."""
    return endpoint.status == _DOWN_STATUS


def serving(models: Sequence[ModelEntry], ask: Ask) -> list[str]:
    """The slugs of the providers that serve the models in the caller's format, down or not."""
    return sorted({each.provider.slug for each in offered(models, ask)})


def unpriced(models: Iterable[ModelEntry], ask: Ask) -> list[str]:
    """The ids of models that would serve the caller's format, had they a price."""
    return [
        model.id
        for model in models
        if any(
            each.prices is None and each.status > _DISABLED_STATUS and each.serves(ask.kinds)
            for each in model.endpoints
        )
    ]


def offered(models: Iterable[ModelEntry], ask: Ask) -> list[EndpointEntry]:
    """The endpoints that serve the models in the caller's format, down or not."""
    return [each for model in models for each in model.endpoints if _is_offered(each, ask)]


def _is_offered(endpoint: EndpointEntry, ask: Ask) -> bool:
    """Whether it would serve the request's format if it were not down."""
    is_there = endpoint.prices is not None and endpoint.status > _DISABLED_STATUS
    return is_there and endpoint.serves(ask.kinds)


def _narrowed(
    candidates: list[EndpointEntry],
    kept: list[EndpointEntry],
    step: str,
    removed: list[Removed],
) -> list[EndpointEntry]:
    """`candidates` without those that are not kept; why is noted in `removed`."""
    if len(kept) == len(candidates):
        return candidates
    gone = without(candidates, kept, step)
    removed += gone
    left_out = {each.endpoint for each in gone}
    return [each for each in candidates if each not in left_out]


def _first_choices(order: list[EndpointEntry], policy: Policy) -> list[EndpointEntry]:
    """What is tried where nothing may be fallen back to: with an order all that it lists (there is
    nothing else by now), else the first endpoint; of one model, unless the caller listed several.
    """
    if not policy.models_named:
        order = [each for each in order if each.model_id == order[0].model_id]
    if policy.order:
        return order
    firsts: dict[str, EndpointEntry] = {}
    for each in order:
        firsts.setdefault(each.model_id, each)
    return list(firsts.values())


def _caps(order: Sequence[EndpointEntry], output_tokens: int | None) -> dict[int, int]:
    """The output cap is lowered to the endpoint's maximum where every endpoint falls short."""
    if output_tokens is None:
        return {}
    short = [each for each in order if too_short(each, output_tokens)]
    return {each.pk: each.max_completion_tokens or 0 for each in short}
