"""Rate limits of accounts and of addresses. Accounts: management requests a minute, free requests a
day. Addresses: wrong keys, tokens and codes a minute, and tries to sign in."""

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
_SIGN_INS: Final = "router_sign_ins"
_READS: Final = frozenset({"GET", "HEAD"})


def count_management_request(caller: Caller, request: HttpRequest) -> None:
    """Count a request for its account, each kind by itself. Raises `RateLimited`."""
    if request.path_info.rstrip("/") == _ANALYTICS:
        kind, most = "analytics", settings.RATE_ANALYTICS
    elif request.method in _READS:
        kind, most = "management_reads", settings.RATE_MANAGEMENT_READS
    else:
        kind, most = "management_writes", settings.RATE_MANAGEMENT_WRITES
    if most:
        _take(Limit(f"{kind}:{caller.account_id}", most, MINUTE_S), source=f"router_{kind}")


def limit_wrong_keys(request: HttpRequest) -> Limit:
    """How many wrong keys may come from the address."""
    return Limit(f"failed:{find_client(request)}", settings.RATE_FAILED_CREDENTIALS, MINUTE_S)


def limit_wrong_tokens(request: HttpRequest) -> Limit:
    """How many wrong tokens of programs and codes of apps may come from the address."""
    return Limit(f"failed_tokens:{find_client(request)}", settings.RATE_FAILED_TOKENS, MINUTE_S)


def limit_exchanges(code_hash: str) -> Limit:
    """How often a code that was given out may fail: its holder shares it with no address."""
    return Limit(f"failed_code:{code_hash}", settings.RATE_FAILED_TOKENS, MINUTE_S)


def count_sign_in(request: HttpRequest, *, begins: bool) -> None:
    """Count a form, or a sign-in that only `begins`, for its address. Raises `RateLimited`.

    Any page can lead browsers to where sign-ins begin: these take no tries from forms.
    """
    if settings.RATE_SIGN_INS:
        kind = "sign_in_beginnings" if begins else "sign_ins"
        limit = Limit(f"{kind}:{find_client(request)}", settings.RATE_SIGN_INS, MINUTE_S)
        if known := rate_limiter().recall_exceeded(limit):
            raise build_refusal(known, source=_SIGN_INS)
        _take(limit, source=_SIGN_INS)


def guard_lookup(
    look: Callable[[], T],
    *,
    limit: Limit,
    trusted: bool = False,
    proves_itself: Callable[[], bool] | None = None,
    failures: tuple[type[GatewayError], ...] = (Unauthenticated,),
) -> T:
    """What `look` finds for a credential; past the limit it is not looked up.

    A credential that is `trusted`, because it was good the last time, is looked up in any case. So
    is one that `proves_itself`, which is asked past the limit only. Each of the `failures` counts,
    and becomes a 429 past the limit. Of a crowd that comes at once some may be looked up for
    nothing; no good key is refused for being one of many. Raises `RateLimited`.
    """
    if not limit.most:
        return look()
    if not trusted:
        exceeded = rate_limiter().recall_exceeded(limit)
        if exceeded is None:
            # Whether nothing is left of it; nothing is taken.
            trial = rate_limiter().take(limit._replace(most=limit.most - 1, cost=0))
            exceeded = trial._replace(limit=limit) if isinstance(trial, Exceeded) else None
        if exceeded is not None and not (proves_itself and proves_itself()):
            raise build_refusal(exceeded, source=_FAILED)
    try:
        return look()
    except failures:
        _take(limit, source=_FAILED)
        raise


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
