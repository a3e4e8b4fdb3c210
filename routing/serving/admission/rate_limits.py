"""Rate limits of inference: free variants per account, everything else per key.

Requests count once they are sent to an upstream. Tokens are reserved by an upper bound, so that
what is admitted in a minute never exceeds the limit, and corrected once their number is known.
"""

from functools import lru_cache
from typing import Final

from accounts.rates import FREE_DAY, daily_limit, has_low_quota
from gateway.http.errors import GatewayError
from gateway.limits.limits import MINUTE_S, Exceeded, Limit, build_refusal, rate_limiter
from gateway.live_settings import settings
from routing.entities.entries import EndpointEntry
from routing.metering.usage import Room, Usage, output_tokens_bound, prompt_tokens_bound
from routing.serving.request.context import RequestProgress

_FREE: Final = ":free"
_FREE_MINUTE: Final = "free_minute"
_REQUESTS: Final = "key_requests"
_TOKENS: Final = "key_tokens"
_SOURCES: Final = {
    _FREE_MINUTE: "router_free_tier_minute",
    FREE_DAY: "router_free_tier_daily",
    _REQUESTS: "router_key_requests",
    _TOKENS: "router_key_tokens",
}


def too_many(progress: RequestProgress) -> GatewayError | None:
    """Count a request that is about to be sent; the 429 where there were too many."""
    limits = _limits_of(progress) if has_limits() else []
    if not limits:
        return None
    taken = rate_limiter().take(*limits)
    if isinstance(taken, Exceeded):
        return _refusal(progress, taken)
    progress.limits_taken = taken
    return None


def would_be_too_many(progress: RequestProgress) -> GatewayError | None:
    """The 429 that the call would get if it were sent now. It counts for nothing."""
    limits = _limits_of(progress) if has_limits() else []
    exceeded = rate_limiter().find_exceeded(*limits) if limits else None
    return None if exceeded is None else _refusal(progress, exceeded)


def settle(progress: RequestProgress, usage: Usage) -> None:
    """Correct what was reserved to the tokens that were used."""
    taken, progress.limits_taken = progress.limits_taken, None
    if taken is None or not taken.limits[-1].scope.startswith(_TOKENS):
        return
    used = usage.prompt_tokens + usage.completion_tokens
    rate_limiter().correct(taken, used - taken.limits[-1].cost)


def give_back(progress: RequestProgress) -> None:
    """Nothing was sent: the request does not count."""
    taken, progress.limits_taken = progress.limits_taken, None
    if taken is not None:
        rate_limiter().give_back(taken)


def _limits_of(progress: RequestProgress) -> list[Limit]:
    """Those that are on and concern this call, the token limit last."""
    free, other = _tiers_of(progress)
    return (_free_limits(progress) if free else []) + (_key_limits(progress) if other else [])


def has_limits() -> bool:
    """Whether any of them is on."""
    return bool(
        settings.ROUTER_KEY_RPM
        or settings.ROUTER_KEY_TPM
        or settings.ROUTER_FREE_RPM
        or settings.ROUTER_FREE_RPD_HIGH
        or settings.ROUTER_FREE_RPD_LOW
    )


def _tiers_of(progress: RequestProgress) -> tuple[bool, bool]:
    """Whether free variants may serve it, and whether anything else may."""
    if progress.context.strategy == "free":
        return True, False
    if len(progress.context.plan.order) == 1:
        is_free = progress.context.plan.order[0].model_id.endswith(_FREE)
        return is_free, not is_free
    models = {each.model_id for each in progress.context.plan.order} or {
        each.id for each in progress.context.choice.models
    }
    free = {model for model in models if model.endswith(_FREE)}
    return bool(free), models != free or not models


def _free_limits(progress: RequestProgress) -> list[Limit]:
    account = progress.context.payer.account_id
    limits = []
    if per_minute := settings.ROUTER_FREE_RPM:
        limits.append(Limit(f"{_FREE_MINUTE}:{account}", per_minute, MINUTE_S))
    if per_day := daily_limit(progress.context.caller):
        limits.append(per_day)
    return limits


def _key_limits(progress: RequestProgress) -> list[Limit]:
    limits = []
    if requests := settings.ROUTER_KEY_RPM:
        limits.append(_one_request(progress.context.payer.key_id, requests))
    if tokens := settings.ROUTER_KEY_TPM:
        # One that may use more than the whole limit waits for a minute that is all its own.
        cost = min(
            max(
                (_tokens_at(progress, endpoint) for endpoint in progress.context.plan.order),
                default=1,
            ),
            tokens,
        )
        limits.append(Limit(f"{_TOKENS}:{progress.context.payer.key_id}", tokens, MINUTE_S, cost))
    return limits


@lru_cache(4_096)
def _one_request(key_id: int, most: int) -> Limit:
    return Limit(f"{_REQUESTS}:{key_id}", most, MINUTE_S)


def _tokens_at(progress: RequestProgress, endpoint: EndpointEntry) -> int:
    room = Room(endpoint.context_length, endpoint.max_completion_tokens)
    cap = settings.ROUTER_ESTIMATE_OUTPUT_CAP
    tokens = 0
    for demand in progress.demands(endpoint):
        tokens += prompt_tokens_bound(demand, room)
        tokens += output_tokens_bound(demand, room, output_cap=cap)
    return max(1, tokens)


def _refusal(progress: RequestProgress, exceeded: Exceeded) -> GatewayError:
    kind = _kind(exceeded.limit)
    return build_refusal(exceeded, source=_SOURCES[kind], message=_texts(progress, exceeded)[kind])


def _texts(progress: RequestProgress, exceeded: Exceeded) -> dict[str, str]:
    limit = exceeded.limit
    return {
        _FREE_MINUTE: "Rate limit exceeded: free-models-per-min",
        FREE_DAY: _daily_text(progress),
        _REQUESTS: "Rate limit exceeded: requests-per-min",
        _TOKENS: f"Rate limit exceeded: tokens-per-min. This request may use up to {limit.cost} "
        f"tokens, and {max(0, limit.most - exceeded.used)} of {limit.most} are left",
    }


def _daily_text(progress: RequestProgress) -> str:
    if not has_low_quota(progress.context.caller):
        return "Rate limit exceeded: free-models-per-day-high-balance"
    credits = settings.ROUTER_FREE_CREDIT_THRESHOLD
    more = settings.ROUTER_FREE_RPD_HIGH or "unlimited"
    return (
        f"Rate limit exceeded: free-models-per-day. Add {credits} credits to unlock {more} free "
        "model requests per day"
    )


def _kind(limit: Limit) -> str:
    return limit.scope.partition(":")[0]
