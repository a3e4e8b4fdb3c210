"""Endpoints' history: five minutes a row, written once, by whoever can."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from gateway.shared_cache import SharedCache
from routing.catalogue.models import Endpoint
from routing.selection.measurements.endpoint_counter import EndpointCounter
from routing.selection.measurements.histogram import RELATIVE_ERROR
from routing.statistics.endpoint_samples import (
    STRETCH_S,
    LocalSamples,
    add_samples,
    build_samples,
    forget_old,
    record_shared,
)
from routing.statistics.models import EndpointSample
from routing.statistics.stream_format import serialize_entry, stream_key
from tests.routing.selection import entries
from tests.routing.serving.learning import FAILURE, Clock, attempt, observer, refresh_all
from tests.support.operations import fill
from tests.support.valkey import ValkeyServer

pytestmark = [pytest.mark.django_db, pytest.mark.both]
NUMBER = 5_900_000
BEGINS_S = NUMBER * STRETCH_S
STARTED_AT = datetime.fromtimestamp(BEGINS_S, UTC)
OVER_S = BEGINS_S + STRETCH_S + 20.0


@pytest.fixture
def served_endpoint() -> int:
    """The key of an endpoint without a history."""
    fill(1)
    EndpointSample.objects.all().delete()
    return Endpoint.objects.get().pk


@pytest.fixture
def store(valkey: ValkeyServer) -> Iterator[SharedCache]:
    hints = SharedCache(valkey.url, timeout_s=0.5)
    yield hints
    hints.close()


@pytest.fixture
def tell(store: SharedCache) -> Callable[..., None]:
    """An entry of the stream, as of a process that pushed it so long after the stretch began."""

    def tell(after_s: float, tallies: dict[int, EndpointCounter]) -> None:
        data: dict[Any, Any] = {"p": "x", "d": serialize_entry(tallies.items(), (), now=0)}
        id = f"{int((BEGINS_S + after_s) * 1000)}-*"
        store.run(lambda client: client.xadd(stream_key(), data, id=id), None)

    return tell


def tally(
    answered: int, *, failed: int = 0, limited: int = 0, latency_s: float = 0.5
) -> EndpointCounter:
    made = EndpointCounter()
    for _ in range(answered):
        made.count_answer(latency_s, streamed=True, speed_tps=50.0)
    made.failed, made.limited = failed, limited
    return made


def near(*values: float) -> tuple[Any, ...]:
    return tuple(pytest.approx(value, rel=RELATIVE_ERROR) for value in values)


def test_what_all_processes_told_becomes_a_row(served_endpoint: int, store, tell) -> None:
    tell(-0.001, {served_endpoint: tally(100)})
    tell(0, {served_endpoint: tally(6, failed=1, limited=3)})
    tell(299.9, {served_endpoint: tally(2, latency_s=2.0), 999_999: tally(1)})
    tell(300, {served_endpoint: tally(100)})

    assert record_shared(OVER_S, store=store) == 2

    row = EndpointSample.objects.get(started_at=STARTED_AT)
    assert (row.endpoint_id, row.calls, row.errors, row.rate_limited) == (served_endpoint, 9, 1, 3)
    paces = (row.first_token_p50_ms, row.first_token_p90_ms, row.throughput_tps)
    assert paces == near(500, 2000, 50)


def test_it_is_done_once_when_its_stretch_is_over_and_the_store_there(
    served_endpoint: int, store, tell, valkey
) -> None:
    tell(0, {served_endpoint: tally(6)})
    assert record_shared(BEGINS_S + STRETCH_S + 1.0, store=store) == 0
    valkey.pause()
    try:
        assert record_shared(OVER_S, store=store) == 0
    finally:
        valkey.resume()

    assert [record_shared(OVER_S, store=store) for _ in range(2)] == [1, 0]
    assert record_shared(OVER_S + STRETCH_S, store=store) == 0


def test_many_entries_are_read_page_by_page(served_endpoint: int, store, tell) -> None:
    for number in range(450):
        tell(number / 2, {served_endpoint: tally(1)})
    record_shared(OVER_S, store=store)
    assert EndpointSample.objects.get().calls == 450


def test_what_is_old_is_forgotten(served_endpoint: int, settings) -> None:
    settings.ROUTER_HISTORY_DAYS = 2
    add_samples(build_samples({served_endpoint: tally(1)}, NUMBER))
    two_days_s = 2 * 24 * 3600
    assert forget_old(BEGINS_S + two_days_s) == 0
    assert forget_old(BEGINS_S + STRETCH_S + two_days_s) == 1


def test_processes_without_a_store_add_up(served_endpoint: int) -> None:
    add_samples(
        build_samples({served_endpoint: tally(30, latency_s=1.0), 999_999: tally(1)}, NUMBER)
    )
    add_samples(
        build_samples({served_endpoint: tally(9, failed=1, limited=2, latency_s=3.0)}, NUMBER)
    )
    row = EndpointSample.objects.get()
    assert (row.calls, row.errors, row.rate_limited) == (40, 1, 2)
    assert (row.first_token_p50_ms,) == near(1500)


def test_a_process_writes_at_the_end_of_each_stretch(served_endpoint: int) -> None:
    clock, wall = Clock(), Clock(BEGINS_S + 10)
    seen = observer(clock, collects=True)
    own, where = LocalSamples(seen, clock=wall), entries.endpoint(pk=served_endpoint)

    def meet(count: int, **changes: Any) -> None:
        for _ in range(count):
            seen.record_attempt(attempt(clock, where, **changes), streamed=True, tokens=50)
        refresh_all(seen)
        own.collect()

    def rows() -> list[tuple[datetime, int, int]]:
        found = EndpointSample.objects.order_by("started_at")
        return list(found.values_list("started_at", "calls", "errors"))

    meet(5)
    meet(1, failure=FAILURE)
    assert rows() == []
    wall.now += STRETCH_S
    meet(2)
    assert rows() == [(STARTED_AT, 6, 1)]
    wall.now += 29
    meet(1)
    assert len(rows()) == 1, "it is not half a minute yet"
    wall.now += 1
    meet(1)
    assert [calls for _, calls, _ in rows()] == [6, 3]
    own.write()
    assert [calls for _, calls, _ in rows()] == [6, 4]
