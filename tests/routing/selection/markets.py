"""A model's endpoints made to measure, and what is chosen of them."""

from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from routing.entities.entries import EndpointEntry
from routing.selection.select import select
from routing.selection.types import (
    EndpointState,
    EndpointStats,
    HealthSnapshot,
    Percentiles,
    Plan,
    Policy,
    Requirements,
)
from tests.routing.selection.entries import endpoint, model

CHAT = Requirements(kinds=frozenset({"openai"}))


def priced_endpoint(tag: str, total: str, **changes: Any) -> EndpointEntry:
    """An endpoint whose prompt and completion price add up to `total`."""
    half = str(Decimal(total) / 2)
    return endpoint(tag, pricing={"prompt": half, "completion": half}, **changes)


class Market:
    """Endpoints `a`, `b`, … of one model, at 1, 2, … dollars per million tokens."""

    def __init__(self, *endpoints: EndpointEntry, tags: str = "abcd") -> None:
        dearer = [priced_endpoint(tag, f"0.00000{n}") for n, tag in enumerate(tags, start=1)]
        self.models = [model(*(endpoints or dearer))]
        self.pks = {each.tag: each.pk for own in self.models for each in own.endpoints}

    def keys(self, tags: Iterable[str]) -> frozenset[int]:
        return frozenset(self.pks[tag] for tag in tags)

    def figures(self, **figures: EndpointStats) -> dict[int, EndpointStats]:
        return {self.pks[tag]: told for tag, told in figures.items()}

    def plan(
        self,
        *,
        unstable: Iterable[str] = (),
        parked: Iterable[str] = (),
        half_open: Iterable[str] = (),
        failing: Iterable[str] = (),
        mark: float = 0.0,
        ask: Requirements = CHAT,
        figures: dict[int, EndpointStats] | None = None,
        sticky: str | None = None,
        by_session: bool = False,
        byok: dict[str, int] | None = None,
        **wishes: Any,
    ) -> Plan:
        standing = HealthSnapshot(*map(self.keys, (unstable, parked, half_open, failing)))
        state = EndpointState(
            figures=figures or {},
            health=standing,
            sticky=None if sticky is None else self.pks[sticky],
            sticky_by_session=by_session,
            byok={self.pks[tag]: (place,) for tag, place in (byok or {}).items()},
        )
        return select(self.models, ask, Policy(**wishes), state, random=lambda: mark)

    def tags(self, **told: Any) -> str:
        return " ".join(each.tag for each in self.plan(**told).order)


def quick(tps: float, *, latency_s: float = 1.0) -> EndpointStats:
    return EndpointStats(
        latency_s=Percentiles(*(latency_s * n for n in (1, 2, 3, 4))),
        throughput_tps=Percentiles(*(tps / n for n in (1, 2, 3, 4))),
    )


KNOWN = {
    "a": quick(10, latency_s=0.5),
    "b": quick(90, latency_s=2.0),
    "c": quick(90, latency_s=1.0),
}
