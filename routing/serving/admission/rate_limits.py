"""Rate limits of inference: free variants per account, everything else per key, and those that
somebody set on the key or its workspace.

Requests count once they are sent to an upstream. Tokens are reserved by an upper bound, so that
what is admitted in a minute never exceeds the limit, and corrected once their number is known.
"""

from functools import lru_cache
from typing import Final

from accounts.caller import Caller
from accounts.rates import FREE_DAY, daily_limit, has_low_quota
from gateway.http.errors import GatewayError
from gateway.limits.concurrency import Bound, concurrency_limiter
from gateway.limits.limits import MINUTE_S, Exceeded, Limit, build_refusal, rate_limiter
from gateway.limits.rules import RateRule, find_bound, list_windows
from gateway.live_settings import settings
from routing.metering.usage import Usage
from routing.serving.admission.endpoint_limits import (
    KEY_TOKENS,
    Full,
    bound_tokens,
    build_limit_error,
    correct_tokens,
    is_shared,
    read_marks,
    settle_attempts,
    take_limits,
)
from routing.serving.admission.limit_headers import describe_exceeded
from routing.serving.request.context import RequestProgress

_FREE: Final = ":free"
_FREE_MINUTE: Final = "free_minute"
_REQUESTS: Final = "key_requests"
_SOURCES: Final = {
    _FREE_MINUTE: "router_free_tier_minute",
    FREE_DAY: "router_free_tier_daily",
    _REQUESTS: "router_key_requests",
    KEY_TOKENS: "router_key_tokens",
}


def too_many(progress: RequestProgress) -> GatewayError | None:
    """Count a request that is about to be sent; the 429 where there were too many."""
    if not has_limits(progress.context.caller):
        return None
    taken = take_limits(_limits_of(progress), _bounds_of(progress))
    if isinstance(taken, Full):
        return refuse_full(progress, taken)
    progress.limits_taken, progress.places = taken.windows, taken.places
    return None


def would_be_too_many(progress: RequestProgress) -> GatewayError | None:
    """The 429 that the call would get if it were sent now. It counts for nothing."""
    limits = _limits_of(progress) if has_limits(progress.context.caller) else []
    exceeded = rate_limiter().find_exceeded(*limits) if limits else None
    return None if exceeded is None else refuse_full(progress, Full(exceeded))


def settle(progress: RequestProgress, usage: Usage) -> None:
    """Correct what was reserved to the tokens that were used, and end the request's places."""
    taken, progress.limits_taken = progress.limits_taken, None
    if taken is not None:
        correct_tokens(taken, usage.total_tokens)
    settle_attempts(progress, usage)
    if progress.places:
        end_places(progress)


def give_back(progress: RequestProgress) -> None:
    """Nothing was sent: the request does not count."""
    taken, progress.limits_taken = progress.limits_taken, None
    if taken is not None:
        rate_limiter().give_back(taken)
    if progress.places:
        end_places(progress)


def end_places(progress: RequestProgress) -> None:
    """Count the request no more among those under way, however it ended."""
    places, progress.places = progress.places, None
    if places:
        concurrency_limiter().give_back(places)
    for attempt in progress.attempts:
        if attempt.limits is not None:
            concurrency_limiter().give_back(attempt.limits.places)


def _limits_of(progress: RequestProgress) -> list[Limit]:
    """Those that are on and concern this call."""
    free, other = _tiers_of(progress)
    limits = (_free_limits(progress) if free else []) + (_key_limits(progress) if other else [])
    if rules := _list_rules(progress):
        marks, tokens = read_marks(progress), _most_tokens(progress)
        limits += [limit for rule in rules for limit in list_windows(rule, marks, tokens)]
    return limits


def _bounds_of(progress: RequestProgress) -> list[Bound]:
    """How many requests may be under way. Who asks a model for a tool is one of them already."""
    if progress.parent is not None:
        return []
    marks = read_marks(progress)
    bounds = (find_bound(rule, marks) for rule in _list_rules(progress))
    return [bound for bound in bounds if bound is not None]


def _list_rules(progress: RequestProgress) -> list[RateRule]:
    """The rules of key and workspace that count whole requests."""
    marks = read_marks(progress)
    return [
        rule
        for rule in progress.context.caller.rate_rules
        if not rule.names_endpoints and rule.counts(marks)
    ]


def has_limits(caller: Caller) -> bool:
    """Whether any of them is on."""
    return bool(
        caller.rate_rules
        or settings.ROUTER_KEY_RPM
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
        cost = min(_most_tokens(progress), tokens)
        limits.append(
            Limit(f"{KEY_TOKENS}:{progress.context.payer.key_id}", tokens, MINUTE_S, cost)
        )
    return limits


@lru_cache(4_096)
def _one_request(key_id: int, most: int) -> Limit:
    return Limit(f"{_REQUESTS}:{key_id}", most, MINUTE_S)


def _most_tokens(progress: RequestProgress) -> int:
    order = progress.context.plan.order
    return max((bound_tokens(progress, endpoint) for endpoint in order), default=1)


def refuse_full(progress: RequestProgress, full: Full) -> GatewayError:
    """The 429 for it, with the headers that tell of limits."""
    exceeded = full.cause
    if isinstance(exceeded, Bound):
        return build_limit_error(full)
    kind = _kind(exceeded.limit)
    error = (
        build_refusal(exceeded, source=_SOURCES[kind], message=_texts(progress, exceeded)[kind])
        if kind in _SOURCES
        else build_limit_error(full)
    )
    if not is_shared(exceeded.limit):
        error.headers |= describe_exceeded(exceeded, progress.context.format.name)
    return error


def _texts(progress: RequestProgress, exceeded: Exceeded) -> dict[str, str]:
    limit = exceeded.limit
    return {
        _FREE_MINUTE: "Rate limit exceeded: free-models-per-min",
        FREE_DAY: _daily_text(progress),
        _REQUESTS: "Rate limit exceeded: requests-per-min",
        KEY_TOKENS: f"Rate limit exceeded: tokens-per-min. This request may use up to {limit.cost} "
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
