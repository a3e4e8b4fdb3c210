"""The virtual routers that choose a model themselves.

`router/auto` (and `auto`, `router/auto-beta`) starts from the models of the setting, or from all
listed ones that write text. It keeps those whose name the caller allows and of which an endpoint
takes the request: its wire kind, service tier, modalities, tools and length. These fall into five
bands by the price of their cheapest such endpoint. The router takes the three cheapest models of
the band that the caller's cost tier names. If that is empty, it takes the nearest band that has any
(of two equally near the cheaper). `router/free` draws among the models that cost nothing.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from types import MappingProxyType
from typing import Final, Literal, NamedTuple, TypeAlias

from routing.entities.entries import ModelEntry, Snapshot
from routing.selection.price_bands import Need, Ranking, find_offers, rank_fitting
from routing.selection.types import Requirements

CostTier = Literal["low", "medium", "high", "xhigh", "max"]
COST_TIERS: Final[Sequence[CostTier]] = ("low", "medium", "high", "xhigh", "max")
MODELS_MAX: Final = 3
_NEAREST_BANDS: Final = {
    tier: tuple(sorted(range(len(COST_TIERS)), key=lambda band: (abs(band - place), band)))
    for place, tier in enumerate(COST_TIERS)
}


class AutoOptions(NamedTuple):
    """The settings of an auto router's plugin. Patterns are model ids in which `*` matches
    anything; without a star they may be aliases. `pinned` is the model of the latest answer."""

    allowed: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    cost_tier: CostTier = "low"
    pinned: str | None = None


NO_AUTO_OPTIONS: Final = AutoOptions()


UsableModels: TypeAlias = Callable[[Iterable[ModelEntry]], Iterator[ModelEntry]]


class AutoSettings(NamedTuple):
    """`candidates` is the operator's list of models or patterns, empty for all that write text.
    `wishes` are the plugins' options by router. `usable` lazily yields the models of which the
    caller's provider preferences leave an endpoint.
    """

    candidates: tuple[str, ...] = ()
    wishes: Mapping[str, AutoOptions] = MappingProxyType({})
    usable: UsableModels = iter


def choose_auto_models(
    snapshot: Snapshot,
    requirements: Requirements,
    auto: AutoSettings,
    wishes: AutoOptions = NO_AUTO_OPTIONS,
    *,
    tiers: frozenset[str] = frozenset(),
    sticky_model: str | None = None,
) -> list[ModelEntry]:
    """The model that `router/auto` chooses and its fallbacks, three in all; empty if none fits.

    `tiers` are the service tiers that a suffix opened. A pinned or sticky model comes first,
    whatever its band, if it still fits.
    """
    need = auto_need(requirements, auto, wishes, tiers=tiers)
    ranking = rank_fitting(find_offers(snapshot, need), requirements)
    first = _first_candidate(snapshot, ranking, auto, (wishes.pinned, sticky_model))
    for band in _NEAREST_BANDS[wishes.cost_tier]:
        begin, end = ranking.edges[band : band + 2]
        of_band = islice(ranking.models, begin, end)
        if cheapest := list(islice(auto.usable(of_band), MODELS_MAX)):
            return list(dict.fromkeys(first + cheapest))[:MODELS_MAX]
    return first


def choose_free_models(
    snapshot: Snapshot,
    requirements: Requirements,
    auto: AutoSettings,
    *,
    tiers: frozenset[str] = frozenset(),
    random: Callable[[], float],
    sticky_model: str | None = None,
) -> list[ModelEntry]:
    """A model drawn evenly among those that cost nothing, and two more to fall back on."""
    need = free_need(requirements, tiers=tiers)
    ranking = rank_fitting(find_offers(snapshot, need), requirements)
    first = _first_candidate(snapshot, ranking, auto, (sticky_model,))
    drawn = auto.usable(_draw_models(ranking.models, random))
    return list(dict.fromkeys(chain(first, islice(drawn, MODELS_MAX))))[:MODELS_MAX]


def _first_candidate(
    snapshot: Snapshot, ranking: Ranking, auto: AutoSettings, names: Sequence[str | None]
) -> list[ModelEntry]:
    """The first of the named models that is still a candidate."""
    for name in names:
        model = snapshot.model(name) if name else None
        if model is not None and model in ranking.models and any(auto.usable((model,))):
            return [model]
    return []


def _draw_models(models: Sequence[ModelEntry], random: Callable[[], float]) -> Iterator[ModelEntry]:
    remaining = list(models)
    while remaining:
        yield remaining.pop(int(random() * len(remaining)))


def auto_need(
    requirements: Requirements,
    auto: AutoSettings,
    wishes: AutoOptions,
    *,
    tiers: frozenset[str] = frozenset(),
) -> Need:
    """What `router/auto` looks for."""
    return _build_need(requirements, tiers)._replace(
        candidates=auto.candidates, allowed=wishes.allowed, excluded=wishes.excluded
    )


def free_need(requirements: Requirements, *, tiers: frozenset[str] = frozenset()) -> Need:
    """What `router/free` looks for."""
    return _build_need(requirements, tiers)._replace(free_only=True)


def _build_need(requirements: Requirements, tiers: frozenset[str]) -> Need:
    asked = (
        {"default"} if requirements.service_tier is None else {"default", requirements.service_tier}
    )
    return Need(
        kinds=requirements.kinds,
        tiers=tiers | asked,
        tools=requirements.tools,
        input_modalities=requirements.input_modalities,
        output_modalities=requirements.output_modalities,
    )
