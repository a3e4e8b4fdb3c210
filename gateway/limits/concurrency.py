"""Limits on how many requests are under way at the same time, over all processes.

In the hint store each request under way has a place with an end, which its process moves on while
the request lasts; places of a process that died end by themselves. While the store does not answer
each process counts for itself, so that there is always a limit.

A place that is given back within `SPARE_S` of the store's word serves the process's next request.
While a process goes on using them it has that word confirmed ahead: a busy limit costs a round trip
now and then, for which no request waits.
"""

import math
import os
import secrets
import time
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import count
from typing import Any, Final, NamedTuple

from gateway.eventloop import run_later
from gateway.http.jsonio import dumps
from gateway.shared_cache import LuaScript, SharedCache, cache_key, shared_cache

# A place whose process says nothing for this long is free again.
LEASE_S: Final = 30
RENEW_EVERY_S: Final = 10.0
# How long the store's word lets a process use a place anew. Other processes do without it as long,
# and whatever is wrong with the count (a limit made smaller, a store that forgot) lasts no longer.
SPARE_S: Final = 0.5
# From then on before its end it is confirmed.
_AHEAD_S: Final = SPARE_S / 2
# A process keeps this share of a limit's places at most, and none where half of them are taken:
# what it keeps would be refused to others.
_SPARE_SHARE: Final = 16
_SPARE_MAX: Final = 256
# Work that no request waits for may take this long.
_BESIDE_S: Final = 1.0
# A limit is a sorted set of places by their ends. `{taken, given back, renewed, counted}`: places
# as `{scope, name, most}`, and scopes. Takes all of `taken` or none; the answer is the number of
# the one in the way, 0 for none, how many places of each were taken before, and of each that is to
# be counted. The time is the store's own.
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
local function count(scope)
  redis.call('ZREMRANGEBYSCORE', KEYS[1] .. scope, '-inf', now)
  return redis.call('ZCARD', KEYS[1] .. scope)
end
for number, place in ipairs(orders[1]) do
  answer[number + 1] = count(place[1])
  if answer[number + 1] >= place[3] then return {number} end
