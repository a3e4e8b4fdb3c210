"""Processes tell each other what they have seen, through a real hint store that may go."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
import redis

from gateway.hints import Hints
from routing.catalogue.entries import EndpointEntry
from routing.selection.ask import Figures
from routing.selection.health import EndpointHealth
from routing.serving.observing import Observer
from routing.serving.shared_form import VERSION, entry_json, read_entry, read_long, stream
from routing.serving.sharing import LONG_EVERY_S, Sharing, long_key, probe_key
from tests.routing.serving.learning import (
    FAILURE,
    LIMITED,
    Clock,
    attempt,
    figures,
    observer,
    refreshed,
    some_endpoint,
)
from tests.support.valkey import ValkeyServer


class Process:
    """One web process's statistics, health and part in sharing."""

    def __init__(self, url: str, clock: Clock) -> None:
        self.clock = clock
        self.seen: Observer = observer(clock, collects=True)
        self.health = EndpointHealth(window_s=30, probe_s=10)
        self.hints = Hints(url, timeout_s=0.1)
        self.sharing = Sharing(self.seen, self.health, self.hints, clock=clock)

    def sync(self) -> bool:
        refreshed(self.seen)
        done = self.sharing.sync()
        refreshed(self.seen)
        return done

    def answers(self, at: EndpointEntry, count: int = 10) -> None:
        for _ in range(count):
            self.health.succeeded(at.pk)
            self.seen.observed(attempt(self.clock, at), streamed=True, tokens=50)

    def fails(self, at: EndpointEntry, failure: Any = FAILURE) -> None:
        """As `Attempts.failed` does it."""
        if failure.parked:
            self.health.parked(at.pk, self.clock.now, hint_s=10)
        else:
            self.health.failed(at.pk, self.clock.now)
        self.seen.observed(attempt(self.clock, at, failure=failure), streamed=True)

    def figures(self, at: EndpointEntry) -> Figures:
        return figures(self.seen, at)

    def unstable(self, at: EndpointEntry) -> bool:
        return at.pk in self.health.standing(self.clock.now).unstable


Start = Callable[[], Process]


@pytest.fixture
def valkey(tmp_path: Path) -> Iterator[ValkeyServer]:
    server = ValkeyServer(tmp_path / "v")
    server.start()
    yield server
    server.stop()


@pytest.fixture
def clock() -> Clock:
    # Of the same pace as the store's own, because ages are measured by that.
    return Clock(time.monotonic())


@pytest.fixture
def start(valkey: ValkeyServer, clock: Clock) -> Iterator[Start]:
    processes: list[Process] = []

    def start_() -> Process:
        processes.append(Process(valkey.url, clock))
        return processes[-1]

    yield start_
    for process in processes:
        process.hints.close()


@pytest.fixture
def one() -> EndpointEntry:
    return some_endpoint()


def test_what_one_process_saw_the_others_know(start: Start, one: EndpointEntry) -> None:
    first, second = start(), start()
    assert first.sync()
    assert second.sync()
    first.answers(one, 6)
    second.answers(one, 4)

    for process in (first, second, first):
        assert process.sync()

    assert first.figures(one) == second.figures(one)
    found = first.figures(one)
    assert (found.calls, found.uptime_5m, found.uptime_1d) == (10, 100.0, 100.0)
    assert found.latency_s is not None
    assert found.throughput_tps is not None


def test_nothing_counts_twice(start: Start, one: EndpointEntry) -> None:
    processes = [start() for _ in range(4)]
    for _ in range(3):
        for process in processes:
            process.answers(one, 5)
            process.sync()
    for process in processes:
        process.sync()

    assert [process.figures(one).calls for process in processes] == [60] * 4


def test_a_restarted_process_gets_its_statistics_back(start: Start, one: EndpointEntry) -> None:
    before = start()
    before.answers(one, 20)
    before.sync()

    after = start()
    after.sync()

    assert after.figures(one) == before.figures(one)
    assert after.figures(one).calls == 20


