"""The models of a snapshot in five bands by price, for requests that name no model.

A band is a fifth of the percent rank: of n models, the share of the other n - 1 that are cheaper.
So equal prices share a band, and the cheapest model is always in the first. The dearest, if no
other has its price, is in the last. With few models some bands are empty.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from decimal import Decimal
from math import inf
from typing import Final, NamedTuple

from routing.entities.entries import EndpointEntry, ModelEntry, Snapshot
from routing.selection.filters import context_test
from routing.selection.patterns import compile_patterns
from routing.selection.types import Requirements

BANDS: Final = 5
# Distinct needs whose offers are cached; beyond that the cache is emptied.
_CACHE_MAX: Final = 64
_PERCENT_PER_BAND: Final = 100 // BANDS


class Need(NamedTuple):
    """The requirements on a model except its length; the key under which offers are cached.

    `free_only` is for `router/free`, which has no lists of models.
    """

    kinds: frozenset[str]
    tiers: frozenset[str]
    tools: bool
    input_modalities: frozenset[str]
    output_modalities: frozenset[str]
    free_only: bool = False
    candidates: tuple[str, ...] = ()
    allowed: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()


class Offer(NamedTuple):
    """An endpoint that can be called. `abilities` is the index of its abilities in `PriceIndex`;
    a prompt longer than `prompt_tokens_max` does not fit."""

    model: ModelEntry
    endpoint: EndpointEntry
    abilities: int
    prompt_tokens_max: float


class Abilities(NamedTuple):
    """The features of an endpoint. Most endpoints share them, so a need is compared with each
    distinct value once."""

    kind: str
    decides: str | None
    tier: str
    tools: bool
    input_modalities: tuple[str, ...]
    output_modalities: tuple[str, ...]

    def meet(self, need: Need) -> bool:
        return (
            (self.kind in need.kinds or self.decides in need.kinds)
            and self.tier in need.tiers
            and (self.tools or not need.tools)
            # Every model reads text, whether its entry says so or not.
            and (need.input_modalities - {"text"}).issubset(self.input_modalities)
            and need.output_modalities.issubset(self.output_modalities)
        )


class Ranking(NamedTuple):
    """Models by their price, cheapest first; band k is from `edges[k]` up to `edges[k + 1]`."""

    models: tuple[ModelEntry, ...]
    edges: tuple[int, ...]


class Offers(NamedTuple):
    """The offers that meet a need, cheapest first. A request of at most `tokens_max` tokens,
    prompt and answer together, fits all of `ranking`; a longer one is compared with `offers`."""

    offers: tuple[Offer, ...]
    ranking: Ranking
    tokens_max: float


class PriceIndex:
    """All offers of a snapshot in the order of their price, built when it is assembled."""

    def __init__(self, snapshot: Snapshot) -> None:
        kinds: dict[Abilities, int] = {}
        offers = [
            offer for model in snapshot.models.values() for offer in _list_offers(model, kinds)
        ]
        self._offers = sorted(
            offers, key=lambda offer: (offer.endpoint.token_usd, offer.model.id, offer.endpoint.tag)
        )
        self._abilities = tuple(kinds)
        # As patterns are compared.
        self._lower = {id: id.lower() for id in snapshot.models}
        self._text = {model.id for model in snapshot.listing if "text" in model.output_modalities}
        self._free = {
            model.id
            for model in snapshot.listing
            if all(each.prices is not None and each.prices.is_free for each in model.by_price)
        } & self._text
        self._shelves: dict[Need, Offers] = {}

    def find_offers(self, snapshot: Snapshot, need: Need) -> Offers:
        """The offers that meet the need, cached. `snapshot` must be the index's own."""
        found = self._shelves.get(need)
        if found is None:
            names = self._model_ids(snapshot, need)
            able = {at for at, each in enumerate(self._abilities) if each.meet(need)}
            offers = [o for o in self._offers if o.abilities in able and o.model.id in names]
            firsts = _cheapest_offers(offers)
            tokens_max = min([each.prompt_tokens_max for each in firsts], default=0.0)
            found = Offers(tuple(offers), _rank_models(firsts), tokens_max)
            # A new dict, because a native thread may be reading the old one.
            shelves = self._shelves if len(self._shelves) < _CACHE_MAX else {}
            self._shelves = {**shelves, need: found}
        return found

    def list_pool(self, snapshot: Snapshot, need: Need) -> tuple[ModelEntry, ...]:
        """The models that the need's lists allow, whatever their abilities."""
        names = self._model_ids(snapshot, need)
        return tuple([model for id, model in snapshot.models.items() if id in names])

    def _model_ids(self, snapshot: Snapshot, need: Need) -> set[str]:
        """Ids of the models that the settings and patterns allow."""
        if need.free_only:
            return self._free
        ids = self._text
        if need.candidates:
            ids = self._match_patterns(snapshot, need.candidates, ids)
        if need.allowed:
            ids = ids & self._match_patterns(snapshot, need.allowed, ids)
        if need.excluded:
            ids = ids - self._match_patterns(snapshot, need.excluded, ids)
        return ids

    def _match_patterns(
        self, snapshot: Snapshot, patterns: tuple[str, ...], ids: set[str]
    ) -> set[str]:
        """Those of the ids that a pattern matches, and every model that one names outright."""
        matching = compile_patterns(patterns).matching({self._lower[id] for id in ids})
        named = [snapshot.model(pattern) for pattern in patterns if "*" not in pattern]
        found = {id for id in ids if self._lower[id] in matching}
        return found.union([model.id for model in named if model is not None])


