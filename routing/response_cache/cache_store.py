"""Where answers are that others may have: cached ones in the hint store, or in this process where
there is none, and those on their way in this process.

There are so many places (`ROUTER_RESPONSE_CACHE_ENTRIES`), and the name of an answer says which one
is its own: what comes later to the same place takes it. Whatever the hint store does is a miss.
"""

import threading
import time
from functools import cache
from typing import Any

from django.conf import settings

from gateway.shared_cache import cache_key, shared_cache
from routing.response_cache.entry import Entry


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


# --- Requests under way, by the name that their answer would be kept under ------------------------


class Flight:
    """One request under way. Once it `has_landed`, `entry` is its answer; None where it failed, or
    `is_private`: nobody else may have it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.entry: Entry | None = None
        self.is_private = False
        self.has_landed = threading.Event()


class Flights:
    """All of one process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._under_way: dict[str, Flight] = {}

    def join(self, name: str) -> tuple[Flight, bool]:
        """The flight of that name, and whether it is a new one that the caller must land."""
        with self._lock:
            flight = self._under_way.get(name)
            if flight is not None:
                return flight, False
            flight = self._under_way[name] = Flight(name)
            return flight, True

    def land(self, flight: Flight) -> None:
        """Tell those who wait that the request has ended, or that they wait in vain. May be said
        again."""
        with self._lock:
            if self._under_way.get(flight.name) is flight:
                del self._under_way[flight.name]
        flight.has_landed.set()


flights = Flights()
