"""What one process shares between its requests: the door, endpoint health, the retry budget."""

import random
import time
from functools import cache, lru_cache

from gateway.live_settings import settings
from gateway.outbound.http_client import HttpClient, Limits, Origin
from routing.entities.entries import ProviderEntry
from routing.selection.health import EndpointHealth
from routing.serving.request.retries import RetryBudget

now = time.monotonic
# A probe that neither succeeded nor failed within this long is given up, so that another may try.
PROBE_S = 30.0


@cache
def http_client() -> HttpClient:
    return HttpClient(
        pool_size_per_origin=settings.ROUTER_POOL_SIZE, proxy=settings.ROUTER_UPSTREAM_PROXY or None
    )


@cache
def health() -> EndpointHealth:
    return EndpointHealth(window_s=settings.ROUTER_OUTAGE_WINDOW_SECONDS, probe_s=PROBE_S)


@cache
def retries() -> RetryBudget:
    return RetryBudget(share=settings.ROUTER_RETRY_BUDGET, floor=settings.ROUTER_RETRY_FLOOR)


def chance() -> float:
    """The random source of load balancing; not a secret."""
    return random.random()  # noqa: S311 - Chooses among providers, guards nothing.


@lru_cache(maxsize=1024)
def origin_of(base_url: str) -> Origin:
    return Origin.parse(base_url)


def limits_of(provider: ProviderEntry) -> Limits:
    """The provider's own limits, else the settings."""
    return _limits(provider.connect_s, provider.first_byte_s, provider.idle_s)


@lru_cache(maxsize=256)
def _limits(connect_s: float | None, first_byte_s: float | None, idle_s: float | None) -> Limits:
    return Limits(
        connect_s=connect_s or settings.ROUTER_CONNECT_TIMEOUT,
        first_byte_s=first_byte_s or settings.ROUTER_FIRST_BYTE_TIMEOUT,
        idle_s=idle_s or settings.ROUTER_IDLE_TIMEOUT,
        body_bytes_max=settings.ROUTER_MAX_ANSWER_BYTES,
    )
