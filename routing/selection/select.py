"""From candidate models to an ordered list of endpoints, with the reason for each one left out.

A pure function of the request, the catalogue's entries, health, a random source and nothing else.
"""

from collections.abc import Callable, Sequence

from routing.catalogue.entries import EndpointEntry, ModelEntry
from routing.selection.ask import Ask, Plan, Removed
from routing.selection.filters import FILTERS, preferred
from routing.selection.ordering import Random, balanced

NOT_SERVED = "Not Served"
NO_PRICE = "No Price"
DOWN = "Down"
OUTPUT_STEP = "Filter by Max Tokens"
PREFERENCE = "Parameter Preference"
_DOWN_STATUS = -3


def select(
    models: Sequence[ModelEntry],
    ask: Ask,
    *,
    stable: Callable[[EndpointEntry], bool],
    random: Random,
) -> Plan:
    """Endpoints of all models, all of model 1 before those of model 2."""
    removed: list[Removed] = []
    candidates = [each for model in models for each in _servable(model, ask, removed)]
    before = candidates
    for step, test in FILTERS:
        before, candidates = candidates, [each for each in candidates if test(each, ask)]
        if len(candidates) != len(before):
            removed += [Removed(each, step) for each in before if each not in candidates]
        if before and not candidates:
            return Plan((), removed, before, failed_step=step)
    candidates = _with_enough_output(candidates, ask, removed)
    order: list[EndpointEntry] = []
    for model in models:
        mine = [each for each in candidates if each.model_id == model.id]
        chosen = preferred(mine, ask)
        removed += [Removed(each, PREFERENCE) for each in mine if each not in chosen]
        order += balanced(chosen, stable=stable, random=random) if chosen else []
    return Plan(order, removed, candidates, output_caps=_caps(order, ask))


def all_down(models: Sequence[ModelEntry], ask: Ask) -> bool:
    """Whether endpoints exist for the request and every one of them is down."""
    served = [each for model in models for each in model.endpoints if _speaks(each, ask)]
    alive = [each for each in served if each.status > -5]
    return bool(alive) and all(each.status == _DOWN_STATUS for each in alive)


def _servable(model: ModelEntry, ask: Ask, removed: list[Removed]) -> list[EndpointEntry]:
    kept = []
    for each in model.endpoints:
        if not _speaks(each, ask):
            removed.append(Removed(each, NOT_SERVED))
        elif each.routable:
            kept.append(each)
        else:
            removed.append(Removed(each, NO_PRICE if each.prices is None else DOWN))
    return kept


def _speaks(endpoint: EndpointEntry, ask: Ask) -> bool:
    return endpoint.provider.kind in ask.kinds


def _with_enough_output(
    candidates: list[EndpointEntry], ask: Ask, removed: list[Removed]
) -> list[EndpointEntry]:
    """Endpoints that can give the requested output; all of them where none can (see `_caps`)."""
    able = [each for each in candidates if not _too_short(each, ask)]
    if not able:
        return candidates
    removed += [Removed(each, OUTPUT_STEP) for each in candidates if each not in able]
    return able


def _too_short(endpoint: EndpointEntry, ask: Ask) -> bool:
    most = endpoint.max_completion_tokens
    return most is not None and ask.output_tokens is not None and ask.output_tokens > most


def _caps(order: Sequence[EndpointEntry], ask: Ask) -> dict[int, int]:
    """The output cap is lowered to the endpoint's maximum where every endpoint falls short."""
    return {each.pk: each.max_completion_tokens or 0 for each in order if _too_short(each, ask)}
