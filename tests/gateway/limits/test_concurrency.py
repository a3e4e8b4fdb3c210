"""Requests under way, counted by two processes on a real store, and without one."""

from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
import redis

from gateway.limits.concurrency import LEASE_S, SPARE_S, Bound, ConcurrencyLimiter
from gateway.shared_cache import SharedCache, cache_key
from tests.support.valkey import ValkeyServer

_names = count()


class Process(ConcurrencyLimiter):
    """What it wants done later is done when the test says so."""

    def __init__(self, url: str) -> None:
        self.due: list[Callable[[], None]] = []
        self.now = 0.0
        self.hints = SharedCache(url, timeout_s=2)

        def later(_: float, work: Callable[[], None]) -> None:
            self.due.append(work)

        super().__init__(self.hints, later=later, clock=lambda: self.now)

    def pass_time(self) -> None:
        due, self.due = self.due, []
        for work in due:
            work()


@pytest.fixture
def new_bound() -> Bound:
    return Bound(f"s{next(_names)}", 3)


def test_two_processes_count_together(valkey: ValkeyServer, new_bound: Bound) -> None:
    one, two = Process(valkey.url), Process(valkey.url)
    first, second = one.take([new_bound]), two.take([new_bound])
    assert isinstance(first, list)
    assert isinstance(second, list)
    assert isinstance(one.take([new_bound]), list)
    assert (one.take([new_bound]), two.take([new_bound])) == (new_bound, new_bound)

    one.give_back(first)
    one.give_back(first)
    one.pass_time()
    assert isinstance(two.take([new_bound]), list)
    assert two.take([new_bound]) == new_bound


def test_a_place_serves_the_next_request_of_its_process_for_a_moment(
    valkey: ValkeyServer, new_bound: Bound
) -> None:
    wide = new_bound._replace(most=16)
    one, two = Process(valkey.url), Process(valkey.url)
    earlier = one.take([wide])
    assert isinstance(earlier, list)
    for _ in range(wide.most - 1):
        assert isinstance(two.take([wide]), list)
    one.give_back(earlier)
    one.pass_time()
    assert two.take([wide]) == wide
    later = one.take([wide])
    assert isinstance(later, list)
    one.give_back(earlier)  # The place is another request's now.
    assert (one.count_own(wide.scope), one.take([wide])) == (1, wide)

    one.now = SPARE_S
    one.give_back(later)
    one.pass_time()
    assert [isinstance(two.take([wide]), list) for _ in range(2)] == [True, False]

    one.close()
    two.close()
    taken = [one.take([wide]) for _ in range(wide.most)]
    first, last = taken[0], taken[-1]
    assert isinstance(first, list)
    assert isinstance(last, list)
    one.give_back(last)  # Nobody keeps a place where half of them are taken.
    one.pass_time()
    assert [isinstance(two.take([wide]), list) for _ in range(2)] == [True, False]
    one.give_back(first)
    one.now += SPARE_S
    assert [isinstance(one.take([wide]), list) for _ in range(2)] == [True, False]


@pytest.mark.parametrize("forgets", [False, True])
def test_a_word_of_the_store_is_good_for_all_places_unless_it_forgot_some(
    valkey: ValkeyServer, new_bound: Bound, forgets: bool
) -> None:
    wide = new_bound._replace(most=64)
    one = Process(valkey.url)
    first = one.take([wide])
    assert isinstance(first, list)
    one.now = SPARE_S / 2
    if forgets:
        redis.Redis.from_url(valkey.url).flushdb()
    one.take([wide])
    one.now = SPARE_S
    one.give_back(first)
    calls = one.hints.calls
    assert isinstance(one.take([wide]), list)
    assert (one.hints.calls > calls) is forgets


def test_of_several_bounds_none_is_taken_where_one_is_reached(
    valkey: ValkeyServer, new_bound: Bound
) -> None:
    one = Process(valkey.url)
    narrow = Bound(f"{new_bound.scope}-narrow", 1)
    assert isinstance(one.take([narrow]), list)
    for _ in range(2 * new_bound.most):
        assert one.take([new_bound, narrow]) == narrow
        assert Process(valkey.url).take([new_bound, narrow]) == narrow
    assert [isinstance(one.take([new_bound]), list) for _ in range(4)] == [True] * 3 + [False]


def test_places_of_a_process_that_died_end_and_others_are_renewed(
    valkey: ValkeyServer, new_bound: Bound
) -> None:
    living, dead = Process(valkey.url), Process(valkey.url)
    for process in (living, dead, dead):
        assert isinstance(process.take([new_bound]), list)
    client = redis.Redis.from_url(valkey.url)
    name = f"{cache_key('places')}:{new_bound.scope}"
    # As it is when a lease has passed.
    members: Any = client.zrange(name, 0, -1, withscores=True)
    for member, end in members:
        client.zadd(name, {member: end - LEASE_S - 1})
    living.pass_time()
    assert [isinstance(living.take([new_bound]), list) for _ in range(3)] == [True, True, False]


def test_a_store_that_forgot_is_told_again(valkey: ValkeyServer, new_bound: Bound) -> None:
    one, two = Process(valkey.url), Process(valkey.url)
    for _ in range(new_bound.most):
        one.take([new_bound])
    redis.Redis.from_url(valkey.url).flushdb()
    one.pass_time()
    assert two.take([new_bound]) == new_bound


def test_without_a_store_each_process_counts_for_itself(new_bound: Bound) -> None:
    one = Process("")
    places = [one.take([new_bound]) for _ in range(new_bound.most)]
    assert one.take([new_bound]) == new_bound
    assert isinstance(places[0], list)
    one.give_back(places[0])
    assert isinstance(one.take([new_bound]), list)
    assert isinstance(Process("").take([new_bound]), list)
