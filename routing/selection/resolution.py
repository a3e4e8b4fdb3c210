"""From the model references of a request to models.

A name that the catalogue has as an id or alias is always that model, whatever it looks like.
Otherwise its dynamic suffixes are removed, and the rest is a family (`~author/name-latest`), a
virtual router, or a model. If several references have a suffix that sorts, the first one counts,
because a request has one order. Opened tiers and the plugin of `:online` hold for all models.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from routing.entities.entries import DECIDING, ModelEntry, Snapshot
from routing.selection.auto import (
    NO_AUTO_OPTIONS,
    AutoSettings,
    auto_need,
    choose_auto_models,
    choose_free_models,
    free_need,
)
from routing.selection.model_references import (
    ROUTERS,
    Family,
    ModelReference,
    SuffixEffect,
    family_of,
    parse_reference,
)
from routing.selection.price_bands import list_pool
from routing.selection.types import Requirements, Resolution

# Where one of these comes out, a model can take part in a conversation.
_CONVERSED: Final = frozenset({"text", "image", "audio"})
_AUTO: Final = "router/auto"
_FREE: Final = "router/free"
# Routers that are built in, by what they may be called.
_VIRTUAL: Final[Mapping[str, str]] = {
    _AUTO: _AUTO,
    "auto": _AUTO,
    "router/auto-beta": "router/auto-beta",
    _FREE: _FREE,
}
_ROUTER_STRATEGIES: Final = frozenset(ROUTERS.values())


class ReferenceProblem(Exception):
    """A reference that cannot be resolved; `reference` is as the caller wrote it."""

    def __init__(self, reference: str) -> None:
        super().__init__(reference)
        self.reference = reference


class UnknownModelReference(ReferenceProblem):
    """Nothing has that name."""


class WrongKind(ReferenceProblem):
    """The model does not answer requests of this format."""


class _Resolved(NamedTuple):
    """The models of one reference. `strategy` is None for a model that was named by its id."""

    models: Sequence[ModelEntry]
    strategy: str | None = None
    effects: Sequence[SuffixEffect] = ()
    virtual: str | None = None


class _Request(NamedTuple):
    """The inputs that all references of a request share."""

    snapshot: Snapshot
    requirements: Requirements
    auto: AutoSettings
    random: Callable[[], float]
    sticky_model: str | None


def resolve_models(
    snapshot: Snapshot,
    references: Sequence[str],
    requirements: Requirements,
    *,
    auto: AutoSettings,
    random: Callable[[], float],
    sticky_model: str | None = None,
) -> Resolution:
    """The models that the references name, in order and without repeats.

    `sticky_model` is the id of the model that a virtual router chose for this conversation before.
    The result is empty if all references are routers or families that find no model. Raises
    `UnknownModelReference` and `WrongKind`.
    """
    plain = snapshot.models.get(references[0]) if len(references) == 1 else None
    if plain is not None and references[0] not in ROUTERS:
        return Resolution((_check_serves(plain, requirements, references[0]),), "direct")
    request = _Request(snapshot, requirements, auto, random, sticky_model)
    resolved = [_resolve_reference(request, reference) for reference in references]
    models = tuple(dict.fromkeys([model for each in resolved for model in each.models]))
    effects = [effect for each in resolved for effect in each.effects]
    virtual = next((each.virtual for each in resolved if each.virtual), None)
    # The value of `router_metadata.strategy`: of the first virtual router, else of the first
    # reference, else whether there are several models.
    routers = [each.strategy for each in resolved if each.strategy in _ROUTER_STRATEGIES]
    own = routers[0] if routers else resolved[0].strategy
    pool: tuple[ModelEntry, ...] = ()
    if virtual and not models:
        wishes = auto.wishes.get(virtual, NO_AUTO_OPTIONS)
        need = (
            free_need(requirements) if virtual == _FREE else auto_need(requirements, auto, wishes)
        )
        pool = list_pool(snapshot, need)
    return Resolution(
        models=models,
        strategy=own or ("fallback" if len(models) > 1 else "direct"),
        sort=next((effect.sort for effect in effects if effect.sort), None),
        admitted_tiers=_opened_tiers(effects),
        plugins=tuple(dict.fromkeys([effect.plugin for effect in effects if effect.plugin])),
        virtual=virtual,
        pool=pool,
    )


def find_model(snapshot: Snapshot, reference: str) -> ModelEntry | None:
    """The one model that a reference names outright or as the newest of its family."""
    model = snapshot.model(reference)
    if model is not None:
        return model
    base = parse_reference(reference).base
    family = family_of(base)
    return snapshot.model(base) if family is None else _newest_of_family(snapshot, family)


def newest_by_family(snapshot: Snapshot) -> dict[str, ModelEntry]:
    """The newest listed model of each family; of equally new ones one without a variant."""
    newest: dict[str, ModelEntry] = {}
    for model in sorted(
        snapshot.listing, key=lambda model: (-model.created, ":" in model.id, model.id)
    ):
        if model.family is not None:
            newest.setdefault(model.family, model)
    return newest


def _resolve_reference(request: _Request, reference: str) -> _Resolved:
    """Raises `UnknownModelReference` and `WrongKind`."""
    model = request.snapshot.model(reference)
    name = ModelReference(reference) if model is not None else parse_reference(reference)
    if model is None:
        model = request.snapshot.model(name.base)
    if model is not None:
        strategy = ROUTERS.get(name.base) or (None if model.id == name.base else "alias")
        return _Resolved(
            [_check_serves(model, request.requirements, reference)], strategy, name.effects
        )
    family = family_of(name.base)
    if family is None:
        return _resolve_router(request, name, reference)
    model = _newest_of_family(request.snapshot, family)
    if model is None:
        # The family is there, its newest model lacks the variant: an entry that does not exist.
        if family.variant and family.name in request.snapshot.derive(newest_by_family):
            raise UnknownModelReference(reference)
        return _Resolved([], "latest")
    return _Resolved(
        [_check_serves(model, request.requirements, reference)], "latest", name.effects
    )


def _newest_of_family(snapshot: Snapshot, family: Family) -> ModelEntry | None:
    model = snapshot.derive(newest_by_family).get(family.name)
    if model is None or not family.variant:
        return model
    return snapshot.models.get(model.id + family.variant)


def _resolve_router(request: _Request, name: ModelReference, reference: str) -> _Resolved:
    """The models that a virtual router chooses; none if it is not built in."""
    strategy = ROUTERS.get(name.base)
    if strategy is None:
        raise UnknownModelReference(reference)
    virtual = _VIRTUAL.get(name.base)
    if virtual is None:
        return _Resolved([], strategy)
    snapshot, requirements, auto, random, sticky = request
    tiers = _opened_tiers(name.effects)
    if virtual == _FREE:
        models = choose_free_models(
            snapshot, requirements, auto, tiers=tiers, random=random, sticky_model=sticky
        )
    else:
        wishes = auto.wishes.get(virtual, NO_AUTO_OPTIONS)
        models = choose_auto_models(
            snapshot, requirements, auto, wishes, tiers=tiers, sticky_model=sticky
        )
    return _Resolved(models, strategy, name.effects, virtual)


def _check_serves(model: ModelEntry, requirements: Requirements, reference: str) -> ModelEntry:
    """The model. Raises `WrongKind` if it cannot answer requests of this format."""
    if model.endpoints and not any(each.serves(requirements.kinds) for each in model.endpoints):
        raise WrongKind(reference)
    if requirements.kinds <= DECIDING:
        return model
    modalities = model.output_modalities
    if (
        modalities
        and _CONVERSED.isdisjoint(modalities)
        and requirements.output_modalities.isdisjoint(modalities)
    ):
        raise WrongKind(reference)
    return model


def _opened_tiers(effects: Sequence[SuffixEffect]) -> frozenset[str]:
    return frozenset([effect.tier for effect in effects if effect.tier])
