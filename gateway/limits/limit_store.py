"""The counters of rate limits in the shared cache: many orders in one round trip.

Orders that come while one is under way wait for each other and go together. So a busy process pays
for a fraction of a round trip each.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from gateway.database.db import under_gevent
from gateway.http.jsonio import dumps, loads
from gateway.limits.limit_leases import REQUESTS_MAX, REQUESTS_MIN, SHARE
from gateway.shared_cache import LuaScript, SharedCache, cache_key

# How long what nobody waits for may wait for company.
ADD_DELAY_S: Final = 0.01
_TAKE, _ADD = 0, 1
# Of an order to take: the least and the most that is asked for beside it, and its share.
_NO_MORE: Final = (1, 0, 1)
# A counter is a hash of its window's start and what is used of it, and lives as long as its window.
# A take is `{0, {{scope, most, window, cost}, ...}, least, most, share}`: from all or from none.
# Its answer begins with the number of the limit that is in the way (0: none). Then come how many
# further requests of the same cost it took for (`gateway.limits.limit_leases`), and what is used of
# each. An addition is `{1, {{scope, start, amount}, ...}}`, for windows that are not over. The time
# is the store's own.
_SCRIPT: Final = LuaScript("""
local time = redis.call('TIME')
local now = tonumber(time[1])
local answers = {}
local function kept(scope, start)
  local found = redis.call('HMGET', KEYS[1] .. scope, 'start', 'used')
  if found[1] and tonumber(found[1]) == start then return tonumber(found[2]) end
end
local function put(scope, start, used, is_new, window)
  redis.call('HSET', KEYS[1] .. scope, 'start', start, 'used', used)
  if is_new then redis.call('EXPIREAT', KEYS[1] .. scope, start + window + 1) end
end
for number, order in ipairs(cjson.decode(ARGV[1])) do
  local answer = {0}
  if order[1] == 0 then
    local before = {}
    local more = order[4]
    for i, limit in ipairs(order[2]) do
      before[i] = kept(limit[1], now - now % limit[3])
      local used = before[i] or 0
      answer[i + 2] = used
      if answer[1] == 0 and used + limit[4] > limit[2] then answer[1] = i end
      more = math.min(more, math.floor((limit[2] - used) / (order[5] * math.max(1, limit[4]))))
    end
    if more < order[3] then more = 0 end
    answer[2] = more
    if answer[1] == 0 then
      for i, limit in ipairs(order[2]) do
        answer[i + 2] = answer[i + 2] + limit[4] * (1 + more)
        put(limit[1], now - now % limit[3], answer[i + 2], not before[i], limit[3])
      end
    end
  else
    for _, part in ipairs(order[2]) do
      local before = kept(part[1], part[2])
      if before then put(part[1], part[2], math.max(0, before + part[3]), false) end
    end
  end
  answers[number] = answer
end
return cjson.encode({now * 1000 + math.floor(tonumber(time[2]) / 1000), answers})
""")


class LimitAnswer(NamedTuple):
    """`at_s` is the store's Unix time, cut to milliseconds. `refused` is the number of the limit in
    the way, 0 for none. `more` is how many requests more it took for, `used` what is used of each
    limit now."""

    at_s: float
    refused: int
    more: int
    used: list[int]


class _LimitOrder:
    """One order on its way; `done` is an event of gevent's for who waits."""

    __slots__ = ("answer", "done", "text")

    def __init__(self, text: tuple[Any, ...], done: Any = None) -> None:
        self.text = text
        self.done = done
        self.answer: LimitAnswer | None = None


class LimitStore:
    """One process's way to the counters."""

    def __init__(self, store: SharedCache) -> None:
        self._hints = store
        self._waiting: list[_LimitOrder] = []
        self._is_sending = self._will_send = False

    def take(self, limits: Sequence[Sequence[Any]]) -> LimitAnswer | None:
        """Take from all limits, each `(scope, most, window_s, cost, …)`, or from none; on an event
        loop perhaps for more requests of the same. None where the store does not answer."""
        if not self._hints.is_configured:
            return None
        parts = [limit[:4] for limit in limits]
        if not under_gevent():
            # There is nobody to share with.
            return self._send_alone((_TAKE, parts, *_NO_MORE))
        # Of a crowd one asks for more.
        text = (_TAKE, parts, REQUESTS_MIN, 0 if self._waiting else REQUESTS_MAX, SHARE)
        return self._take(text)

    def look(self, limits: Sequence[Sequence[Any]]) -> LimitAnswer | None:
        """Take nothing, of limits whose cost is 0: an answer as that of `take`."""
        if not self._hints.is_configured:
            return None
        text = (_TAKE, [limit[:4] for limit in limits], *_NO_MORE)
        return self._take(text) if under_gevent() else self._send_alone(text)

    def _take(self, text: tuple[Any, ...]) -> LimitAnswer | None:
        if not self._hints.available:
            # There is nothing to wait for.
            return self._send_alone(text)
        from gevent import spawn
        from gevent.event import Event

        order = _LimitOrder(text, Event())
        self._waiting.append(order)
        if not self._is_sending:
            # In a greenlet of its own: a request may be ended while it waits, this may not.
            self._is_sending = True
            spawn(self._send_all)
        order.done.wait()
        return order.answer

    def _send_alone(self, text: tuple[Any, ...]) -> LimitAnswer | None:
        order = _LimitOrder(text)
        self._send([order])
        return order.answer

    def add(self, parts: Sequence[tuple[str, int, int]]) -> None:
        """Add to what is used, each part `(scope, window's start, amount)`. Nobody waits for it."""
        if not self._hints.is_configured:
            return
        order = _LimitOrder((_ADD, list(parts)))
        if not under_gevent():
            self._send([order])
            return
        self._waiting.append(order)
        if not (self._is_sending or self._will_send):
            from gevent import spawn_later

            self._will_send = True
            spawn_later(ADD_DELAY_S, self._send_all)

    def flush(self) -> None:
        """Send what waits for company, and wait for it."""
        if self._waiting and not self._is_sending:
            self._send_all()

    def _send_all(self) -> None:
        self._is_sending, self._will_send = True, False
        try:
            while self._waiting:
                orders, self._waiting = self._waiting, []
                self._send(orders)
        finally:
            self._is_sending = False

    def _send(self, orders: list[_LimitOrder]) -> None:
        try:
            written = dumps([order.text for order in orders])
            key = f"{cache_key('limit')}:"
            raw = self._hints.run(lambda store: bytes(_SCRIPT.run(store, key, written)), None)
            if raw is not None:
                at_ms, answers = loads(raw)
                for order, answer in zip(orders, answers, strict=True):
                    # An addition has no more to say, and nobody waits for it.
                    if len(answer) > 1:
                        refused, more, *used = map(int, answer)
                        order.answer = LimitAnswer(int(at_ms) / 1000, refused, more, used)
        finally:
            for order in orders:
                if order.done is not None:
                    order.done.set()
