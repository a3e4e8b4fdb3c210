"""Limits on how many requests are under way at the same time, over all processes.

In the shared cache each request under way has a place with an end. Its process postpones that end
while the request lasts, so places of a process that died end by themselves. While the store does
not answer each process counts for itself, so that there is always a limit.

A place that is given back within `SPARE_S` of the store's last answer serves the process's next
request. Each answer is good for all places of its scope that the process has. So a busy limit costs
fewer round trips than it admits requests.
"""

import math
import os
import secrets
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import count
from typing import Any, Final, NamedTuple

from gateway.eventloop import run_later
from gateway.http.jsonio import dumps
from gateway.shared_cache import LuaScript, SharedCache, cache_key, shared_cache

# A place whose process says nothing for this long is free again.
LEASE_S: Final = 30
RENEW_EVERY_S: Final = 10.0
# How long the store's answer lets a process use a place anew. Other processes do without it as
# long, and a limit that was made smaller is kept that much later. What a store forgot returns with
# the next renewal.
SPARE_S: Final = 0.5
# A process keeps this share of a limit's places at most, and none where half of them are taken.
# What it keeps would be refused to others.
_SPARE_SHARE: Final = 16
_SPARE_MAX: Final = 256
# Work that no request waits for may take this long.
_BESIDE_S: Final = 1.0
# A limit is a sorted set of places by their ends. `{taken, given back, renewed}`: places as
# `{scope, name, most}`. Takes all of `taken` or none. The answer is the number of the one in the
# way, 0 for none, and how many places of each were taken before. The time is the store's own.
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
local answer = {0}
for number, place in ipairs(orders[1]) do
  local key = KEYS[1] .. place[1]
  redis.call('ZREMRANGEBYSCORE', key, '-inf', now)
  answer[number + 1] = redis.call('ZCARD', key)
  if answer[number + 1] >= place[3] then return {number} end
