"""What traffic has taught about models, put together from what is known of their endpoints."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple, TypeVar

from routing.catalogue.listing import published
from routing.entities.entries import EndpointEntry, ModelEntry
from routing.entities.vocabulary import STATUS_ELEVATED_ERRORS, STATUS_RATE_LIMITED
from routing.metering.popularity import Calls
from routing.selection.types import ALL_HEALTHY, EndpointStats, HealthSnapshot

_T = TypeVar("_T")
NO_FIGURES: Final = EndpointStats()


class Learned(NamedTuple):
    """Figures and standing are by endpoint key, `calls` by model id."""

    figures: Mapping[int, EndpointStats] = MappingProxyType({})
    standing: HealthSnapshot = ALL_HEALTHY
    calls: Mapping[str, Calls] = MappingProxyType({})

    def of(self, endpoint: EndpointEntry) -> EndpointStats:
        return self.figures.get(endpoint.pk, NO_FIGURES)

    def status(self, endpoint: EndpointEntry) -> int:
        """The catalogue's status, or what traffic says where that is worse; never an exclusion."""
        if endpoint.pk in self.standing.parked:
            return min(endpoint.status, STATUS_RATE_LIMITED)
        if endpoint.pk in self.standing.unstable:
            return min(endpoint.status, STATUS_ELEVATED_ERRORS)
        return endpoint.status


NOTHING: Final = Learned()


def throughput_tps(model: ModelEntry, learned: Learned) -> float | None:
    """Of the fastest endpoint, the median."""
    found = _known(model, learned, lambda figures: figures.throughput_tps)
    return max([each.p50 for each in found], default=None)


def latency_s(model: ModelEntry, learned: Learned) -> float | None:
    """Of the endpoint that answers soonest, the median time to the first token."""
    found = _known(model, learned, lambda figures: figures.latency_s)
    return min([each.p50 for each in found], default=None)


def tool_success(model: ModelEntry, learned: Learned) -> float | None:
    """The share of tool calls that succeeded, endpoints weighing as much as they are called."""
    known = [
        (figures.tool_success, max(figures.calls, 1))
        for figures in map(learned.of, published(model))
        if figures.tool_success is not None
    ]
    calls = sum(weight for _, weight in known)
    return sum(share * weight for share, weight in known) / calls if known else None


def _known(
    model: ModelEntry, learned: Learned, part: Callable[[EndpointStats], _T | None]
) -> list[_T]:
    found = [part(learned.of(endpoint)) for endpoint in published(model)]
    return [each for each in found if each is not None]
