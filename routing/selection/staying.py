"""Whether a conversation stays with the endpoint that may have it in its prompt cache.

Staying is worth what the cache saves; moving is worth what the request costs less elsewhere. Prices
are list prices after discount, without overrides.
"""

from collections.abc import Mapping
from decimal import Decimal
from typing import Final

from routing.entities.entries import EndpointEntry
from routing.entities.prices import Prices
from routing.selection.types import (
    EndpointState,
    EndpointStats,
    Policy,
    Requirements,
    Stay,
    StayReason,
    WarmCache,
)

# A caller who wants speed is kept at an endpoint that is slower by no more than this factor. A
# cached prompt is also read sooner.
SLOWER_MAX: Final = 1.5
_NANO: Final = 1_000_000_000


def decide_stay(
    sticky: EndpointEntry,
    first: EndpointEntry,
    requirements: Requirements,
    policy: Policy,
    state: EndpointState,
) -> Stay | None:
    """Whether the conversation stays with `sticky`, where `first` would be tried first otherwise.
    None where nothing is known of the cache: then it stays."""
    cache = state.sticky_cache
    if cache is None:
        return None
    assert sticky.prices is not None
    assert first.prices is not None
    is_warm = cache.age_s <= cache.lifetime_s
    cached_tokens = min(cache.tokens, requirements.prompt_tokens) if is_warm else 0
    saving = cached_tokens * _cache_discount(sticky.prices)
    dearer = _price_request(sticky.prices, requirements, cache) - _price_request(
        first.prices, requirements, cache
    )
    stays, reason = True, _find_reason(saving, dearer)
    if sticky.pk == first.pk:
        reason = "first"
    elif state.sticky_by_session:
        # A session is the caller's word that it wants one endpoint.
        reason = "session"
    elif reason != "saving":
        stays = False
    elif _is_slower(sticky.pk, first.pk, policy.sort, state.figures):
        stays, reason = False, "slower"
    return Stay(
        stays, reason, cached_tokens, round(saving * _NANO), round(dearer * _NANO), first.pk
    )


def _find_reason(saving: Decimal, dearer: Decimal) -> StayReason:
    if saving <= 0:
        return "cold"
    return "saving" if saving > dearer else "price"


def _cache_discount(prices: Prices) -> Decimal:
    """What a prompt token costs less (USD) where it is read from the cache."""
    if prices.input_cache_read is None:
        return Decimal(0)
    return (prices.prompt - prices.input_cache_read) * (1 - prices.discount)


def _price_request(prices: Prices, requirements: Requirements, cache: WarmCache) -> Decimal:
    """What the request would cost (USD) without a cache, with an answer as long as the last one."""
    completion_tokens = cache.completion_tokens
    if requirements.output_tokens is not None:
        completion_tokens = min(completion_tokens, requirements.output_tokens)
    price = prices.prompt * requirements.prompt_tokens + prices.completion * completion_tokens
    return (price + (prices.request or 0)) * (1 - prices.discount)


def _is_slower(
    sticky: int, first: int, sort: str | None, figures: Mapping[int, EndpointStats]
) -> bool:
    """Whether staying is too slow for who sorts by speed. What is not known counts as fast."""
    here, there = figures.get(sticky), figures.get(first)
    if here is None or there is None:
        return False
    if sort == "latency" and here.latency_s and there.latency_s:
        return here.latency_s.p50 > SLOWER_MAX * there.latency_s.p50
    if sort == "throughput" and here.throughput_tps and there.throughput_tps:
        return SLOWER_MAX * here.throughput_tps.p50 < there.throughput_tps.p50
    return False
