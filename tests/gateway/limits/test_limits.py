"""Counting in windows: by a ten-line model, on a clock of the tests' own, and in a real store."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import count

import pytest
import redis
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, multiple, rule

from gateway.limits.limits import (
    DAY_S,
    MINUTE_S,
    Exceeded,
    Limit,
    RateLimiter,
    WindowCount,
    WindowsTaken,
    build_refusal,
    count_at,
    find_window_start,
)
from gateway.shared_cache import SharedCache
from tests.support.valkey import ValkeyServer
from tests.support.windows import within_one

MOMENTS = st.floats(0, 4e9)
SIZES = st.sampled_from([1, MINUTE_S, DAY_S])
NOWHERE = SharedCache("", timeout_s=0.1)


@given(MOMENTS, MOMENTS, SIZES, st.integers(0, 10**9))
def test_a_count_holds_for_its_window_alone_which_began_last(
    then_s: float, now_s: float, window_s: int, used: int
) -> None:
    start = find_window_start(now_s, window_s)
    assert start <= now_s < start + window_s
    assert start % window_s == 0

    seen = count_at(WindowCount(find_window_start(then_s, window_s), used), now_s, window_s)

    same = then_s // window_s == now_s // window_s
    assert seen == WindowCount(start, used if same else 0)


@dataclass
class Model:
    """What may be taken, in as few words as possible."""

    used: dict[tuple[str, int], int] = field(default_factory=dict)

    def take(self, limits: list[Limit], now: float) -> bool:
        places = [(each.scope, int(now // each.window_s)) for each in limits]
        used = [self.used.get(place, 0) for place in places]
        fits = all(u + each.cost <= each.most for u, each in zip(used, limits, strict=True))
        if fits:
            for place, before, each in zip(places, used, limits, strict=True):
                self.used[place] = before + each.cost
        return fits


class Machine(RuleBasedStateMachine):
    """Limits that count here, beside the model. Time only goes forward."""

    taken = Bundle("taken")

    def __init__(self) -> None:
        super().__init__()
        self.now = 1_000_000.0
        self.limits = RateLimiter(NOWHERE, clock=lambda: self.now)
        self.model = Model()

    @rule(seconds=st.floats(0, 100_000))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule(
        target=taken,
        scopes=st.lists(st.sampled_from("abc"), min_size=1, max_size=3, unique=True),
        cost=st.integers(1, 4),
    )
    def take(self, scopes: list[str], cost: int) -> object:
        sizes = {"a": MINUTE_S, "b": DAY_S, "c": 1}
        limits = [Limit(scope, 5, sizes[scope], cost) for scope in scopes]
        for each in limits:
            place = each.scope, int(self.now // each.window_s)
            assert self.limits.read_used(each) == self.model.used.get(place, 0)
        foreseen = self.limits.find_exceeded(*limits)
        found = self.limits.take(*limits)
        assert foreseen == (found if isinstance(found, Exceeded) else None)
        assert isinstance(found, WindowsTaken) is self.model.take(limits, self.now)
        if isinstance(found, WindowsTaken):
            return found
        assert found.reset_s > self.now
        assert found.used + cost > 5
        return multiple()

    @rule(what=taken, back=st.integers(0, 4), way=st.sampled_from(["add", "give back"]))
    def correct(self, what: WindowsTaken, back: int, way: str) -> None:
        amounts = [-min(back, each.cost) for each in what.limits]
        if way == "add":
            self.limits.add(what, amounts)
        else:
            amounts = [-each.cost for each in what.limits]
            self.limits.give_back(what)
        for limit, start, amount in zip(what.limits, what.starts, amounts, strict=True):
            place = (limit.scope, start // limit.window_s)
            # Only the window that a scope is in now is remembered.
            newest = max(at for scope, at in self.model.used if scope == limit.scope)
            if place[1] == newest:
                self.model.used[place] = max(0, self.model.used[place] + amount)


TestCountingHere = Machine.TestCase


def test_of_many_scopes_the_longest_unused_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.limits.limits._SCOPES_MAX", 2)
    limiter = RateLimiter(NOWHERE, clock=lambda: 1_000_000.0)

    def take(*scopes: str) -> list[int]:
        for scope in scopes:
            limiter.take(Limit(scope, 5, DAY_S))
        return [limiter.read_used(Limit(scope, 5, DAY_S)) for scope in "abc"]

    assert take("a", "b") == [1, 1, 0]
    assert take("a", "c") == [2, 0, 1]


def test_a_refusal_is_recalled_for_a_second_of_its_window() -> None:
    clock = [MINUTE_S * 7 + 10.0]
    limits, limit = RateLimiter(NOWHERE, clock=lambda: clock[0]), Limit("x", 1, MINUTE_S)

    def recall_at(at_s: float) -> bool:
        clock[0] = MINUTE_S * 7 + at_s
        return limits.recall_exceeded(limit) is not None

    assert isinstance(limits.take(limit), WindowsTaken)
    assert not recall_at(10), "it was not refused yet"
    refused = limits.take(limit)
    assert isinstance(refused, Exceeded)
    assert limits.recall_exceeded(limit) == refused
    assert [recall_at(at_s) for at_s in (9, 10.9, 11)] == [False, True, False]
    clock[0] = MINUTE_S * 8 - 0.5
    assert isinstance(limits.take(limit), Exceeded)
    assert [recall_at(at_s) for at_s in (59.9, 60)] == [True, False]
    assert isinstance(limits.take(limit), WindowsTaken)
    assert isinstance(limits.take(limit), Exceeded)
    assert recall_at(60.5)


def test_a_refusal_says_when_to_come_back_and_never_at_once() -> None:
    exceeded = Exceeded(Limit("x", 50, DAY_S), used=50, at_s=DAY_S * 20_000 + 10.5)

    error = build_refusal(exceeded, source="router_free_tier_daily", message="Too many")

    reset = str(DAY_S * 20_001 * 1000)
    shown = {"X-RateLimit-Limit": "50", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": reset}
    assert error.headers == shown | {"Retry-After": str(DAY_S - 10)}
    metadata = {"error_type": "rate_limit_exceeded", "limit_source": "router_free_tier_daily"}
    told = {"code": 429, "message": "Too many", "metadata": metadata | {"headers": shown}}
    assert error.body() == told
    nearly = Exceeded(Limit("x", 1, MINUTE_S), used=1, at_s=MINUTE_S * 7 - 0.001)
    assert build_refusal(nearly, source="s").headers["Retry-After"] == "1"


# --- In a store -----------------------------------------------------------------------------------

_names = count()


@pytest.fixture
def counters(valkey: ValkeyServer) -> Iterator[Callable[[], RateLimiter]]:
    """Processes that share a store."""
    opened: list[SharedCache] = []

    def open_limiter() -> RateLimiter:
        opened.append(SharedCache(valkey.url, timeout_s=2))
        return RateLimiter(opened[-1])

    yield open_limiter
    for each in opened:
        each.close()


def can_take(
    limits: RateLimiter, most: int, scope: str, *, cost: int = 1, window_s: int = DAY_S
) -> bool:
    return isinstance(limits.take(Limit(scope, most, window_s, cost)), WindowsTaken)


def test_processes_count_together(counters: Callable[[], RateLimiter]) -> None:
    here, there = counters(), counters()

    def work() -> None:
        limit = Limit(f"s{next(_names)}", 3, DAY_S)
        assert there.read_used(limit) == 0
        assert isinstance(
            here.take(limit, limit._replace(scope=f"{limit.scope}-other")), WindowsTaken
        )
        assert (here.read_used(limit), there.read_used(limit._replace(most=1))) == (1, 1)
        found = [can_take(each, 3, limit.scope) for each in (there, here, there, here)]
        assert found == [True, True, False, False]

    within_one(DAY_S, work)


def test_a_crowd_gets_exactly_what_there_is(counters: Callable[[], RateLimiter]) -> None:
    processes = [counters() for _ in range(4)]

    def work() -> int:
        scope = f"s{next(_names)}"
        with ThreadPoolExecutor(16) as pool:
            return sum(pool.map(lambda n: can_take(processes[n % 4], 50, scope), range(200)))

    assert within_one(MINUTE_S, work) == 50


def test_all_limits_or_none_and_looking_takes_nothing(counters: Callable[[], RateLimiter]) -> None:
    here, there = counters(), counters()

    def work() -> None:
        scope = f"s{next(_names)}"
        wide, narrow = Limit(f"{scope}-wide", 10, DAY_S), Limit(f"{scope}-narrow", 5, MINUTE_S, 3)
        assert [here.find_exceeded(wide, narrow) for _ in range(20)] == [None] * 20
        assert isinstance(there.take(wide, narrow), WindowsTaken)
        for refused in (here.find_exceeded(wide, narrow), here.take(wide, narrow)):
            assert isinstance(refused, Exceeded)
            assert (refused.limit, refused.used) == (narrow, 3)
        # Nothing was counted of either: nine and two are left.
        rest = wide._replace(cost=9), narrow._replace(cost=2)
        assert here.find_exceeded(*rest) is None
        assert isinstance(there.take(*rest), WindowsTaken)
        assert isinstance(there.take(wide), Exceeded)

    within_one(MINUTE_S, work)


def test_what_is_corrected_may_be_taken_again(counters: Callable[[], RateLimiter]) -> None:
    here, there = counters(), counters()

    def work() -> None:
        limit = Limit(f"s{next(_names)}", 100, MINUTE_S, 80)
        reserved = here.take(limit)
        assert isinstance(reserved, WindowsTaken)
        assert isinstance(there.take(limit), Exceeded)
        here.add(reserved, [-70])
        assert isinstance(there.take(limit), WindowsTaken)
        # More than was reserved counts as well.
        here.add(reserved, [20])
        assert isinstance(there.take(limit._replace(cost=1)), Exceeded)

    within_one(MINUTE_S, work)


def test_a_window_that_is_over_is_not_corrected(counters: Callable[[], RateLimiter]) -> None:
    limits = counters()
    second = Limit(f"s{next(_names)}", 1, 1)
    first = limits.take(second)
    assert isinstance(first, WindowsTaken)
    # Until the store's clock has gone on by a second.
    until = time.monotonic() + 5
    while not isinstance(again := limits.take(second), WindowsTaken) and time.monotonic() < until:
        pass
    assert isinstance(again, WindowsTaken)
    assert again.starts > first.starts

    limits.add(first, [-1])

    refused = limits.take(second)
    assert isinstance(refused, Exceeded) or refused.starts > again.starts


def test_without_the_store_a_process_counts_on(
    valkey: ValkeyServer, counters: Callable[[], RateLimiter]
) -> None:
    here, there = counters(), counters()

    def work() -> None:
        scope = f"s{next(_names)}"
        assert [can_take(each, 5, scope) for each in (here, there, here)] == [True] * 3
        valkey.stop()
        # `here` was told of three, `there` of two.
        assert [can_take(here, 5, scope) for _ in range(4)] == [True, True, False, False]
        assert [can_take(there, 5, scope) for _ in range(4)] == [True, True, True, False]
        valkey.start()

    within_one(DAY_S, work)


def test_what_the_store_never_counted_is_not_taken_off_there(
    valkey: ValkeyServer, counters: Callable[[], RateLimiter]
) -> None:
    here, there = counters(), counters()

    def work() -> None:
        limit = Limit(f"s{next(_names)}", 100, DAY_S, 80)
        valkey.stop()
        reserved = here.take(limit)
        assert isinstance(reserved, WindowsTaken)
        valkey.start()
        until = time.monotonic() + 10
        while there.read_used(limit) == 0 and time.monotonic() < until:
            there.take(limit)
        here.add(reserved, [-70])
        here.close()
        assert there.read_used(limit) == 80

    within_one(DAY_S, work)


def test_counters_end_with_their_windows(
    valkey: ValkeyServer, counters: Callable[[], RateLimiter]
) -> None:
    limits = counters()
    assert can_take(limits, 1, "ends")
    with redis.Redis.from_url(valkey.url) as client:
        (name,) = client.scan_iter("*limit:ends")
        assert 0 < client.ttl(name) <= DAY_S + 1
    valkey.flush()
    assert can_take(limits, 1, "ends")
