"""How many requests to free variants an account may make in a day (UTC)."""

from typing import Final, NamedTuple

from accounts.caller import Caller
from accounts.money import NANO_PER_USD
from gateway.limits.limits import DAY_S, Limit, rate_limiter
from gateway.live_settings import settings

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
