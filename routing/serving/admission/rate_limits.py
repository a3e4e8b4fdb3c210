"""Rate limits of inference: free variants per account, everything else per key, and those that
somebody set on the key or its workspace. What is left of them stands in the answer's headers.

Requests count once they are sent to an upstream. Tokens are reserved by an upper bound, so that
what is admitted in a minute never exceeds the limit. They are corrected once their number is known.
"""

from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

from accounts.caller import Caller
from accounts.rates import FREE_DAY, daily_limit, has_low_quota
from gateway.http.errors import GatewayError
from gateway.http.jsonio import format_time
from gateway.limits.allowances import NOTHING, Allowance
from gateway.limits.concurrency import Bound, concurrency_limiter
from gateway.limits.limits import (
    MINUTE_S,
    Exceeded,
    Limit,
    RemainingLimit,
    WindowsTaken,
    build_refusal,
    rate_limiter,
)
from gateway.limits.weights import ModelUse, weigh_requests
from gateway.live_settings import settings
from routing.metering.usage import Usage
from routing.serving.admission.endpoint_limits import (
    KEY_TOKENS,
    Full,
    allow_endpoint,
    bound_tokens,
    build_limit_error,
    correct_windows,
    end_attempt_places,
    find_request_rules,
    is_shared,
    note_tokens,
    read_marks,
    settle_attempts,
    take_limits,
)
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
_MESSAGES: Final = "messages"


def count_request(progress: RequestProgress) -> GatewayError | None:
    """Count a request that is about to be sent. Returns the 429 where there were too many."""
    if not has_limits(progress.context.caller):
        return None
    allowance = _allow_request(progress)
    # A request that a tool sends to a model is one of those under way already.
    bounds = allowance.bounds if progress.parent is None else ()
    taken = take_limits(_list_limits(progress, allowance), bounds)
    if isinstance(taken, Full):
        return refuse_full(progress, taken)
    progress.allowance = allowance
    progress.limits_taken, progress.places = taken.windows, taken.places
    return None


def find_limit_error(progress: RequestProgress) -> GatewayError | None:
    """The 429 that the call would get if it were sent now. It counts for nothing."""
    if not has_limits(progress.context.caller):
        return None
    limits = _list_limits(progress, _allow_request(progress))
    exceeded = rate_limiter().find_exceeded(*limits) if limits else None
    return None if exceeded is None else refuse_full(progress, Full(exceeded))


def settle(progress: RequestProgress, usage: Usage) -> None:
    """Correct what was reserved to the tokens that were used, and end the request's places."""
    taken, progress.limits_taken = progress.limits_taken, None
    if taken is not None:
        weighed = _weigh_used(progress, usage) if progress.allowance.weights else {}
        correct_windows(taken, usage.total_tokens, weighed=weighed)
    if any(each.limits for each in progress.attempts):
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
    if any(each.limits for each in progress.attempts):
        end_attempt_places(progress)


def _list_limits(progress: RequestProgress, allowance: Allowance) -> list[Limit]:
    """Those that are on and concern this call."""
    payer, limits = progress.context.payer, []
    is_free, is_other = _find_tiers(progress)
    if is_free and (per_minute := settings.ROUTER_FREE_RPM):
        limits.append(Limit(f"{_FREE_MINUTE}:{payer.account_id}", per_minute, MINUTE_S))
    if is_free and (per_day := daily_limit(progress.context.caller)):
        limits.append(per_day)
    if is_other and (requests := settings.ROUTER_KEY_RPM):
        limits.append(_one_request(payer.key_id, requests))
    most = settings.ROUTER_KEY_TPM if is_other else None
    tokens, uses = 0, list[ModelUse]()
    if allowance.weights:
        uses = [
            ModelUse(each.model_id, each.canonical_slug, bound_tokens(progress, each))
            for each in progress.context.plan.order
        ]
        tokens = max((each.tokens for each in uses), default=1)
    elif most or allowance.token_windows:
        order = progress.context.plan.order
        tokens = max([bound_tokens(progress, each) for each in order], default=1)
    if most:
        # One that may use more than the whole limit waits for a minute that is all its own.
        scope, cost = f"{KEY_TOKENS}:{payer.key_id}", min(tokens, most)
        limits.append(Limit(scope, most, MINUTE_S, cost, counts_tokens=True))
    limits += allowance.list_limits(tokens, uses=uses)
    return limits


def _weigh_used(progress: RequestProgress, usage: Usage) -> dict[str, int]:
    """What was used of the windows that weigh models, by scope: a request counts as its heaviest
    model that answered, or was asked last."""
    note_tokens(progress, usage)
    parts = [(each.endpoint, each.tokens_used) for each in progress.attempts]
    parts += [(leg.attempt.endpoint, leg.usage.total_tokens) for leg in progress.legs]
    last = progress.last_attempt
    uses = [
        ModelUse(endpoint.model_id, endpoint.canonical_slug, tokens)
        for endpoint, tokens in parts
        if tokens or (last is not None and endpoint is last.endpoint)
    ]
    allowance, used = progress.allowance, {}
    for number, weights in allowance.weights:
        scope = allowance.windows[number].scope
        used[scope] = weigh_requests(weights, uses)
        if number in allowance.token_windows:
            used[scope] = sum(each.weigh(weights) * each.tokens for each in uses)
    return used


