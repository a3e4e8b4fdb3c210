"""From the model references of a request to models (inference reference 7.4).

A name that the catalogue holds, as an id or as an alias, is always that model, whatever it looks
like. Else its dynamic suffixes come off and the rest is a family (`~author/name-latest`), a virtual
router, or a model. Where several references carry a suffix that sorts, the first such suffix
counts, because one request has one order; the tiers that suffixes open and the plugin that
`:online` adds are of the whole request too.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from routing.entities.entries import DECIDING, ModelEntry, Snapshot
from routing.selection.ask import Ask, Resolution
from routing.selection.auto import (
    NO_WISHES,
    AutoSettings,
    auto_models,
    auto_need,
    free_models,
    free_need,
)
from routing.selection.market import pool_of
from routing.selection.naming import ROUTERS, Effect, Family, Name, family_of, parse

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
_ROUTED: Final = frozenset(ROUTERS.values())


class ReferenceProblem(Exception):
    """A reference that comes to nothing; `reference` is as the caller wrote it."""

    def __init__(self, reference: str) -> None:
        super().__init__(reference)
        self.reference = reference


class UnknownModelReference(ReferenceProblem):
    """Nothing has that name."""


class WrongKind(ReferenceProblem):
    """The model does not answer requests of this format."""


class _Found(NamedTuple):
    """What one reference comes to. `strategy` is None for a model that was named by its id."""

    models: Sequence[ModelEntry]
    strategy: str | None = None
    effects: Sequence[Effect] = ()
    virtual: str | None = None


class _Request(NamedTuple):
    """What every reference of a request is resolved with."""

    snapshot: Snapshot
    ask: Ask
    auto: AutoSettings
    random: Callable[[], float]
    sticky_model: str | None


def resolve(
    snapshot: Snapshot,
    references: Sequence[str],
    ask: Ask,
    *,
    auto: AutoSettings,
    random: Callable[[], float],
    sticky_model: str | None = None,
) -> Resolution:
    """The models behind the references, in order; one that is named twice counts once.

    `sticky_model` is the id of the model that a virtual router chose for this conversation before.
    There are none where every reference leaves the choice open and none finds a model. Raises
    `UnknownModelReference` and `WrongKind`.
    """
    plain = snapshot.models.get(references[0]) if len(references) == 1 else None
    if plain is not None and references[0] not in ROUTERS:
        return Resolution((_serving(plain, ask, references[0]),), "direct")
    request = _Request(snapshot, ask, auto, random, sticky_model)
    found = [_found(request, reference) for reference in references]
    models = tuple(dict.fromkeys([model for each in found for model in each.models]))
    effects = [effect for each in found for effect in each.effects]
    virtual = next((each.virtual for each in found if each.virtual), None)
    return Resolution(
        models=models,
        strategy=_strategy(found, models),
        sort=next((effect.sort for effect in effects if effect.sort), None),
        admitted_tiers=_tiers(effects),
        plugins=tuple(dict.fromkeys([effect.plugin for effect in effects if effect.plugin])),
        virtual=virtual,
        pool=_pool(request, virtual) if virtual and not models else (),
    )


def named_model(snapshot: Snapshot, reference: str) -> ModelEntry | None:
    """The one model that a reference names outright or as the newest of its family."""
    model = snapshot.model(reference)
    if model is not None:
        return model
    base = parse(reference).base
    family = family_of(base)
    return snapshot.model(base) if family is None else _newest(snapshot, family)


def families(snapshot: Snapshot) -> dict[str, ModelEntry]:
    """The newest listed model of each family; of equally new ones one without a variant."""
    newest: dict[str, ModelEntry] = {}
    for model in sorted(snapshot.listing, key=_age):
        if model.family is not None:
            newest.setdefault(model.family, model)
    return newest


def _age(model: ModelEntry) -> tuple[int, bool, str]:
    return (-model.created, ":" in model.id, model.id)


def _found(request: _Request, reference: str) -> _Found:
    """Raises `UnknownModelReference` and `WrongKind`."""
    model = request.snapshot.model(reference)
    name = Name(reference) if model is not None else parse(reference)
    if model is None:
        model = request.snapshot.model(name.base)
    if model is not None:
        strategy = ROUTERS.get(name.base) or (None if model.id == name.base else "alias")
        return _Found([_serving(model, request.ask, reference)], strategy, name.effects)
    family = family_of(name.base)
    if family is not None:
        return _latest(request, family, name, reference)
    return _routed(request, name, reference)


def _latest(request: _Request, family: Family, name: Name, reference: str) -> _Found:
    model = _newest(request.snapshot, family)
    if model is None:
        # The family is there, its newest model lacks the variant: an entry that does not exist.
        if family.variant and family.name in request.snapshot.derive(families):
            raise UnknownModelReference(reference)
        return _Found([], "latest")
    return _Found([_serving(model, request.ask, reference)], "latest", name.effects)


def _newest(snapshot: Snapshot, family: Family) -> ModelEntry | None:
    model = snapshot.derive(families).get(family.name)
    if model is None or not family.variant:
        return model
    return snapshot.models.get(model.id + family.variant)


def _routed(request: _Request, name: Name, reference: str) -> _Found:
    """What a virtual router chooses; nothing for one that is not built in."""
    strategy = ROUTERS.get(name.base)
    if strategy is None:
        raise UnknownModelReference(reference)
    virtual = _VIRTUAL.get(name.base)
    if virtual is None:
        return _Found([], strategy)
    return _Found(_chosen(request, virtual, _tiers(name.effects)), strategy, name.effects, virtual)


def _chosen(request: _Request, router: str, tiers: frozenset[str]) -> list[ModelEntry]:
    snapshot, ask, auto, random, sticky = request
    if router == _FREE:
        return free_models(snapshot, ask, auto, tiers=tiers, random=random, sticky_model=sticky)
    wishes = auto.wishes.get(router, NO_WISHES)
    return auto_models(snapshot, ask, auto, wishes, tiers=tiers, sticky_model=sticky)


def _pool(request: _Request, router: str) -> tuple[ModelEntry, ...]:
    """The models among which the router had to choose."""
    snapshot, ask, auto = request.snapshot, request.ask, request.auto
    if router == _FREE:
        return pool_of(snapshot, free_need(ask))
    return pool_of(snapshot, auto_need(ask, auto, auto.wishes.get(router, NO_WISHES)))


def _serving(model: ModelEntry, ask: Ask, reference: str) -> ModelEntry:
    """The model, if it is of a kind that the request's format can be sent to."""
    if model.endpoints and not any(each.serves(ask.kinds) for each in model.endpoints):
        raise WrongKind(reference)
    if ask.kinds <= DECIDING:
        return model
    made = model.output_modalities
    if made and _CONVERSED.isdisjoint(made) and ask.output_modalities.isdisjoint(made):
        raise WrongKind(reference)
    return model


def _tiers(effects: Sequence[Effect]) -> frozenset[str]:
    return frozenset([effect.tier for effect in effects if effect.tier])


def _strategy(found: Sequence[_Found], models: Sequence[ModelEntry]) -> str:
    """`router_metadata`'s word, in the order of its list: a virtual router anywhere, then how the
    first reference was named, then whether several models were."""
    routers = [each.strategy for each in found if each.strategy in _ROUTED]
    own = routers[0] if routers else found[0].strategy
    return own or ("fallback" if len(models) > 1 else "direct")
