"""Which models and endpoints the API lists, for whom, with which statistics and in which order."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple, TypeVar

from routing.entities.entries import EndpointEntry, ModelEntry, Snapshot
from routing.entities.vocabulary import STATUS_ELEVATED_ERRORS, STATUS_RATE_LIMITED, STATUS_REMOVED
from routing.metering.popularity import Calls
from routing.selection.filters import policy_tests
from routing.selection.guardrail_filters import GuardrailChoice
from routing.selection.model_references import reference_test
from routing.selection.resolution import apply_guardrails
from routing.selection.types import ALL_HEALTHY, NO_POLICY, EndpointStats, HealthSnapshot

# Accounts' listings cached with a snapshot; beyond that the cache is emptied.
_LISTINGS_MAX: Final = 8


class ListingRules(NamedTuple):
    """The restrictions of an account's requests; None and empty restrict nothing. Providers are
    provider references, and a provider's name includes its tiers. `region` is the regional host's.
    `guarded` must be hashable."""

    allowed_providers: tuple[str, ...] | None = None
    ignored_providers: tuple[str, ...] = ()
    zdr: bool = False
    denies_collection: bool = False
    region: str | None = None
    guarded: GuardrailChoice | None = None


NO_RULES: Final = ListingRules()


def list_published(model: ModelEntry) -> list[EndpointEntry]:
    """The endpoints the API shows: priced and not removed."""
    return [
        endpoint
        for endpoint in model.endpoints
        if endpoint.prices is not None and endpoint.status > STATUS_REMOVED
    ]


def top_endpoint(model: ModelEntry) -> EndpointEntry | None:
    """The endpoint that stands for a model: the cheapest of those that could serve it best."""

    def rank(endpoint: EndpointEntry) -> tuple[object, ...]:
        assert endpoint.prices is not None
        price = endpoint.prices.prompt + endpoint.prices.completion
        return (not endpoint.routable, endpoint.tier != "default", price, endpoint.tag)

    return min(list_published(model), key=rank, default=None)


def list_permitted(snapshot: Snapshot, rules: ListingRules) -> tuple[ModelEntry, ...]:
    """The listed models with the endpoints that the rules allow; models without any are omitted."""
    if rules == NO_RULES:
        return snapshot.listing
    listings = snapshot.derive(_Listings)
    models = listings.by_rules.get(rules)
    if models is None:
        models = _narrow_models(snapshot.listing, rules)
        # A new dict, because this may run in several threads.
        others = listings.by_rules if len(listings.by_rules) < _LISTINGS_MAX else {}
        listings.by_rules = {**others, rules: models}
    return models


class _Listings:
    def __init__(self, snapshot: Snapshot) -> None:
        self.by_rules: dict[ListingRules, tuple[ModelEntry, ...]] = {}


def _narrow_models(models: Iterable[ModelEntry], rules: ListingRules) -> tuple[ModelEntry, ...]:
    ignored = reference_test(rules.ignored_providers, _open)
    allowed = reference_test(rules.allowed_providers, _open) if rules.allowed_providers else _open

    policy = apply_guardrails(NO_POLICY, rules.guarded) if rules.guarded else NO_POLICY
    guards = policy_tests(policy)

    def allows(endpoint: EndpointEntry) -> bool:
        return (
            (not rules.zdr or endpoint.zdr)
            and not (rules.denies_collection and endpoint.collects_data)
            and rules.region in (None, endpoint.region)
            and not ignored(endpoint)
            and allowed(endpoint)
            and all(test(endpoint) for test in guards)
        )

    narrowed = []
    for model in models:
        endpoints = tuple(filter(allows, model.endpoints))
        is_whole = len(endpoints) == len(model.endpoints)
        narrowed.append(model if is_whole else replace(model, endpoints=endpoints))
    return tuple(filter(list_published, narrowed))


def _open(endpoint: EndpointEntry) -> bool:
    """Whether the tier is open: a request may open every service tier."""
    return True


_T = TypeVar("_T")
NO_FIGURES: Final = EndpointStats()


class LearnedStats(NamedTuple):
    """What traffic has shown: figures and health by endpoint key, `calls` by model id."""

    figures: Mapping[int, EndpointStats] = MappingProxyType({})
    standing: HealthSnapshot = ALL_HEALTHY
    calls: Mapping[str, Calls] = MappingProxyType({})

    def find_stats(self, endpoint: EndpointEntry) -> EndpointStats:
        return self.figures.get(endpoint.pk, NO_FIGURES)

    def count_calls(self, model: ModelEntry, period: Literal["week", "month"]) -> int | None:
        calls = self.calls.get(model.id)
        return None if calls is None else getattr(calls, period)

    def status(self, endpoint: EndpointEntry) -> int:
        """The catalogue's status, or what traffic says where that is worse; never an exclusion."""
        if endpoint.pk in self.standing.parked:
            return min(endpoint.status, STATUS_RATE_LIMITED)
        if endpoint.pk in self.standing.unstable:
            return min(endpoint.status, STATUS_ELEVATED_ERRORS)
        return endpoint.status