def test_the_long_windows_are_left_for_those_to_come(
    start: Start, clock: Clock, one: EndpointEntry, valkey: ValkeyServer
) -> None:
    before = start()
    before.answers(one, 10)
    before.fails(one)
    before.sync()
    clock.now += LONG_EVERY_S
    before.sync()
    with redis.Redis.from_url(valkey.url) as client:
        left = client.get(long_key())
        assert isinstance(left, bytes)
        assert client.ttl(long_key()) > 0
        read_long(left)
        client.delete(stream())

    after = start()
    after.sync()

    assert after.figures(one).uptime_1d == before.figures(one).uptime_1d
    assert after.figures(one).uptime_1d == pytest.approx(100 * 10 / 11)


def test_what_is_in_the_long_windows_is_not_counted_again(
    start: Start, clock: Clock, one: EndpointEntry
) -> None:
    before = start()
    before.answers(one, 10)
    before.sync()
    clock.now += LONG_EVERY_S
    before.sync()
    before.answers(one, 5)
    before.fails(one)
    before.sync()

    after = start()
    after.sync()

    assert after.seen.day.totals[one.pk].calls == 16
    assert after.seen.recent.totals[one.pk].calls == 16


def test_an_outage_is_known_elsewhere_and_so_is_its_end(
    start: Start, clock: Clock, one: EndpointEntry
) -> None:
    first, second = start(), start()
    first.sync()
    first.fails(one)
    first.sync()
    second.sync()
    assert first.unstable(one)
    assert second.unstable(one)

    clock.now += 5
    second.answers(one, 1)
    second.sync()
    first.sync()

    assert not first.unstable(one)
    assert not second.unstable(one)


def test_a_parking_is_known_elsewhere(start: Start, clock: Clock, one: EndpointEntry) -> None:
    first, second = start(), start()
    first.fails(one, LIMITED)
    first.sync()
    second.sync()

    assert second.health.standing(clock.now + 9).parked == {one.pk}
    assert second.health.standing(clock.now + 10.5).parked == frozenset()


def test_a_new_process_knows_of_outages_that_go_on(start: Start, one: EndpointEntry) -> None:
    first = start()
    first.fails(one)
    first.sync()

    later = start()
    later.sync()

    assert later.unstable(one)


def test_keys_expire(start: Start, one: EndpointEntry, valkey: ValkeyServer) -> None:
    process = start()
    process.answers(one)
    process.sync()

    with redis.Redis.from_url(valkey.url) as client:
        assert {key for key in client.keys("gateway:*") if client.ttl(key) < 0} == set()


def test_what_is_too_old_leaves_the_stream(
    start: Start, one: EndpointEntry, valkey: ValkeyServer
) -> None:
    process = start()
    process.sync()
    with redis.Redis.from_url(valkey.url) as client:
        for number in range(1, 2001):
            client.xadd(stream(), {"p": "old", "d": b"{}"}, id=f"{number}-0")
        process.answers(one)
        process.sync()

        assert client.xlen(stream()) < 500


ODD: list[dict[str, Any]] = [
    {},
    {"p": "x"},
    {"p": "x", "d": b"\xff\x00"},
    {"p": "x", "d": b"[]"},
    {"p": "x", "d": orjson.dumps({"v": VERSION + 1, "t": [], "m": []})},
    {"p": "x", "d": orjson.dumps({"v": VERSION, "t": "x", "m": []})},
    {"p": "x", "d": orjson.dumps({"v": VERSION, "t": [[1, 2]], "m": []})},
    {"p": "x", "d": orjson.dumps({"v": VERSION, "t": [], "m": [["outage", "x", 0, 0]]})},
    {"p": "x", "d": orjson.dumps({"v": VERSION, "t": [], "m": [["outage", 1, 1e300, 0]]})},
    {"p": "x", "d": orjson.dumps({"v": VERSION, "t": [], "m": [["fire", 1, 0, 0]]})},
    {"p": "x", "d": orjson.dumps({"v": VERSION, "t": [], "m": [5]})},
]


