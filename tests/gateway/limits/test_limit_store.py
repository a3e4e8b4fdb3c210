"""Orders that come together go to the store together."""

from collections.abc import Iterator
from itertools import count

import gevent
import pytest

from gateway.limits import limit_store
from gateway.limits.limit_store import LimitAnswer, LimitStore
from gateway.limits.limits import DAY_S
from gateway.shared_cache import SharedCache
from tests.support.valkey import ValkeyServer
from tests.support.windows import within_one

_names = count()


@pytest.fixture
def hints(valkey: ValkeyServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[SharedCache]:
    """Of a process on an event loop, or one that behaves so."""
    monkeypatch.setattr(limit_store, "under_gevent", lambda: True)
    found = SharedCache(valkey.url, timeout_s=2)
    yield found
    found.close()


def build_order(scope: str, most: int = 5) -> list[tuple[str, int, int, int]]:
    return [(scope, most, DAY_S, 1)]


def let_through(answers: list[LimitAnswer | None]) -> int:
    return sum(answer is not None and not answer.refused for answer in answers)


def test_a_crowd_shares_round_trips_and_each_has_its_own_answer(hints: SharedCache) -> None:
    store = LimitStore(hints)

    def work() -> None:
        scopes = [f"s{next(_names)}" for _ in range(2)]
        asked = [gevent.spawn(store.take, build_order(scopes[n % 2])) for n in range(40)]
        gevent.joinall(asked)
        for scope in range(2):
            answers = [each.value for each in asked[scope::2]]
            assert let_through(answers) == 5
            assert [answer.used[0] for answer in answers[:6]] == [1, 2, 3, 4, 5, 5]

    within_one(DAY_S, work)
    assert hints.calls <= 2 * 3  # NOSCRIPT is an answer too, and a day may end.


def test_who_leaves_keeps_nobody_waiting(hints: SharedCache) -> None:
    store = LimitStore(hints)
    scope = f"s{next(_names)}"
    asked = [gevent.spawn(store.take, build_order(scope, 10)) for _ in range(4)]
    gevent.sleep(0)
    asked[0].kill(block=False)
    asked[2].kill(block=False)

    gevent.joinall(asked, timeout=10)

    assert let_through([asked[1].value, asked[3].value]) == 2
    assert isinstance(store.take(build_order(scope, 10)), LimitAnswer)


def test_what_nobody_waits_for_goes_by_itself(hints: SharedCache) -> None:
    store = LimitStore(hints)

    def work() -> None:
        scope = f"s{next(_names)}"
        taken = store.take(build_order(scope, 1))
        assert taken is not None
        start = int(taken.at_s) // DAY_S * DAY_S
        store.add([(scope, start, -1)])
        calls = hints.calls
        with gevent.Timeout(10):
            while hints.calls == calls:
                gevent.sleep(0)
        assert let_through([store.take(build_order(scope, 1))]) == 1

    within_one(DAY_S, work)


def test_without_an_answer_everybody_knows_at_once(
    hints: SharedCache, valkey: ValkeyServer
) -> None:
    store = LimitStore(hints)
    valkey.stop()

    for _ in range(3):
        asked = [gevent.spawn(store.take, build_order("gone")) for _ in range(8)]
        gevent.joinall(asked, timeout=10)
        assert [each.value for each in asked] == [None] * 8
        assert all(each.ready() for each in asked)