def _allow_request(progress: RequestProgress) -> Allowance:
    """What the rules of key and workspace that count whole requests let it take."""
    rules = progress.context.caller.rate_rules
    return find_request_rules(rules).allow(read_marks(progress)) if rules else NOTHING


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


def _find_tiers(progress: RequestProgress) -> tuple[bool, bool]:
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


@lru_cache(4_096)
def _one_request(key_id: int, most: int) -> Limit:
    return Limit(f"{_REQUESTS}:{key_id}", most, MINUTE_S)


def refuse_full(progress: RequestProgress, full: Full) -> GatewayError:
    """The 429 for it, with the headers of limits."""
    exceeded = full.cause
    if isinstance(exceeded, Bound):
        return build_limit_error(full)
    kind = exceeded.limit.scope.partition(":")[0]
    if kind in _SOURCES:
        text = _write_refusal(progress.context.caller, exceeded, kind)
        error: GatewayError = build_refusal(exceeded, source=_SOURCES[kind], message=text)
    else:
        error = build_limit_error(full)
    if not is_shared(exceeded.limit):
        limit = exceeded.limit
        word = "tokens" if limit.counts_tokens else "requests"
        left = max(0, limit.most - exceeded.used)
        standing = RemainingLimit(left, limit, exceeded.reset_s)
        format_name = progress.context.format.name
        error.headers |= _write_headers(word, standing, format_name, exceeded.at_s)
    return error


def _write_refusal(caller: Caller, exceeded: Exceeded, kind: str) -> str:
    """What the caller reads of a limit that is one of the gateway's own settings."""
    if kind == _FREE_MINUTE:
        return "Rate limit exceeded: free-models-per-min"
    if kind == _REQUESTS:
        return "Rate limit exceeded: requests-per-min"
    if kind == KEY_TOKENS:
        limit = exceeded.limit
        return (
            f"Rate limit exceeded: tokens-per-min. This request may use up to {limit.cost} "
            f"tokens, and {max(0, limit.most - exceeded.used)} of {limit.most} are left"
        )
    if not has_low_quota(caller):
        return "Rate limit exceeded: free-models-per-day-high-balance"
    more = settings.ROUTER_FREE_RPD_HIGH or "unlimited"
    return (
        f"Rate limit exceeded: free-models-per-day. Add {settings.ROUTER_FREE_CREDIT_THRESHOLD} "
        f"credits to unlock {more} free model requests per day"
    )


# --- What is left, in the headers that the official clients' users read ---------------------------


def build_limit_headers(
    progress: RequestProgress, taken: WindowsTaken | None, *, now_s: float
) -> dict[str, str]:
    """Headers of the tightest limits of requests and of tokens. They say how much these allow, what
    is left as far as this process knows, and when they begin anew. `now_s` is Unix time.

    `taken` is what the request took as it came in. Once it has been sent, rules of key and
    workspace that name the model or provider count too. Those that are shared are left out.
    """
    if taken is None and not progress.context.caller.rate_rules:
        return {}
    limits = [] if taken is None else list(taken.limits)
    attempt = progress.last_attempt
    if attempt is not None:
        limits += allow_endpoint(progress, attempt.endpoint, read_marks(progress)).windows
    headers: dict[str, str] = {}
    for word, is_tokens in (("requests", False), ("tokens", True)):
        of_kind = [each for each in limits if each.counts_tokens is is_tokens]
        if of_kind:
            tightest = rate_limiter().find_tightest(of_kind)
            headers |= _write_headers(word, tightest, progress.context.format.name, now_s)
    return headers


def describe_stay(progress: RequestProgress) -> dict[str, str]:
    """The place in the queue that the request had to begin with, and how long it waited there."""
    stay = progress.queue_stay
    if stay is None:
        return {}
    waited_ms = round(stay.waited_s * 1000)
    return {"X-Router-Queue-Place": str(stay.place), "X-Router-Queue-Ms": str(waited_ms)}


def _write_headers(
    word: str, standing: RemainingLimit, format_name: str, now_s: float
) -> dict[str, str]:
    left, limit, reset_s = standing
    if format_name == _MESSAGES:
        moment = format_time(datetime.fromtimestamp(reset_s, UTC))
        values = {"limit": str(limit.most), "remaining": str(left), "reset": moment}
        return {f"anthropic-ratelimit-{word}-{name}": value for name, value in values.items()}
    seconds = f"{max(0, round(reset_s - now_s))}s"
    return {
        f"x-ratelimit-limit-{word}": str(limit.most),
        f"x-ratelimit-remaining-{word}": str(left),
        f"x-ratelimit-reset-{word}": seconds,
    }
