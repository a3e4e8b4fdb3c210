"""Room held for a moment: by a model, and of processes that share a real store."""

from collections.abc import Callable, Iterator
from itertools import count

import gevent
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from gateway.limits import limit_store
from gateway.limits.limit_leases import LEASE_S, REQUESTS_MAX, REQUESTS_MIN, SHARE, LimitLeases
from gateway.limits.limits import DAY_S, Limit, RateLimiter, WindowsTaken
from gateway.shared_cache import SharedCache
from tests.support.valkey import ValkeyServer
from tests.support.windows import within_one

pytestmark = pytest.mark.thorough

_names = count()
_START = 7 * DAY_S
LARGE = 10**9


class Machine(RuleBasedStateMachine):
    """What is put in is taken, held or given back: nothing is lost, nothing comes of nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.put = self.taken = self.back = 0
        self.due: list[tuple[float, Callable[[], None]]] = []
        self.leases = LimitLeases(self.give_back, later=self.later, clock=lambda: self.now)

    def give_back(self, parts: list[tuple[str, int, int]]) -> None:
        assert all(amount < 0 for _, _, amount in parts)
        self.back -= sum(amount for _, _, amount in parts)

    def later(self, seconds: float, work: Callable[[], None]) -> None:
        self.due.append((self.now + seconds, work))

    @rule(
        scopes=st.lists(st.sampled_from("ab"), min_size=1, max_size=2, unique=True),
        cost=st.integers(1, 4),
        requests=st.integers(1, 5),
        window=st.integers(0, 2),
        at=st.sampled_from([0, DAY_S - 2, DAY_S - 1]),
    )
    def lend(self, scopes: list[str], cost: int, requests: int, window: int, at: int) -> None:
        limits = [Limit(scope, LARGE, DAY_S, cost) for scope in scopes]
        start = _START + window * DAY_S
        self.put += len(limits) * requests * cost
        starts = [start] * len(limits)
        self.leases.put(limits, starts, requests, at_s=start + at, asked_at=self.now)

    @rule(
        scopes=st.lists(st.sampled_from("ab"), min_size=1, max_size=2, unique=True),
        cost=st.integers(1, 4),
    )
    def take(self, scopes: list[str], cost: int) -> None:
        limits = [Limit(scope, LARGE, DAY_S, cost) for scope in scopes]
        held = self.leases.has_room(limits)
        taken = self.leases.take(limits)
        assert held is (taken is not None)
        if taken is not None:
            self.taken += len(limits) * cost

    @rule(scope=st.sampled_from("ab"), amount=st.integers(1, 4), window=st.integers(0, 2))
    def correct(self, scope: str, amount: int, window: int) -> None:
        if self.leases.put_back(scope, _START + window * DAY_S, amount):
            self.put += amount

    @rule(seconds=st.sampled_from([0.0, LEASE_S / 3, LEASE_S, 1.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        ready = [each for each in self.due if each[0] <= self.now]
        self.due = [each for each in self.due if each[0] > self.now]
        for _, work in ready:
            work()

    @invariant()
    def nothing_is_lost(self) -> None:
        assert self.put - self.taken - self.back >= 0

    def teardown(self) -> None:
        self.leases.close()
        assert self.put == self.taken + self.back


TestLeases = Machine.TestCase


def test_room_is_of_one_window_and_what_nobody_needed_goes_back_by_itself() -> None:
    back: list[tuple[str, int, int]] = []
    now, due = [0.0], list[tuple[float, Callable[[], None]]]()
    leases = LimitLeases(back.extend, later=lambda *work: due.append(work), clock=lambda: now[0])
    a, b = Limit("a", LARGE, DAY_S, 3), Limit("b", LARGE, DAY_S, 3)
    leases.put([a], [_START], 1, at_s=_START, asked_at=now[0])
    leases.put([a], [_START], 1, at_s=_START, asked_at=now[0])
    now[0] = LEASE_S / 2
    leases.put([b], [_START], 2, at_s=_START + DAY_S - 2, asked_at=now[0])
    assert [delay_s for delay_s, _ in due] == [LEASE_S]

    # Just what was held, and room of another window is none of this one's.
    assert [leases.take([a]) for _ in range(3)] == [(_START,), (_START,), None]
    assert not leases.put_back("a", _START - DAY_S, 3)
    assert not leases.put_back("c", _START, 3)
    assert leases.put_back("a", _START, 3)
    assert leases.take([a, b]) == (_START, _START)
    assert leases.put_back("a", _START, 2)

    now[0] = LEASE_S
    assert not leases.put_back("a", _START, 3)
    due.pop()[1]()
    assert (back, leases.has_room([b])) == ([("a", _START, -2)], True)
    # A round for the rest, and none for nothing.
    assert [delay_s for delay_s, _ in due] == [LEASE_S]
    now[0] = 2 * LEASE_S
    assert leases.take([b]) is None
    due.pop()[1]()
    assert (back.pop(), due) == (("b", _START, -3), [])

    # The next window's room takes the place of this one's.
    leases.put([a], [_START], 1, at_s=_START, asked_at=now[0])
    next_start = _START + DAY_S
    leases.put([a], [next_start], 1, at_s=next_start, asked_at=now[0])
    assert back.pop() == ("a", _START, -3)
    assert leases.take([a]) == (next_start,)


def test_what_is_held_ends_with_its_window_counted_from_when_it_was_asked() -> None:
    back: list[tuple[str, int, int]] = []
    now, due = [5.0], list[Callable[[], None]]()
    leases = LimitLeases(back.extend, later=lambda _, work: due.append(work), clock=lambda: now[0])
    second, day = Limit("second", LARGE, 1), Limit("day", LARGE, DAY_S)
    # The store gave it a tenth before the second was over, the answer came after another twentieth.
    now[0] = 5.05
    leases.put([second, day], [_START, _START], 16, at_s=_START + 0.9, asked_at=5.0)
    assert leases.take([second, day]) == (_START, _START)
    now[0] = 5.098
    assert leases.take([second]) == (_START,)
    now[0] = 5.1
    assert leases.take([second]) is None
    assert leases.take([day]) == (_START,)
    # A next one takes its place, and what was left of it goes back.
    leases.put([second], [_START + 1], 16, at_s=_START + 1.0, asked_at=5.1)
    assert (back, leases.take([second])) == ([("second", _START, -14)], (_START + 1,))
    now[0] = 5.25
    leases.put([day], [_START], 16, at_s=_START + 1.15, asked_at=5.25)
    assert (back[1:], leases.take([day])) == ([("day", _START, -14)], (_START,))


# --- In a store -----------------------------------------------------------------------------------


@pytest.fixture
def process(
    valkey: ValkeyServer, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[], tuple[RateLimiter, SharedCache]]]:
    """Processes on an event loop, or that behave so; nothing is given back before they end."""
    monkeypatch.setattr(limit_store, "under_gevent", lambda: True)
    opened: list[SharedCache] = []

    def open_process() -> tuple[RateLimiter, SharedCache]:
        opened.append(SharedCache(valkey.url, timeout_s=2))
        return RateLimiter(opened[-1]), opened[-1]

    yield open_process
    for each in opened:
        each.close()


def test_a_busy_key_pays_for_few_round_trips(
    process: Callable[[], tuple[RateLimiter, SharedCache]],
) -> None:
    def work() -> int:
        limits, hints = process()
        limit = Limit(f"s{next(_names)}", LARGE, DAY_S, 5)
        for _ in range(REQUESTS_MAX + 1):
            assert isinstance(limits.take(limit), WindowsTaken)
        return hints.calls

    assert within_one(DAY_S, work) <= 10


def test_of_a_crowd_that_finds_no_room_one_asks_for_all(
    process: Callable[[], tuple[RateLimiter, SharedCache]],
) -> None:
    def work() -> None:
        limits, _ = process()
        limit = Limit(f"s{next(_names)}", LARGE, DAY_S)
        assert isinstance(limits.take(limit), WindowsTaken)
        limits.close()
        crowd = [gevent.spawn(limits.take, limit) for _ in range(40)]
        gevent.joinall(crowd, timeout=10)
        assert all(isinstance(each.value, WindowsTaken) for each in crowd)
        assert limits.read_used(limit) == 1 + 1 + REQUESTS_MAX

    within_one(DAY_S, work)


def test_never_more_than_the_limit_and_all_of_it(
    process: Callable[[], tuple[RateLimiter, SharedCache]],
) -> None:
    most = SHARE * REQUESTS_MIN + 40

    def let_through(each: RateLimiter, limit: Limit) -> int:
        return sum(isinstance(each.take(limit), WindowsTaken) for _ in range(most))

    def work() -> None:
        (first, _), (second, _) = process(), process()
        limit = Limit(f"s{next(_names)}", most, DAY_S)
        assert isinstance(first.take(limit), WindowsTaken)
        others = let_through(second, limit)
        assert most - 1 - REQUESTS_MAX <= others < most - 1
        first.close()
        assert others + let_through(second, limit) == most - 1

    within_one(DAY_S, work)


def test_corrections_stay_with_what_is_held(
    process: Callable[[], tuple[RateLimiter, SharedCache]],
) -> None:
    def work() -> None:
        limits, hints = process()
        limit = Limit(f"s{next(_names)}", LARGE, DAY_S, 100)
        for _ in range(20):
            taken = limits.take(limit)
            assert isinstance(taken, WindowsTaken)
            limits.add(taken, [-90])
        calls = hints.calls
        gevent.sleep(0)
        limits.close()
        assert hints.calls == calls + 1
        used = limits.take(Limit(limit.scope, 201, DAY_S, 2))
        assert not isinstance(used, WindowsTaken)
        assert used.used == 200

    within_one(DAY_S, work)
