"""Limits on how many requests are under way at the same time, over all processes.

In the hint store each request under way has a place with an end, which its process moves on while
the request lasts; places of a process that died end by themselves. While the store does not answer
each process counts for itself, so that there is always a limit.
"""

import os
import secrets
from collections.abc import Callable, Sequence
from functools import cache
from itertools import count
from typing import Any, Final, NamedTuple

from gateway.eventloop import run_later
from gateway.http.jsonio import dumps
from gateway.shared_cache import LuaScript, SharedCache, cache_key, shared_cache

# A place whose process says nothing for this long is free again.
LEASE_S: Final = 30
RENEW_EVERY_S: Final = 10.0
# Work that no request waits for may take this long.
_BESIDE_S: Final = 1.0
# A limit is a sorted set of places by their ends. `{taken, given back, renewed}`: places as
# `{scope, name, most}`. Takes all of `taken` or none; the answer is the number of the one in the
# way, 0 for none. The time is the store's own.
_SCRIPT: Final = LuaScript("""
local orders = cjson.decode(ARGV[1])
local lease = tonumber(ARGV[2])
local now = tonumber(redis.call('TIME')[1])
local function put(place)
  local key = KEYS[1] .. place[1]
  redis.call('ZADD', key, now + lease, place[2])
  redis.call('EXPIRE', key, lease + 1)
end
for _, place in ipairs(orders[2]) do redis.call('ZREM', KEYS[1] .. place[1], place[2]) end
for _, place in ipairs(orders[3]) do put(place) end
for number, place in ipairs(orders[1]) do
  local key = KEYS[1] .. place[1]
  redis.call('ZREMRANGEBYSCORE', key, '-inf', now)
  if redis.call('ZCARD', key) >= place[3] then return number end
end
for _, place in ipairs(orders[1]) do put(place) end
return 0
""")


class Bound(NamedTuple):
    """At most `most` requests of a scope under way at the same time."""

    scope: str
    most: int


class Place(NamedTuple):
    """A request under way, in one of its scopes."""

    scope: str
    name: str


class ConcurrencyLimiter:
    """One process's way to the places. `later` runs what it is given after so many seconds."""

    def __init__(
        self, store: SharedCache, *, later: Callable[[float, Callable[[], None]], object]
    ) -> None:
        self._store = store
        self._later = later
        self._held: dict[str, set[str]] = {}
        self._given_back: list[Place] = []
        self._will_renew = self._will_flush = False
        self._numbers = count()
        # A forked process goes on with another.
        self._process = f"{os.getpid()}-{secrets.token_hex(4)}"
        # Is told the scopes in which this process has given places back.
        self.on_free: Callable[[set[str]], None] | None = None

    def take(self, bounds: Sequence[Bound]) -> list[Place] | Bound:
        """A place of each, or the bound that is reached."""
        for bound in bounds:
            if self.count_own(bound.scope) >= bound.most:
                return bound
        name = f"{self._process}:{next(self._numbers)}"
        places = [Place(bound.scope, name) for bound in bounds]
        # Held before the store is asked: others of this process run meanwhile.
        for place in places:
            self._held.setdefault(place.scope, set()).add(name)
        reached = 0
        try:
            wanted = [(*place, bound.most) for place, bound in zip(places, bounds, strict=True)]
            given_back, self._given_back = self._given_back, []
            reached = self._ask(wanted, given_back) or 0
        except BaseException:
            self.give_back(places)
            raise
        if reached:
            self._forget(places)
            return bounds[reached - 1]
        self._renew_later()
        return places

    def give_back(self, places: Sequence[Place]) -> None:
        """End these places. Nobody waits for it; ended twice, they end once."""
        ended = [place for place in places if place.name in self._held.get(place.scope, ())]
        self._forget(ended)
        if ended and self._store.is_configured:
            self._given_back += ended
            if not self._will_flush:
                self._will_flush = True
                self._later(0.0, self._flush)
        if ended and self.on_free is not None:
            self.on_free({place.scope for place in ended})

    def count_own(self, scope: str) -> int:
        """How many requests of this process are under way in a scope."""
        return len(self._held.get(scope, ()))

    def close(self) -> None:
        """End all places of this process."""
        self.give_back([Place(scope, name) for scope, held in self._held.items() for name in held])
        self._flush()

    def _forget(self, places: Sequence[Place]) -> None:
        for scope, name in places:
            held = self._held.get(scope)
            if held is not None:
                held.discard(name)
                if not held:
                    del self._held[scope]

    def _flush(self) -> None:
        self._will_flush = False
        if self._given_back:
            ended, self._given_back = self._given_back, []
            self._ask([], ended, limit_s=_BESIDE_S)

    def _renew_later(self) -> None:
        if self._held and not self._will_renew and self._store.is_configured:
            self._will_renew = True
            self._later(RENEW_EVERY_S, self._renew)

    def _renew(self) -> None:
        """Also puts back what a store that was restarted has forgotten."""
        self._will_renew = False
        held = [(scope, name) for scope, names in self._held.items() for name in names]
        if held:
            self._ask([], [], held, limit_s=_BESIDE_S)
        self._renew_later()

    def _ask(
        self,
        taken: Sequence[Sequence[Any]],
        given_back: Sequence[Sequence[Any]],
        renewed: Sequence[Sequence[Any]] = (),
        *,
        limit_s: float | None = None,
    ) -> int | None:
        if not self._store.is_configured:
            return None
        written, key = dumps([taken, given_back, renewed]), f"{cache_key('places')}:"
        return self._store.run(
            lambda store: int(_SCRIPT.run(store, key, written, str(LEASE_S))), None, limit_s=limit_s
        )


@cache
def concurrency_limiter() -> ConcurrencyLimiter:
    """This process's own."""
    return ConcurrencyLimiter(shared_cache(), later=run_later)