@pytest.mark.parametrize("odd", [each for each in ODD if each])
def test_what_cannot_be_read_is_passed_over(
    start: Start, one: EndpointEntry, valkey: ValkeyServer, odd: dict[str, Any]
) -> None:
    first, second = start(), start()
    second.sync()
    with redis.Redis.from_url(valkey.url) as client:
        client.xadd(stream(), odd)
        client.set(long_key(), odd.get("d", b""))
    first.answers(one)
    first.sync()

    assert second.sync()
    assert second.figures(one).calls == 10
    third = start()
    assert third.sync()
    assert third.figures(one).calls == 10


HARMS: dict[str, tuple[Callable[[ValkeyServer], None], Callable[[ValkeyServer], None]]] = {
    "killed": (ValkeyServer.stop, ValkeyServer.start),
    "frozen": (ValkeyServer.pause, ValkeyServer.resume),
}


@pytest.mark.parametrize("harm", HARMS)
def test_a_store_that_is_gone_costs_nothing_but_the_others_words(
    start: Start, one: EndpointEntry, valkey: ValkeyServer, harm: str
) -> None:
    begin, end = HARMS[harm]
    first, second = start(), start()
    first.sync()
    second.sync()
    begin(valkey)
    try:
        first.answers(one, 10)
        begun = time.monotonic()
        assert not first.sync()
        assert time.monotonic() - begun < 1.5
        assert first.figures(one).calls == 10
    finally:
        end(valkey)

    first.answers(one, 10)
    assert first.sync()
    assert second.sync()
    assert first.figures(one).calls == 20
    # What could not be told is not told later: it might have arrived.
    assert second.figures(one).calls in (10, 20)


def test_an_emptied_store_is_filled_again(
    start: Start, one: EndpointEntry, valkey: ValkeyServer
) -> None:
    first, second = start(), start()
    first.answers(one, 5)
    first.sync()
    second.sync()
    valkey.flush()
    first.answers(one, 5)

    first.sync()
    second.sync()

    assert second.figures(one).calls == 10


def test_a_process_that_began_without_the_store_joins_later(
    start: Start, one: EndpointEntry, valkey: ValkeyServer
) -> None:
    first = start()
    first.answers(one, 10)
    first.sync()
    valkey.pause()
    late = start()
    try:
        late.answers(one, 1)
        assert not late.sync()
    finally:
        valkey.resume()

    assert late.sync()
    assert late.figures(one).calls == 11


def test_a_process_that_leaves_tells_what_is_left(start: Start, one: EndpointEntry) -> None:
    first, second = start(), start()
    first.sync()
    first.answers(one, 10)
    refreshed(first.seen)
    first.sharing.part()

    second.sync()

    assert second.figures(one).calls == 10


def test_many_endpoints_travel_in_several_entries(start: Start, valkey: ValkeyServer) -> None:
    first, second = start(), start()
    second.sync()
    everybody = [some_endpoint() for _ in range(1000)]
    for each in everybody:
        first.answers(each, 1)
    first.sync()
    second.sync()

    assert len(second.seen.recent.totals) == 1000
    with redis.Redis.from_url(valkey.url) as client:
        assert client.xlen(stream()) == 5


def test_an_entry_comes_back_as_it_was(clock: Clock, one: EndpointEntry) -> None:
    process = observer(clock, collects=True)
    process.observed(attempt(clock, one, failure=LIMITED), streamed=True)
    refreshed(process)
    marks = process.marks.take()

    entry = read_entry(entry_json(process.take().items(), marks, now=clock.now + 2), at=502)

    assert [tally.limited for _, tally in entry.tallies] == [1]
    (mark,) = entry.marks
    assert (mark.kind, mark.endpoint) == ("parked", one.pk)
    assert mark.at == pytest.approx(500)
    assert mark.until == pytest.approx(510)


def test_keys_of_probes_that_have_ended_are_given_back(
    start: Start, one: EndpointEntry, valkey: ValkeyServer
) -> None:
    process = start()
    process.sync()
    with redis.Redis.from_url(valkey.url) as client:
        client.set(probe_key(one.pk), 1, px=30_000)
        process.seen.marks.probing.add(one.pk)
        process.answers(one, 1)
        process.sync()

        assert not client.exists(probe_key(one.pk))
