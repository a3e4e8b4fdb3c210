"""Statistics on a clock of the test's own, and attempts made to measure."""

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from routing.entities.entries import EndpointEntry
from routing.selection.types import EndpointStats
from routing.serving.request import process, stickiness
from routing.serving.request.context import Attempt
from routing.statistics.observation import Observer
from routing.upstreams.failures import UpstreamFailure
from tests.routing.selection.entries import endpoint

_numbers = itertools.count(1)
FAILURE = UpstreamFailure(503, 503, "provider_overloaded", "Provider returned error", outage=True)
LIMITED = UpstreamFailure(429, 429, "rate_limit_exceeded", "Provider returned error", parked=True)


@contextmanager
def nothing_learned() -> Iterator[None]:
    """This process knew of no outage and no conversation before, and knows of none afterwards."""
    memories = (process.health, stickiness._local_records)
    for memory in memories:
        memory.cache_clear()
    yield
    for memory in memories:
        memory.cache_clear()


class Clock:
    """Monotonic seconds that pass when told to."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def observer(clock: Clock, *, collects: bool = False) -> Observer:
    made = Observer(window_s=300, clock=clock)
    made.collects = collects
    return made


def attempt(
    clock: Clock,
    at: EndpointEntry,
    *,
    first_token_s: float | None = 0.5,
    took_s: float = 1.5,
    failure: UpstreamFailure | None = None,
    **changes: Any,
) -> Attempt:
    """An attempt that has ended just now."""
    started = clock.now - took_s
    first = None if first_token_s is None else started + first_token_s
    failure = failure and replace(failure)
    return Attempt(
        at, None, started, first_token=first, ended=clock.now, failure=failure, **changes
    )


def refresh_all(observer: Observer) -> None:
    for _ in observer.refresh():
        pass


def figures(observer: Observer, at: EndpointEntry) -> EndpointStats:
    """What is known after a refresh."""
    refresh_all(observer)
    return observer.endpoint_stats().get(at.pk, EndpointStats())


def some_endpoint(**changes: Any) -> EndpointEntry:
    return endpoint(f"provider-{next(_numbers)}", **changes)
