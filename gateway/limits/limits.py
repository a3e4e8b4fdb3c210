"""Rate limits: so many in each fixed window of UTC, counted in the shared cache.

One script takes from all the limits of a request or from none, by the store's own clock: exact
across processes and nodes. Of large limits a process holds a little for a moment. While the store
does not answer each process counts for itself, from the store's last word on. So there is always a
limit.
"""

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import cache
from typing import Final, NamedTuple, TypeVar

from gevent.event import Event

from gateway.eventloop import run_later
from gateway.http.errors import RateLimited
from gateway.limits.limit_leases import LimitLeases
from gateway.limits.limit_store import LimitAnswer, LimitStore
from gateway.shared_cache import SharedCache, shared_cache

T = TypeVar("T")
# A scope, or all those of a request.
Name = TypeVar("Name", str, tuple[str, ...])
MINUTE_S: Final = 60
DAY_S: Final = 86_400
# Of scopes that this process remembers; the longest unused goes first.
_SCOPES_MAX: Final = 20_000
# Of the scopes of whole requests, which are some hundred names each where rules are many.
_REQUESTS_MAX: Final = 1_000
_RECALL_S: Final = 1.0


class Limit(NamedTuple):
    """At most `most` in a window, of which `cost` are asked for.

    `scope` says whose and of what. Windows of `window_s` begin at multiples of it since 1970, which
    makes minutes and days those of UTC. One that counts no requests `counts_tokens`.
    """

    scope: str
    most: int
    window_s: int
    cost: int = 1
    counts_tokens: bool = False


class WindowsTaken(NamedTuple):
    """The limits that a request was taken from, and when the window of each began (Unix seconds).
    The store knows nothing of one that `is_local`."""

    limits: tuple[Limit, ...]
    starts: tuple[int, ...]
    is_local: bool = False


class Exceeded(NamedTuple):
    """The limit that is used up, how much of it was, and the Unix time of the refusal."""

    limit: Limit
    used: int
    at_s: float

    @property
    def reset_s(self) -> int:
        return find_window_start(self.at_s, self.limit.window_s) + self.limit.window_s


class RemainingLimit(NamedTuple):
    """How much is left of a limit, until the Unix time at which its window ends."""

    left: int
    limit: Limit
    reset_s: int


class WindowCount(NamedTuple):
    """So many in the window that began then."""

    start: int
    used: int


def find_window_start(at_s: float, window_s: int) -> int:
    """When the window of that moment began, in Unix seconds."""
    return math.floor(at_s) // window_s * window_s


def count_at(count: WindowCount | None, at_s: float, window_s: int) -> WindowCount:
    """The count as it stands at that moment: nothing of an earlier window is left."""
    start = find_window_start(at_s, window_s)
    return count if count is not None and count.start == start else WindowCount(start, 0)