end
for _, place in ipairs(orders[1]) do put(place) end
for _, scope in ipairs(orders[4]) do answer[#answer + 1] = count(scope) end
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


class _Word(NamedTuple):
    """What the store said of a scope: until that moment of the process's own clock requests may
    have places anew that others gave back, and `spare_max` at most are kept for them."""

    until: float
    spare_max: int


_NO_WORD: Final = _Word(0.0, 0)
# In place of a place's name, until the store has said yes: nobody is to renew it before.
_ASKED: Final = ""


class ConcurrencyLimiter:
    """One process's way to the places. `later` runs what it is given after so many seconds; `clock`
    gives monotonic seconds."""

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
        # The store's names of places by scope, and by the request's own name: two that have the
        # same place in turn differ.
        self._held: dict[str, dict[str, str]] = {}
        # Of scopes with a word: no word ends before that moment.
        self._words: dict[str, _Word] = {}
        self._spare: dict[str, list[str]] = {}
        self._words_end = math.inf
        # Whose words are to be confirmed, with their limits.
        self._unconfirmed: dict[str, int] = {}
        self._given_back: list[Place] = []
        self._will_renew = self._will_flush = self._will_sweep = False
        # How many times the store is told of places at the moment.
        self._renewals = 0
        self._numbers = count()
        # A forked process goes on with another.
        self._process = f"{os.getpid()}-{secrets.token_hex(4)}"
        # Is told the scopes in which this process has given places back.
        self.on_free: Callable[[set[str]], None] | None = None

    def take(self, bounds: Sequence[Bound]) -> list[Place] | Bound:
        """A place of each, or the bound that is reached."""
        name = f"{self._process}:{next(self._numbers)}"
        places, wanted, now = [], [], self._clock()
        for bound in bounds:
            if self.count_own(bound.scope) >= bound.most:
                return bound
        # What may be used no more is given back with the same question: it would be in the way.
        if self._words_end <= now:
            self._end_words(now)
        # Held before the store is asked: others of this process run meanwhile.
        for bound in bounds:
            scope = bound.scope
            if spare := self._spare.get(scope):
                self._held.setdefault(scope, {})[name] = spare.pop()
                if self._words[scope].until <= now + _AHEAD_S and scope not in self._unconfirmed:
                    self._confirm_later(bound)
            else:
                wanted.append(bound)
                self._held.setdefault(scope, {})[name] = _ASKED
            places.append(Place(scope, name))
        if not wanted:
            self._renew_later()
            return places
        try:
            orders = [(bound.scope, name, bound.most) for bound in wanted]
            answer = self._ask(orders, self._take_given_back())
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
        for bound in wanted:
            if name in self._held.get(bound.scope, ()):
                self._held[bound.scope][name] = name
        for bound, taken in zip(wanted, earlier, strict=False):
            self._note_word(bound, taken)
        self._renew_later()
        return places

    def _note_word(self, bound: Bound, taken: int) -> None:
        """The store says that so many places were taken."""
        if 2 * taken >= bound.most:
            self._end_word(bound.scope)
            return
        until = self._clock() + SPARE_S
        spare_max = min(bound.most // _SPARE_SHARE, _SPARE_MAX)
        self._words[bound.scope] = _Word(until, spare_max)
        self._words_end = min(self._words_end, until)
        self._sweep_later()

    def _confirm_later(self, bound: Bound) -> None:
        self._unconfirmed[bound.scope] = bound.most
        if len(self._unconfirmed) == 1:
            self._later(0.0, self._confirm)

    def _confirm(self) -> None:
        """Have the store say again how many places are taken, also where it has forgotten some."""
        asked = dict(self._unconfirmed)
        answer = self._tell_again(asked, list(asked))
        for (scope, most), taken in zip(asked.items(), (answer or [0])[1:], strict=False):
            self._note_word(Bound(scope, most), taken)
        self._unconfirmed = {}

    def _tell_again(self, scopes: Iterable[str], counted: Sequence[str] = ()) -> list[int] | None:
        """Tell the store of this process's places that it knows, or should."""
        renewed = []
        for scope in scopes:
            renewed += [(scope, name) for name in self._held.get(scope, {}).values() if name]
            renewed += [(scope, name) for name in self._spare.get(scope, ())]
        if not renewed and not counted:
            return None
        self._renewals += 1
        try:
            return self._ask([], [], renewed, counted=counted, limit_s=_BESIDE_S)
        finally:
            self._renewals -= 1
            self._flush()

    def _take_given_back(self) -> list[Place]:
        """What the store is to be told. While places are renewed it might hear of their end
        first."""
        if self._renewals:
            return []
        given_back, self._given_back = self._given_back, []
        return given_back

    def give_back(self, places: Sequence[Place]) -> None:
        """End these places. Nobody waits for it; ended twice, they end once."""
        scopes = {place.scope for place in places if self._end(place)}
        if scopes and self.on_free is not None:
            self.on_free(scopes)

    def _end(self, ended: Place) -> bool:
        store_name = self._drop(ended)
        if store_name is None:
            return False
        word = self._words.get(ended.scope, _NO_WORD)
        own_spare = len(self._spare.get(ended.scope, ()))
        if own_spare < word.spare_max and word.until > self._clock():
            self._spare.setdefault(ended.scope, []).append(store_name or ended.name)
        elif self._store.is_configured:
            self._return(Place(ended.scope, store_name or ended.name))
        return True

    def count_own(self, scope: str) -> int:
        """How many requests of this process are under way in a scope."""
        return len(self._held.get(scope, ()))

    def close(self) -> None:
        """End all places of this process."""
        self.give_back([Place(scope, name) for scope, held in self._held.items() for name in held])
        self._end_words(math.inf)
        self._flush()

    def _drop(self, place: Place) -> str | None:
        held = self._held.get(place.scope)
        dropped = None if held is None else held.pop(place.name, None)
        if held is not None and not held:
            del self._held[place.scope]
        return dropped

    def _return(self, place: Place) -> None:
        self._given_back.append(place)
        if not self._will_flush:
            self._will_flush = True
            self._later(0.0, self._flush)

    def _flush(self) -> None:
        self._will_flush = False
        if ended := self._take_given_back():
            self._ask([], ended, limit_s=_BESIDE_S)

    def _sweep_later(self) -> None:
        if self._words and not self._will_sweep:
            self._will_sweep = True
            self._later(max(0.0, self._words_end - self._clock()), self._sweep)

    def _sweep(self) -> None:
        self._will_sweep = False
        self._end_words(self._clock())
        self._sweep_later()

    def _end_words(self, now: float) -> None:
        """Give back what may not be used any more at that moment."""
        for scope in [each for each, word in self._words.items() if word.until <= now]:
            self._end_word(scope)
        self._words_end = min((word.until for word in self._words.values()), default=math.inf)

    def _end_word(self, scope: str) -> None:
        self._words.pop(scope, None)
        for name in self._spare.pop(scope, ()):
            self._return(Place(scope, name))

    def _renew_later(self) -> None:
        if self._held and not self._will_renew and self._store.is_configured:
            self._will_renew = True
            self._later(RENEW_EVERY_S, self._renew)

    def _renew(self) -> None:
        """Also puts back what a store that was restarted has forgotten."""
        self._will_renew = False
        self._tell_again({**self._held, **self._spare})
        self._renew_later()

    def _ask(
        self,
        taken: Sequence[Sequence[Any]],
        given_back: Sequence[Sequence[Any]],
        renewed: Sequence[Sequence[Any]] = (),
        *,
        counted: Sequence[str] = (),
        limit_s: float | None = None,
    ) -> list[int] | None:
        if not self._store.is_configured:
            return None
        written, key = dumps([taken, given_back, renewed, counted]), f"{cache_key('places')}:"
        return self._store.run(
            lambda store: list(_SCRIPT.run(store, key, written, str(LEASE_S))),
            None,
            limit_s=limit_s,
        )


@cache
def concurrency_limiter() -> ConcurrencyLimiter:
    """This process's own."""
    return ConcurrencyLimiter(shared_cache(), later=run_later)
