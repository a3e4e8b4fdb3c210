"""Where cached answers are kept: the hint store, or this process where there is none.

There are so many places (`ROUTER_RESPONSE_CACHE_ENTRIES`), and the name of an answer says which one
is its own: what comes later to the same place takes it. Whatever the hint store does is a miss.
"""

import threading
import time
from functools import cache
from typing import Any

from django.conf import settings

from gateway.shared_cache import cache_key, shared_cache


class LocalStore:
    """The places of one process. Values are sealed, and each lives for its own time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: dict[int, tuple[float, bytes]] = {}

    def find(self, place: int) -> bytes | None:
        with self._lock:
            until, value = self._values.get(place, (0.0, b""))
            if until > time.monotonic():
                return value
            self._values.pop(place, None)
            return None

    def put(self, place: int, value: bytes, ttl_s: int) -> None:
        with self._lock:
            self._values[place] = (time.monotonic() + ttl_s, value)


@cache
def _shelf() -> LocalStore:
    return LocalStore()


def find(name: str) -> bytes | None:
    """What stands in the place of that name."""
    store = shared_cache()
    if not store.is_configured:
        return _shelf().find(_place(name))
    # Answers are larger than hints: how long they take says nothing of those.
    value: Any = store.run(
        lambda redis: redis.get(_place_key(name)), None, limit_s=settings.REDIS_TIMEOUT
    )
    return value if isinstance(value, bytes) else None


def put(name: str, value: bytes, *, ttl_s: int) -> None:
    """Keep it for that long."""
    store = shared_cache()
    if not store.is_configured:
        _shelf().put(_place(name), value, ttl_s)
        return
    store.run(
        lambda redis: redis.set(_place_key(name), value, ex=ttl_s),
        None,
        limit_s=settings.REDIS_TIMEOUT,
    )


def forget_all() -> None:
    """Of this process."""
    _shelf.cache_clear()


def _place(name: str) -> int:
    return int(name[:15], 16) % settings.ROUTER_RESPONSE_CACHE_ENTRIES


def _place_key(name: str) -> str:
    return f"{cache_key('answers')}:{_place(name)}"