class RateLimiter:
    """One process's way to the counters. `clock` gives Unix seconds; the store has its own."""

    def __init__(self, store: SharedCache, *, clock: Callable[[], float] = time.time) -> None:
        self._store = LimitStore(store)
        self._clock = clock
        self._counts: OrderedDict[str, WindowCount] = OrderedDict()
        # When each scope was last refused, and how much of it was used.
        self._refused: OrderedDict[str, tuple[float, int]] = OrderedDict()
        self._leases = LimitLeases(self._store.add, later=run_later)
        # By scopes, of which the store last gave room for more requests: who asks for it now.
        self._asking: OrderedDict[tuple[str, ...], Event | None] = OrderedDict()

    def take(self, *limits: Limit) -> WindowsTaken | Exceeded:
        """Take from all of them, or from none where one is used up."""
        starts = self._leases.take(limits)
        if starts is not None:
            return WindowsTaken(limits, starts)
        scopes = tuple(each.scope for each in limits)
        if scopes not in self._asking:
            return self._ask(scopes, limits)
        if (asking := self._asking[scopes]) is not None:
            # Of a crowd one asks for all.
            asking.wait()
            starts = self._leases.take(limits)
            return self._ask(scopes, limits) if starts is None else WindowsTaken(limits, starts)
        event = Event()
        _keep(self._asking, scopes, event, _REQUESTS_MAX)
        try:
            return self._ask(scopes, limits)
        finally:
            event.set()
            if self._asking.get(scopes) is event:
                self._asking[scopes] = None

    def _ask(self, scopes: tuple[str, ...], limits: tuple[Limit, ...]) -> WindowsTaken | Exceeded:
        asked_at = self._leases.clock()
        answer = self._store.take(limits)
        taken = self._apply_answer(limits, answer) if answer else self._take_locally(limits)
        if answer is None or not answer.more:
            self._asking.pop(scopes, None)
        elif isinstance(taken, WindowsTaken):
            more, at_s = answer.more, answer.at_s
            self._leases.put(limits, taken.starts, more, at_s=at_s, asked_at=asked_at)
            if scopes not in self._asking:
                _keep(self._asking, scopes, None, _REQUESTS_MAX)
        if isinstance(taken, Exceeded):
            _keep(self._refused, taken.limit.scope, (self._clock(), taken.used))
        return taken

    def find_exceeded(self, *limits: Limit) -> Exceeded | None:
        """What `take` would be refused with now. Takes nothing, not even for a moment."""
        if self._leases.has_room(limits):
            return None
        # What it costs fits as long as no more is used than would be left of the limit without it.
        without_cost = tuple(each._replace(most=each.most - each.cost, cost=0) for each in limits)
        answer = self._store.look(without_cost)
        found = (
            self._apply_answer(without_cost, answer) if answer else self._take_locally(without_cost)
        )
        if isinstance(found, WindowsTaken):
            return None
        return found._replace(limit=limits[without_cost.index(found.limit)])

    def recall_exceeded(self, limit: Limit) -> Exceeded | None:
        """What `take` was refused with less than a second ago, in the window of this moment.

        A flood of refusals then costs the store a look a second. Somebody may have given back
        since, so that what is not to be refused for nothing asks `take` at once.
        """
        if (refused := self._refused.get(limit.scope)) is None:
            return None
        now, (refused_at, used) = self._clock(), refused
        if not refused_at <= now < refused_at + _RECALL_S:
            return None
        start = find_window_start(now, limit.window_s)
        return Exceeded(limit, used, now) if start <= refused_at else None

    def read_used(self, limit: Limit) -> int:
        """How much of it is used in the window of this moment. What a process holds for a moment
        counts; without the store it is what this process knows."""
        answer = self._store.look([limit._replace(cost=0)])
        if answer is not None:
            return answer.used[0]
        return count_at(self._counts.get(limit.scope), self._clock(), limit.window_s).used

    def find_tightest(self, limits: Sequence[Limit]) -> RemainingLimit:
        """Of which of them the least is left, as far as this process knows."""
        now = math.floor(self._clock())
        found: RemainingLimit | None = None
        for limit in limits:
            count = self._counts.get(limit.scope)
            start = now - now % limit.window_s
            left = limit.most - (count.used if count is not None and count.start == start else 0)
            if found is None or left < found.left:
                found = RemainingLimit(left, limit, start + limit.window_s)
        assert found is not None, "of no limits none is the tightest"
        return found if found.left >= 0 else found._replace(left=0)

    def add(self, taken: WindowsTaken, amounts: Sequence[int]) -> None:
        """Add to what is used of each limit that was taken from; less than zero gives back. Of a
        window that is over nothing is to be corrected. Nobody waits for it."""
        if not any(amounts):
            return
        put_back = self._leases.put_back
        parts = [
            (limit.scope, start, amount)
            for limit, start, amount in zip(taken.limits, taken.starts, amounts, strict=True)
            if amount
            and not (amount < 0 and not taken.is_local and put_back(limit.scope, start, -amount))
        ]
        # What the store never counted would be taken off the uses of others there.
        if parts and not taken.is_local:
            self._store.add(parts)
        for scope, start, amount in parts:
            count = self._counts.get(scope)
            if count is not None and count.start == start:
                self._note(scope, WindowCount(start, max(0, count.used + amount)))

    def give_back(self, taken: WindowsTaken) -> None:
        """Undo a `take`."""
        self.add(taken, [-limit.cost for limit in taken.limits])

    def close(self) -> None:
        """Give back what is held of any limit, and wait until the store has it."""
        self._leases.close()
        self._store.flush()

    def _apply_answer(
        self, limits: tuple[Limit, ...], answer: LimitAnswer
    ) -> WindowsTaken | Exceeded:
        """What the store says, remembered for when it says nothing."""
        starts = tuple(find_window_start(answer.at_s, limit.window_s) for limit in limits)
        for limit, start, used in zip(limits, starts, answer.used, strict=True):
            self._note(limit.scope, WindowCount(start, used))
        if answer.refused:
            at = answer.refused - 1
            return Exceeded(limits[at], answer.used[at], answer.at_s)
        return WindowsTaken(limits, starts)

    def _take_locally(self, limits: tuple[Limit, ...]) -> WindowsTaken | Exceeded:
        now = self._clock()
        counts = [count_at(self._counts.get(each.scope), now, each.window_s) for each in limits]
        for limit, count in zip(limits, counts, strict=True):
            if count.used + limit.cost > limit.most:
                return Exceeded(limit, count.used, now)
        for limit, count in zip(limits, counts, strict=True):
            self._note(limit.scope, WindowCount(count.start, count.used + limit.cost))
        return WindowsTaken(limits, tuple(count.start for count in counts), is_local=True)

    def _note(self, scope: str, count: WindowCount) -> None:
        _keep(self._counts, scope, count)


def _keep(kept: OrderedDict[Name, T], scope: Name, value: T, most: int | None = None) -> None:
    kept[scope] = value
    kept.move_to_end(scope)
    if len(kept) > (_SCOPES_MAX if most is None else most):
        kept.popitem(last=False)


def build_refusal(exceeded: Exceeded, *, source: str, message: str | None = None) -> RateLimited:
    """The 429 for it; `source` becomes `limit_source`."""
    reset_s = exceeded.reset_s
    headers = {
        "X-RateLimit-Limit": str(exceeded.limit.most),
        "X-RateLimit-Remaining": "0",
        "X-RateLimit-Reset": str(reset_s * 1000),
    }
    retry_after_s = max(1, math.ceil(reset_s - exceeded.at_s))
    return RateLimited(
        message,
        metadata={"headers": headers, "limit_source": source},
        headers={**headers, "Retry-After": str(retry_after_s)},
    )


@cache
def rate_limiter() -> RateLimiter:
    """This process's own."""
    return RateLimiter(shared_cache())
