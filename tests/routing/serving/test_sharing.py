"""Processes tell each other what they have seen, through a real shared cache: also while it goes,
comes back, or holds what nobody wrote. Outages, parkings and recoveries may come in any order."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import orjson
import pytest

from routing.selection.health import EndpointHealth
from routing.statistics.long_windows import head_key
from routing.statistics.observation import HealthEvent, HealthEvents
from routing.statistics.stream_format import VERSION, read_entry, serialize_entry, stream_key
from tests.routing.serving.learning import (
    LIMITED,
    attempt,
    observer,
    refresh_all,
    some_endpoint,
)
from tests.routing.serving.processes import pass_round
from tests.support.promptness import in_time
from tests.support.valkey import ValkeyServer


def test_what_one_process_saw_the_others_know_once_and_a_restarted_one_too(start, one) -> None:
    processes = [start() for _ in range(4)]
    for _ in range(3):
        for process in processes:
            process.answers(one, 5)
            assert process.sync()
    pass_round(*processes)
    after = start()
    after.sync()

    found = after.figures(one)
    assert [process.figures(one) for process in processes] == [found] * 4
    assert (found.calls, found.uptime_5m, found.uptime_1d) == (60, 100.0, 100.0)
    assert found.latency_s is not None
    assert found.throughput_tps is not None


def test_keys_expire_and_what_is_too_old_leaves_the_stream(start, one, client) -> None:
    process = start()
    process.sync()
    for number in range(1, 2001):
        client.xadd(stream_key(), {"p": "old", "d": b"{}"}, id=f"{number}-0")
    process.answers(one)
    process.sync()
    assert client.xlen(stream_key()) < 500
    assert {key for key in client.keys("gateway:*") if client.ttl(key) < 0} == set()


def test_a_process_that_leaves_tells_what_is_left(start, one) -> None:
    first, second = start(), start()
    first.sync()
    first.answers(one, 10)
    refresh_all(first.seen)
    first.sharing.send_rest()
    second.sync()
    assert second.figures(one).calls == 10


def test_many_endpoints_travel_in_several_entries(start, client) -> None:
    first, second = start(), start()
    second.sync()
    for each in [some_endpoint() for _ in range(1000)]:
        first.answers(each, 1)
    pass_round(first, second)
    assert (len(second.seen.recent.totals), client.xlen(stream_key())) == (1000, 5)


def test_an_entry_comes_back_as_it_was(clock, one) -> None:
    process = observer(clock, collects=True)
    process.record_attempt(attempt(clock, one, failure=LIMITED), streamed=True)
    refresh_all(process)
    marks = process.health_events.take()

    entry = read_entry(serialize_entry(process.take().items(), marks, now=clock.now + 2), at=502)

    assert [tally.limited for _, tally in entry.counters] == [1]
    (mark,) = entry.events
    assert (mark.kind, mark.endpoint) == ("parked", one.pk)
    assert mark.at == pytest.approx(500)
    assert mark.until == pytest.approx(510)


# --- Trouble --------------------------------------------------------------------------------------


def odd_entry(**changes: Any) -> bytes:
    return orjson.dumps({"v": VERSION, "t": [], "m": [], **changes})


ODD = [
    None,
    b"\xff\x00",
    b"[]",
    odd_entry(v=VERSION + 1),
    odd_entry(t="x"),
    odd_entry(t=[[1, 2]]),
    odd_entry(m=[["outage", "x", 0, 0]]),
    odd_entry(m=[["outage", 1, 1e300, 0]]),
    odd_entry(m=[["fire", 1, 0, 0]]),
    odd_entry(m=[5]),
    odd_entry(d=[["refused", 1, "nobody", 0, 1]]),
]


@pytest.mark.parametrize("odd", ODD)
def test_what_cannot_be_read_is_passed_over(start, one, client, odd) -> None:
    first, second = start(), start()
    second.sync()
    entry: dict[Any, Any] = {"p": "x"} if odd is None else {"p": "x", "d": odd}
    client.xadd(stream_key(), entry)
    client.set(head_key(), odd or b"")
    first.answers(one)
    first.sync()

    for process in (second, start()):
        assert process.sync()
        assert process.figures(one).calls == 10


HARMS: dict[str, tuple[Callable[[ValkeyServer], None], Callable[[ValkeyServer], None]]] = {
    "killed": (ValkeyServer.stop, ValkeyServer.start),
    "frozen": (ValkeyServer.pause, ValkeyServer.resume),
}


@contextmanager
def harm_store(valkey: ValkeyServer, harm: str) -> Iterator[None]:
    begin, end = HARMS[harm]
    begin(valkey)
    try:
        yield
    finally:
        end(valkey)


@pytest.mark.parametrize("harm", HARMS)
def test_a_store_that_is_gone_costs_nothing_but_the_others_words(start, one, valkey, harm) -> None:
    first, second = start(), start()
    pass_round(first, second)
    with harm_store(valkey, harm):
        first.answers(one, 10)
        late = start()
        late.answers(one, 1)
        begun = time.monotonic()
        assert not first.sync()
        in_time(time.monotonic() - begun, 1.5)
        assert not late.sync()
        assert first.figures(one).calls == 10

    first.answers(one, 10)
    assert first.sync()
    assert second.sync()
    assert first.figures(one).calls == 20
    # What could not be told is not told later: it might have arrived.
    heard = second.figures(one).calls
    assert heard in (10, 20)
    # Whoever began without the store joins later.
    assert late.sync()
    assert late.figures(one).calls == heard + 1


def test_an_emptied_store_is_filled_again(start, one, valkey) -> None:
    first, second = start(), start()
    first.answers(one, 5)
    pass_round(first, second)
    valkey.flush()
    first.answers(one, 5)
    pass_round(first, second)
    assert second.figures(one).calls == 10


# --- Health events, in any order ------------------------------------------------------------------


E1, E2 = 1, 2
OUTAGE = HealthEvent("outage", E1, at=100)


class Listener:
    """A process and what it is told of others, two seconds after it was."""

    def __init__(self) -> None:
        self.marks, self.health = HealthEvents(), EndpointHealth(window_s=30.0, probe_s=10)

    def hear(self, *marks: HealthEvent, now: float = 102) -> None:
        for mark in marks:
            self.marks.apply(mark, self.health, now=now)

    def unstable(self, now: float) -> bool:
        return E1 in self.health.snapshot(now).unstable


@pytest.fixture
def listener() -> Listener:
    return Listener()


def test_an_outage_elsewhere_is_one_here(listener) -> None:
    listener.hear(OUTAGE)
    assert [listener.unstable(now) for now in (102, 129.9, 130)] == [True, True, False]
    assert listener.health.snapshot(130).half_open == {E1}


@pytest.mark.parametrize(("well_at", "ends_it"), [(101, True), (99, False)])
def test_a_later_recovery_elsewhere_ends_it(listener, well_at: float, ends_it: bool) -> None:
    listener.hear(OUTAGE, HealthEvent("well", E1, at=well_at), now=104)
    assert listener.unstable(104) is not ends_it
    assert bool(listener.health.snapshot(200).half_open) is not ends_it


def test_who_was_answered_since_tells_so(listener) -> None:
    listener.marks.record_recovery(E1, at=101)
    assert listener.marks.take() == []
    listener.hear(OUTAGE)
    assert not listener.unstable(102)
    assert listener.marks.take() == [HealthEvent("well", E1, at=101)]


def test_an_older_outage_does_not_shorten_a_newer_one(listener) -> None:
    listener.health.record_failure(E1, 100)
    listener.marks.record_outage(E1, 100)
    listener.hear(HealthEvent("outage", E1, at=95))
    assert listener.unstable(129)


def test_a_parking_lasts_what_is_left_of_it(listener) -> None:
    listener.hear(
        HealthEvent("parked", E1, at=100, until=107), HealthEvent("parked", E2, at=90, until=100)
    )
    assert listener.health.snapshot(106.9).parked == {E1}
    assert listener.health.snapshot(107).parked == frozenset()


def test_the_latest_of_each_kind_is_told_once_and_in_order() -> None:
    marks = HealthEvents()
    marks.record_outage(E1, 10)
    marks.record_parking(E2, 11, until=20)
    marks.record_outage(E1, 12)
    marks.record_recovery(E1, 13)
    marks.record_recovery(E1, 14)
    latest = [
        HealthEvent("parked", E2, 11, 20),
        HealthEvent("outage", E1, 12),
        HealthEvent("well", E1, 13),
    ]
    assert [marks.take(), marks.take()] == [latest, []]


@pytest.mark.parametrize("met", ["record_outage", "record_parking", "record_recovery"])
def test_a_probe_ends_with_whatever_its_endpoint_does(met: str) -> None:
    marks = HealthEvents()
    marks.probing.add(E1)
    getattr(marks, met)(E1, 1, **({"until": 2} if met == "record_parking" else {}))
    assert (marks.probing, marks.probed) == (set(), [E1])
