"""Whether a request's answer may come from the response cache."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from gateway.live_settings import settings

TTL_S_MAX: Final = 86_400
TTL_S_DEFAULT: Final = 300
# The header that switches the cache on, as WSGI names it.
MAY_SWITCH_ON: Final = "HTTP_X_ROUTER_CACHE"
MAY_SHARE: Final = "HTTP_X_ROUTER_SHARE"
_FLAGS: Final = {"true": True, "false": False}
_DIGITS_MAX: Final = 20


class CacheOptions(NamedTuple):
    """How long the answer is kept where it is made anew, and whether it is to be made anew."""

    ttl_s: int
    clears: bool


def read_cache_options(
    headers: Mapping[str, Any], preset: Mapping[str, Any], *, by_default: bool = False
) -> CacheOptions | None:
    """`headers` as WSGI names them, `preset` the config of the one that was named, `by_default`
    what the workspace wants. None where the cache is off: a preset that switches it off has the
    last word."""
    if not settings.ROUTER_RESPONSE_CACHE_ENABLED or preset.get("cache_enabled") is False:
        return None
    flag = _flag(headers.get(MAY_SWITCH_ON))
    wishes = (flag, preset.get("cache_enabled"), by_default)
    if not next(wish for wish in wishes if wish is not None):
        return None
    text = str(headers.get("HTTP_X_ROUTER_CACHE_TTL") or "").strip()
    digits = text.removeprefix("-").removeprefix("+")
    if digits.isascii() and digits.isdecimal():
        # What is that long is out of bounds, and Python would not read all of it.
        ttl_s = int(text) if len(digits) <= _DIGITS_MAX else TTL_S_MAX * (-1) ** (text[0] == "-")
    else:
        ttl_s = int(preset.get("cache_ttl_seconds") or TTL_S_DEFAULT)
    clears = _flag(headers.get("HTTP_X_ROUTER_CACHE_CLEAR")) is True
    return CacheOptions(min(max(ttl_s, 1), TTL_S_MAX), clears)


def may_share(
    headers: Mapping[str, Any],
    preset: Mapping[str, Any],
    *,
    is_whole: bool,
    is_repeatable: bool,
    by_default: bool = False,
) -> bool:
    """Whether the request may have the answer of the same one under way, and others its own.

    `headers` and `by_default` are as in `read_cache_options`: an installation without a cache does
    not heed the latter. Without `X-Router-Share` those share that would have the same answer anyway
    (`is_repeatable`), and those that ask for the cache, but no streams.
    """
    mode = settings.ROUTER_SHARE_IDENTICAL
    if mode == "off" or preset.get("cache_enabled") is False:
        return False
    flag = _flag(headers[MAY_SHARE]) if MAY_SHARE in headers else None
    if flag is not None or not is_whole:
        return flag is True
    asks_for_cache = _flag(headers[MAY_SWITCH_ON]) if MAY_SWITCH_ON in headers else None
    if asks_for_cache is None:
        wants_cache = by_default and bool(settings.ROUTER_RESPONSE_CACHE_ENABLED)
        asks = wants_cache or bool(preset.get("cache_enabled"))
        return asks or (is_repeatable and mode == "repeatable")
    return asks_for_cache


def _flag(header: object) -> bool | None:
    return _FLAGS.get(str(header).strip().lower())