def find_offers(snapshot: Snapshot, need: Need) -> Offers:
    """The offers of a snapshot that meet the need."""
    return snapshot.derive(PriceIndex).find_offers(snapshot, need)


def list_pool(snapshot: Snapshot, need: Need) -> tuple[ModelEntry, ...]:
    """The models of a snapshot that the need's lists allow, whatever their abilities."""
    return snapshot.derive(PriceIndex).list_pool(snapshot, need)


def rank_fitting(shelf: Offers, requirements: Requirements) -> Ranking:
    """The offered models, by price, into whose context the request fits."""
    prompt, answer = requirements.prompt_tokens, requirements.output_tokens or 0
    if prompt + answer <= shelf.tokens_max:
        return shelf.ranking
    fits = context_test(prompt, answer)
    offers = [
        offer
        for offer in shelf.offers
        if offer.prompt_tokens_max >= prompt
        and (offer.prompt_tokens_max >= prompt + answer or fits(offer.endpoint))
    ]
    return _rank_models(_cheapest_offers(offers))


def _rank_models(offers: Sequence[Offer]) -> Ranking:
    """The bands of offers that come cheapest first, one for each model."""
    prices = [each.endpoint.token_usd for each in offers]
    return Ranking(tuple([each.model for each in offers]), band_edges(prices))


def band_edges(prices: Sequence[Decimal]) -> tuple[int, ...]:
    """Where among rising prices each band begins, and where the last one ends."""
    edges = [0]
    for band in range(1, BANDS):
        # A band begins with the first price of which at least this share of the others is cheaper.
        at = -(-_PERCENT_PER_BAND * band * max(len(prices) - 1, 1) // 100)
        if at < len(prices) and bisect_left(prices, prices[at]) < at:
            at = bisect_right(prices, prices[at])
        edges.append(min(at, len(prices)))
    return (*edges, len(prices))


def _cheapest_offers(offers: Iterable[Offer]) -> list[Offer]:
    """The cheapest offer of each model."""
    cheapest: dict[str, Offer] = {}
    for offer in offers:
        cheapest.setdefault(offer.model.id, offer)
    return list(cheapest.values())


def _list_offers(model: ModelEntry, kinds: dict[Abilities, int]) -> list[Offer]:
    """The offers of a model, cheapest first. An offer that is dearer than another of the same
    abilities stays only if it has more room."""
    offers: list[Offer] = []
    cheapest: dict[int, Offer] = {}
    for each in model.by_price:
        abilities = Abilities(
            kind=each.wire_kind,
            decides=each.decides,
            tier=each.tier,
            tools="tools" in each.supported_parameters,
            input_modalities=each.input_modalities,
            output_modalities=each.output_modalities,
        )
        index = kinds.setdefault(abilities, len(kinds))
        offer = Offer(model, each, index, each.prompt_tokens_max)
        first = cheapest.setdefault(index, offer)
        rooms = zip(_room_key(offer), _room_key(first), strict=True)
        if first is offer or any(mine > its for mine, its in rooms):
            offers.append(offer)
    return offers


def _room_key(offer: Offer) -> tuple[float, float, float]:
    endpoint = offer.endpoint
    # A low maximum of output leaves more of the context to the prompt.
    context, output = endpoint.context_length or inf, endpoint.max_completion_tokens or inf
    return (offer.prompt_tokens_max, context, -output)