end
for _, place in ipairs(orders[1]) do put(place) end
return answer
""")


class Bound(NamedTuple):
    """At most `most` requests of a scope under way at the same time."""

    scope: str
    most: int


class Place(NamedTuple):
    """A request under way, in one of its scopes."""

    scope: str
    name: str


@dataclass(slots=True, eq=False)
class _StorePlace:
    """A place as the store knows it. A request may use it anew where the store has said so."""

    name: str
    is_lent: bool = False


class _Loan(NamedTuple):
    """Until when the process may use its lent places of a scope anew, by its own clock, and how
    many of them it may keep."""

    until: float
    spare_max: int


_NO_LOAN: Final = _Loan(0.0, 0)


class ConcurrencyLimiter:
    """One process's way to the places. `later` runs a call after some seconds; `clock` gives
    monotonic seconds."""

    def __init__(
        self,
        store: SharedCache,
        *,
        later: Callable[[float, Callable[[], None]], object],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._later = later
        self._clock = clock
        # By scope, and by the request's own name: two that have the same place in turn differ.
        self._held: dict[str, dict[str, _StorePlace]] = {}
        self._spare: dict[str, list[_StorePlace]] = {}
        # Of each scope with places, where the store has lent some, and how many of those are held.
        self._loans: dict[str, _Loan] = {}
        self._lent: Counter[str] = Counter()
        # No spare place ends before that moment.
        self._spare_end = math.inf
        self._given_back: list[Place] = []
        self._will_renew = self._will_flush = self._will_sweep = False
        self._numbers = count()
        # A forked process goes on with another.
        self._process = f"{os.getpid()}-{secrets.token_hex(4)}"
        # Called with the scopes in which this process has given places back.
        self.on_free: Callable[[set[str]], None] | None = None

    def take(self, bounds: Sequence[Bound]) -> list[Place] | Bound:
        """A place of each, or the bound that is reached."""
        name = f"{self._process}:{next(self._numbers)}"
        places, wanted, now = [], [], self._clock()
        all_held, all_spare = self._held, self._spare
        for scope, most in bounds:
            if len(all_held.get(scope, ())) >= most:
                return Bound(scope, most)
        # What may be used no more is given back with the same question: it would be in the way.
        if self._spare_end <= now:
            self._end_spare(now)
            all_spare = self._spare
        # Held before the store is asked: others of this process run meanwhile.
        for bound in bounds:
            scope = bound.scope
            if spare := all_spare.get(scope):
                store_place = spare.pop()
                self._lent[scope] += 1
            else:
                wanted.append(bound)
                store_place = _StorePlace(name)
            held = all_held.get(scope)
            if held is None:
                held = all_held[scope] = {}
            held[name] = store_place
            places.append(Place(scope, name))
        if not wanted:
            self._renew_later()
            return places
        try:
            orders = [(bound.scope, name, bound.most) for bound in wanted]
            given_back, self._given_back = self._given_back, []
            lent = [self._lent[bound.scope] for bound in wanted]
            answer = self._ask(orders, given_back)
        except BaseException:
            self.give_back(places)
            raise
        reached, *earlier = answer or [0]
        if reached:
            for bound in wanted:
                self._drop(Place(bound.scope, name))
            for place in places:
                # Nobody who waits is to look: there was no place before either.
                self._end(place)
            return wanted[reached - 1]
        until = self._clock() + SPARE_S
        for bound, own, taken in zip(wanted, lent, earlier, strict=False):
            # A store that counts less than this process alone has forgotten some of its places.
            if 2 * taken >= bound.most or taken < own:
                continue
            if asked := self._held.get(bound.scope, {}).get(name):
                asked.is_lent = True
                self._lent[bound.scope] += 1
                spare_max = min(bound.most // _SPARE_SHARE, _SPARE_MAX)
                self._loans[bound.scope] = _Loan(until, spare_max)
        self._renew_later()
        return places

    def give_back(self, places: Sequence[Place]) -> None:
        """End these places. Nobody waits for it; ended twice, they end once."""
        scopes = {place.scope for place in places if self._end(place)}
        if scopes and self.on_free is not None:
            self.on_free(scopes)

    def _end(self, ended: Place) -> bool:
        place = self._drop(ended)
        if place is None:
            return False
        scope, spare = ended.scope, self._spare.get(ended.scope, [])
        loan = self._loans.get(scope, _NO_LOAN) if place.is_lent else _NO_LOAN
        if len(spare) < loan.spare_max and loan.until > self._clock():
            if not spare:
                self._spare[scope] = spare
            spare.append(place)
            if loan.until < self._spare_end:
                self._spare_end = loan.until
            if not self._will_sweep:
                self._sweep_later()
            return True
        if scope not in self._held and not spare:
            self._loans.pop(scope, None)
        if self._store.is_configured:
            self._return(Place(scope, place.name))
        return True

    def count_own(self, scope: str) -> int:
        """How many requests of this process are under way in a scope."""
        return len(self._held.get(scope, ()))

    def close(self) -> None:
        """End all places of this process."""
        self.give_back([Place(scope, name) for scope, held in self._held.items() for name in held])
        self._end_spare(math.inf)
        self._flush()

    def _drop(self, place: Place) -> _StorePlace | None:
        held = self._held.get(place.scope)
        dropped = None if held is None else held.pop(place.name, None)
        if dropped is not None and dropped.is_lent:
            self._lent[place.scope] -= 1
        if held is not None and not held:
            del self._held[place.scope]
            del self._lent[place.scope]
        return dropped

    def _return(self, place: Place) -> None:
        self._given_back.append(place)
        if not self._will_flush:
            self._will_flush = True
            self._later(0.0, self._flush)

    def _flush(self) -> None:
        self._will_flush = False
        if self._given_back:
            ended, self._given_back = self._given_back, []
            self._ask([], ended, limit_s=_BESIDE_S)

    def _sweep_later(self) -> None:
        if self._spare and not self._will_sweep:
            self._will_sweep = True
            self._later(max(0.0, self._spare_end - self._clock()), self._sweep)

    def _sweep(self) -> None:
        self._will_sweep = False
        self._end_spare(self._clock())
        self._sweep_later()

    def _end_spare(self, now: float) -> None:
        """Give back what may not be used any more at that moment."""
        spare, self._spare, self._spare_end = self._spare, {}, math.inf
        for scope, places in spare.items():
            until = self._loans.get(scope, _NO_LOAN).until
            if places and until > now:
                self._spare[scope] = places
                self._spare_end = min(self._spare_end, until)
                continue
            if scope not in self._held:
                self._loans.pop(scope, None)
            for place in places:
                self._return(Place(scope, place.name))

    def _renew_later(self) -> None:
        if self._held and not self._will_renew and self._store.is_configured:
            self._will_renew = True
            self._later(RENEW_EVERY_S, self._renew)

    def _renew(self) -> None:
        """Also puts back what a store that was restarted has forgotten."""
        self._will_renew = False
        held = [(scope, place.name) for scope, own in self._held.items() for place in own.values()]
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
    ) -> list[int] | None:
        if not self._store.is_configured:
            return None
        written, key = dumps([taken, given_back, renewed]), f"{cache_key('places')}:"
        return self._store.run(
            lambda store: list(_SCRIPT.run(store, key, written, str(LEASE_S))),
            None,
            limit_s=limit_s,
        )


@cache
def concurrency_limiter() -> ConcurrencyLimiter:
    """This process's own."""
    return ConcurrencyLimiter(shared_cache(), later=run_later)
