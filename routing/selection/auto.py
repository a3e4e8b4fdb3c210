"""The virtual routers that choose a model themselves (inference reference 7.4).

`router/auto` (and `auto`, `router/auto-beta`) takes the models of the setting, or all listed ones
that write text, leaves those whose name the caller allows, and of these the ones with an endpoint
that takes the request: its wire kind, service tier, modalities, tools and length. What is left is
put into five bands by price, a model's price being that of its cheapest such endpoint, and the
three cheapest of one band are the answer. Where that band is empty it is the nearest that is not,
of two equally near the cheaper. `router/free` draws among the models that cost nothing.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from types import MappingProxyType
from typing import Final, Literal, NamedTuple, TypeAlias

from routing.entities.entries import ModelEntry, Snapshot
from routing.selection.ask import Ask
from routing.selection.market import Need, Ranking, fitting, shelf_of

CostTier = Literal["low", "medium", "high", "xhigh", "max"]
COST_TIERS: Final[Sequence[CostTier]] = ("low", "medium", "high", "xhigh", "max")
MODELS_MAX: Final = 3


class Wishes(NamedTuple):
    """What the plugin of an auto router says. Patterns are model ids with `*` for anything; without
    a star an alias is as good. `pinned` is the model of the latest answer, to be taken again."""

    allowed: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    cost_tier: CostTier = "low"
    pinned: str | None = None


NO_WISHES: Final = Wishes()


Passing: TypeAlias = Callable[[Iterable[ModelEntry]], Iterator[ModelEntry]]


def anything(models: Iterable[ModelEntry]) -> Iterator[ModelEntry]:
    """No model is refused."""
    return iter(models)


class AutoSettings(NamedTuple):
    """`candidates` is the operator's list of models or patterns, empty for all that write text;
    `wishes` are the plugins' by the router they belong to. `usable` passes on the models of which
    the caller's provider preferences leave an endpoint, and looks no further than it is asked to.
    """

    candidates: tuple[str, ...] = ()
    wishes: Mapping[str, Wishes] = MappingProxyType({})
    usable: Passing = anything


def auto_models(
    snapshot: Snapshot,
    ask: Ask,
    auto: AutoSettings,
    wishes: Wishes = NO_WISHES,
    *,
    tiers: frozenset[str] = frozenset(),
    sticky_model: str | None = None,
) -> list[ModelEntry]:
    """The model that `router/auto` chooses and its fallbacks, three in all; empty where none fits.

    `tiers` are the service tiers that a suffix opened. A pinned or remembered model comes first
    while it is still a candidate, whatever its band.
    """
    need = auto_need(ask, auto, wishes, tiers=tiers)
    ranking = fitting(shelf_of(snapshot, need), ask)
    first = _kept(snapshot, ranking, auto, (wishes.pinned, sticky_model))
    chosen = _of_band(ranking, wishes.cost_tier, auto.usable)
    return list(dict.fromkeys(first + chosen))[:MODELS_MAX]


def free_models(
    snapshot: Snapshot,
    ask: Ask,
    auto: AutoSettings,
    *,
    tiers: frozenset[str] = frozenset(),
    random: Callable[[], float],
    sticky_model: str | None = None,
) -> list[ModelEntry]:
    """A model drawn evenly among those that cost nothing, and two more to fall back on."""
    need = free_need(ask, tiers=tiers)
    ranking = fitting(shelf_of(snapshot, need), ask)
    first = _kept(snapshot, ranking, auto, (sticky_model,))
    drawn = auto.usable(_shuffled(ranking.models, random))
    return list(dict.fromkeys(chain(first, islice(drawn, MODELS_MAX))))[:MODELS_MAX]


def _nearest(tier: int) -> tuple[int, ...]:
    return tuple(sorted(range(len(COST_TIERS)), key=lambda band: (abs(band - tier), band)))


_NEAREST: Final = {tier: _nearest(place) for place, tier in enumerate(COST_TIERS)}


def _of_band(ranking: Ranking, tier: CostTier, usable: Passing) -> list[ModelEntry]:
    """The cheapest usable models of the tier's band, else of the nearest that has any."""
    for band in _NEAREST[tier]:
        begin, end = ranking.edges[band : band + 2]
        models = islice(ranking.models, begin, end)
        found = list(islice(usable(models), MODELS_MAX))
        if found:
            return found
    return []


def _kept(
    snapshot: Snapshot, ranking: Ranking, auto: AutoSettings, names: Sequence[str | None]
) -> list[ModelEntry]:
    """The first of the named models that is still a candidate."""
    for name in names:
        model = snapshot.model(name) if name else None
        if model is not None and model in ranking.models and any(auto.usable((model,))):
            return [model]
    return []


def _shuffled(models: Sequence[ModelEntry], random: Callable[[], float]) -> Iterator[ModelEntry]:
    left = list(models)
    while left:
        yield left.pop(int(random() * len(left)))


def auto_need(
    ask: Ask, auto: AutoSettings, wishes: Wishes, *, tiers: frozenset[str] = frozenset()
) -> Need:
    """What `router/auto` looks for."""
    return _need(ask, tiers)._replace(
        candidates=auto.candidates, allowed=wishes.allowed, excluded=wishes.excluded
    )


def free_need(ask: Ask, *, tiers: frozenset[str] = frozenset()) -> Need:
    """What `router/free` looks for."""
    return _need(ask, tiers)._replace(free_only=True)


def _need(ask: Ask, tiers: frozenset[str]) -> Need:
    asked = {"default"} if ask.service_tier is None else {"default", ask.service_tier}
    return Need(
        kinds=ask.kinds,
        tiers=tiers | asked,
        tools=ask.tools,
        input_modalities=ask.input_modalities,
        output_modalities=ask.output_modalities,
    )