NOTHING: Final = LearnedStats()


def throughput_tps(model: ModelEntry, learned: LearnedStats) -> float | None:
    """The median of the fastest endpoint, in tokens per second."""
    speeds = _known_figures(model, learned, lambda figures: figures.throughput_tps)
    return max([each.p50 for each in speeds], default=None)


def latency_s(model: ModelEntry, learned: LearnedStats) -> float | None:
    """The median time to the first token of the endpoint that answers soonest."""
    latencies = _known_figures(model, learned, lambda figures: figures.latency_s)
    return min([each.p50 for each in latencies], default=None)


def tool_success(model: ModelEntry, learned: LearnedStats) -> float | None:
    """The share of tool calls that succeeded, weighted by the calls of each endpoint."""
    known = [
        (figures.tool_success, max(figures.calls, 1))
        for figures in map(learned.find_stats, list_published(model))
        if figures.tool_success is not None
    ]
    calls = sum(weight for _, weight in known)
    return sum(share * weight for share, weight in known) / calls if known else None


def _known_figures(
    model: ModelEntry, learned: LearnedStats, part: Callable[[EndpointStats], _T | None]
) -> list[_T]:
    parts = [part(learned.find_stats(endpoint)) for endpoint in list_published(model)]
    return [each for each in parts if each is not None]


Figure = Callable[[ModelEntry, LearnedStats], float | Decimal | None]
_MILLION: Final = Decimal(1_000_000)


def sort_models(
    models: Sequence[ModelEntry], name: str | None, learned: LearnedStats
) -> Sequence[ModelEntry]:
    """The models, which come newest first, in the order of that name."""
    figure = _FIGURES[name] if name else None
    if figure is None:
        return models
    pairs: list[tuple[Any, ModelEntry]] = [(figure(model, learned), model) for model in models]
    ranked = sorted([pair for pair in pairs if pair[0] is not None], key=lambda pair: pair[0])
    return [model for _, model in ranked] + [model for value, model in pairs if value is None]


def usd_per_million(model: ModelEntry, key: str) -> Decimal:
    """A price of the endpoint that stands for the model."""
    best = top_endpoint(model)
    assert best is not None
    price: Decimal = getattr(best.prices, key)
    return price * _MILLION


def _highest_first(value: float | None) -> float | None:
    return None if value is None else -value


# What each order goes by, lowest first; None keeps the newest first.
_FIGURES: Final[Mapping[str, Figure | None]] = {
    "newest": None,
    "most-popular": lambda model, learned: _highest_first(learned.count_calls(model, "month")),
    "top-weekly": lambda model, learned: _highest_first(learned.count_calls(model, "week")),
    "pricing-low-to-high": lambda model, _: usd_per_million(model, "prompt"),
    "pricing-high-to-low": lambda model, _: -usd_per_million(model, "prompt"),
    "context-high-to-low": lambda model, _: _highest_first(model.context_length),
    "throughput-high-to-low": lambda model, learned: _highest_first(throughput_tps(model, learned)),
    "latency-low-to-high": latency_s,
    # Benchmarks are not kept: no model has the figure.
    "intelligence-high-to-low": None,
    "coding-high-to-low": None,
    "agentic-high-to-low": None,
    "design-arena-elo-high-to-low": None,
}
SORTS: Final = tuple(_FIGURES)
# Those that need to know how often models are called.
BY_CALLS: Final = frozenset({"most-popular", "top-weekly"})
