"""Half an hour and a day of what endpoints did, left in the shared cache for processes to come."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from gateway.shared_cache import SharedCache
from routing.selection.measurements.endpoint_counter import EndpointCounter
from routing.selection.measurements.window import PIECE_ENDPOINTS
from routing.statistics import long_windows
from routing.statistics.long_windows import (
    LIMIT_S,
    Head,
    LongWindows,
    head_key,
    place_key,
    read_head,
    serialize_head,
)
from routing.statistics.observation import Observer
from routing.statistics.peer_sync import LONG_EVERY_S
from routing.statistics.stream_format import stream_key
from tests.routing.serving.learning import Clock, observer, refresh_all
from tests.support.turns import stretches_of

pytestmark = pytest.mark.thorough

BUSY = 5 * PIECE_ENDPOINTS


@pytest.fixture
def read_left_head(client) -> Callable[[], Head]:
    """What processes left."""
    return lambda: read_head(client.get(head_key()))


@pytest.fixture
def former_process(start, one) -> Any:
    """A process that has told of ten answers."""
    found = start()
    found.answers(one, 10)
    found.sync()
    return found


def test_they_are_left_for_those_to_come(start, clock, one, client, read_left_head) -> None:
    former_process = start()
    former_process.answers(one, 10)
    former_process.fails(one)
    former_process.sync()
    clock.now += LONG_EVERY_S
    former_process.sync()
    assert read_left_head().pieces == 2
    assert client.ttl(head_key()) > 0
    assert client.ttl(place_key(read_left_head().place)) > 0
    client.delete(stream_key())

    after = start()
    after.sync()

    assert after.figures(one).uptime_1d == former_process.figures(one).uptime_1d
    assert after.figures(one).uptime_1d == pytest.approx(100 * 10 / 11)


def test_what_is_in_them_is_not_counted_again(start, clock, one, former_process) -> None:
    clock.now += LONG_EVERY_S
    former_process.sync()
    former_process.answers(one, 5)
    former_process.fails(one)
    former_process.sync()

    after = start()
    after.sync()

    assert after.seen.day.totals[one.pk].calls == 16
    assert after.seen.recent.totals[one.pk].calls == 16


def test_the_place_that_others_may_be_reading_is_left_alone(
    clock, one, client, former_process, read_left_head
) -> None:
    places = [read_left_head().place]
    for _ in range(3):
        clock.now += LONG_EVERY_S
        client.delete(*client.keys("gateway:*:turn"))
        former_process.answers(one, 10)
        former_process.sync()
        places.append(read_left_head().place)
    assert places == [0, 1, 0, 1]


def test_what_is_there_in_part_is_not_taken(
    start, one, client, former_process, read_left_head
) -> None:
    client.rpop(place_key(read_left_head().place))
    after = start()
    assert after.sync()
    # The stream_key still has all of it, and it is counted once.
    assert after.seen.day.totals[one.pk].calls == 10


GOOD = serialize_head(Head("1-0", 1, 0, 1))
ODD = [
    *(b"", b"\xff", b"[]", b'{"v": 1}', b'{"v": 2}'),
    serialize_head(Head("1-0", 1, 2, 1)),
    serialize_head(Head("1-0", 1, 0, -1)),
    serialize_head(Head("1-0", 1, 0, 10**9)),
    GOOD[:-2] + b'"1"}',
    GOOD.replace(b'"1-0"', b"1"),
]
# What the JSON reader says, and what we say.
WRONG = "JSON|Input|input|character|version|head|str is not"


@pytest.mark.parametrize("odd", ODD)
def test_a_head_that_is_none_is_told_apart(odd: bytes) -> None:
    with pytest.raises(ValueError, match=WRONG):
        read_head(odd)


@pytest.mark.parametrize("odd", [b"", b"0", b"0 1 nothing", b"7 0 x", b"x 0 x", b"0 x x"])
def test_pieces_that_nobody_wrote_are_passed_over(
    start, one, client, former_process, odd: bytes
) -> None:
    client.rpush(place_key(0), odd)
    client.set(head_key(), serialize_head(Head("1-0", 1, 0, 3)))
    after = start()
    assert after.sync()
    assert after.figures(one).calls == 10


# --- Of many busy endpoints -----------------------------------------------------------------------


def busy(clock: Clock) -> Observer:
    """All of many endpoints answered in every slice, each at a pace of its own."""
    seen = observer(clock)
    for slices, window in ((6, seen.half_hour), (24, seen.day)):
        for ago in range(slices):
            bare = window is seen.day
            pairs = [(endpoint, tally(endpoint, bare=bare)) for endpoint in range(1, BUSY + 1)]
            window.add(window.number_at(clock.now) - ago, pairs)
    refresh_all(seen)
    return seen


def tally(endpoint: int, *, bare: bool) -> EndpointCounter:
    made = EndpointCounter()
    for n in range(1 if bare else 4):
        made.count_answer(
            0.1 + (endpoint + n) % 97 / 50, streamed=True, speed_tps=20 + n * endpoint % 89
        )
    return made.calls_only() if bare else made


def test_many_busy_endpoints_come_over_in_pieces(valkey, read_left_head, monkeypatch) -> None:
    turns = stretches_of(long_windows, monkeypatch, clock=time.thread_time)
    clock, store = Clock(time.monotonic()), SharedCache(valkey.url, timeout_s=LIMIT_S)
    former_process, after = busy(clock), observer(clock)

    assert LongWindows(former_process, store, clock=clock).publish(entry_id="1-0", at_ms=1)
    assert LongWindows(after, store, clock=clock).load(read_left_head(), then=clock.now)

    store.close()
    # Others have their turn after each piece of each slice, there and back.
    assert len(turns) >= 2 * 30 * BUSY // PIECE_ENDPOINTS
    for window, other in (
        (former_process.half_hour, after.half_hour),
        (former_process.day, after.day),
    ):
        assert window.totals.keys() == other.totals.keys()
        for endpoint in (1, BUSY // 2, BUSY):
            packed = window.totals[endpoint].serialize(endpoint)
            assert other.totals[endpoint].serialize(endpoint)[:6] == packed[:6]
