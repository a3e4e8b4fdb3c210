"""Processes tell each other what they have seen, through a real hint store."""

import pytest
import redis

from routing.catalogue.entries import EndpointEntry
from routing.serving.shared_form import entry_json, read_entry, stream
from tests.routing.serving.learning import (
    LIMITED,
    Clock,
    attempt,
    observer,
    refreshed,
    some_endpoint,
)
from tests.routing.serving.processes import Start
from tests.support.valkey import ValkeyServer


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
