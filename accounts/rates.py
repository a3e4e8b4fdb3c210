"""Rate limits of accounts: management requests and wrong keys a minute, free requests a day."""

from collections.abc import Callable
from typing import Final, NamedTuple, TypeVar

from django.http import HttpRequest

from accounts.caller import Caller
from accounts.money import NANO_PER_USD
from gateway.http.address import find_client
from gateway.http.errors import GatewayError, Unauthenticated
from gateway.limits.limits import DAY_S, MINUTE_S, Exceeded, Limit, build_refusal, rate_limiter
from gateway.live_settings import settings

T = TypeVar("T")
_ANALYTICS: Final = "/api/v1/analytics/query"
_FAILED: Final = "router_failed_credentials"
_READS: Final = frozenset({"GET", "HEAD"})


def count_management_request(caller: Caller, request: HttpRequest) -> None:
    """Count a request for its account. Raises `RateLimited`."""
    kind, most = _classify_request(request)
    if most:
        _take(Limit(f"{kind}:{caller.account_id}", most, MINUTE_S), source=f"router_{kind}")


def _classify_request(request: HttpRequest) -> tuple[str, int]:
    """What it counts as, and how many of those there may be in a minute (0: any number)."""
    if request.path_info.rstrip("/") == _ANALYTICS:
        return "analytics", settings.RATE_ANALYTICS
    if request.method in _READS:
        return "management_reads", settings.RATE_MANAGEMENT_READS
    return "management_writes", settings.RATE_MANAGEMENT_WRITES


def guard_lookup(
    request: HttpRequest,
    look: Callable[[], T],
    *,
    trusted: bool,
    failure: type[GatewayError] = Unauthenticated,
) -> T:
    """What `look` finds for a credential; an address that was wrong too often is not looked up for.

    A credential that is `trusted`, because it was good the last time, is looked up in any case.
    Every `failure` counts, and becomes a 429 past the limit: of a crowd that comes at once
    some may be looked up for nothing, but no good key is refused for being one of many. Raises
    `RateLimited`.
    """
    if not settings.RATE_FAILED_CREDENTIALS:
        return look()
    limit = Limit(f"failed:{find_client(request)}", settings.RATE_FAILED_CREDENTIALS, MINUTE_S)
    if not trusted:
        _refuse_if_exhausted(limit)
    try:
        return look()
    except failure:
        _take(limit, source=_FAILED)
        raise


def _refuse_if_exhausted(limit: Limit) -> None:
    """Raise `RateLimited` where nothing is left of it; nothing is taken."""
    found = rate_limiter().take(limit._replace(most=limit.most - 1, cost=0))
    if isinstance(found, Exceeded):
        raise build_refusal(found._replace(limit=limit), source=_FAILED)


def _take(limit: Limit, *, source: str) -> None:
    taken = rate_limiter().take(limit)
    if isinstance(taken, Exceeded):
        raise build_refusal(taken, source=source)


FREE_DAY: Final = "free_day"
NO_LIMIT: Final = -1


class FreeRequests(NamedTuple):
    """A day's quota of an account and what is used of it. `NO_LIMIT` stands where none is set;
    nothing is counted there."""

    limit: int
    used: int
    remaining: int


def has_low_quota(caller: Caller) -> bool:
    """Whether the account has bought too little for the larger quota."""
    return caller.bought_nano < settings.ROUTER_FREE_CREDIT_THRESHOLD * NANO_PER_USD


def daily_limit(caller: Caller) -> Limit | None:
    """What the account's requests to free variants count against; None for no limit."""
    most = settings.ROUTER_FREE_RPD_LOW if has_low_quota(caller) else settings.ROUTER_FREE_RPD_HIGH
    return Limit(f"{FREE_DAY}:{caller.account_id}", most, DAY_S) if most else None


def read_free_requests(caller: Caller) -> FreeRequests:
    """What the limiter says of the caller's account today."""
    limit = daily_limit(caller)
    if limit is None:
        return FreeRequests(NO_LIMIT, 0, NO_LIMIT)
    used = rate_limiter().read_used(limit)
    return FreeRequests(limit.most, used, max(0, limit.most - used))
