"""Endpoints' history: five minutes a row, written once, by whoever can."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
import redis

from gateway.hints import Hints
from routing.catalogue.history import EndpointSample
from routing.catalogue.models import Endpoint
from routing.selection.figures import Tally
from routing.selection.histogram import RELATIVE_ERROR
from routing.serving.history import (
    STRETCH_S,
    OwnHistory,
    add_samples,
    forget_old,
    record_shared,
    samples_of,
)
from routing.serving.shared_form import entry_json, stream
from tests.routing.selection import entries
from tests.routing.serving.learning import FAILURE, Clock, attempt, observer, refreshed
from tests.support.operations import fill
from tests.support.valkey import ValkeyServer

pytestmark = [pytest.mark.django_db, pytest.mark.both]
NUMBER = 5_900_000
STARTED_AT = datetime.fromtimestamp(NUMBER * STRETCH_S, UTC)
OVER = (NUMBER + 1) * STRETCH_S + 20.0


@pytest.fixture
def served() -> Endpoint:
    fill(1)
    EndpointSample.objects.all().delete()
    return Endpoint.objects.get()


@pytest.fixture
def store(valkey: ValkeyServer) -> Iterator[Hints]:
    hints = Hints(valkey.url, timeout_s=0.5)
    yield hints
    hints.close()


def tally(answered: int, *, failed: int = 0, limited: int = 0, latency_s: float = 0.5) -> Tally:
    made = Tally()
    for _ in range(answered):
        made.answer(latency_s, streamed=True, speed_tps=50.0)
    made.failed, made.limited = failed, limited
    return made


def tell(valkey: ValkeyServer, tallies: dict[int, Tally], *, at_s: float) -> None:
    """An entry of the stream, as of a process that pushed it at that moment."""
    with redis.Redis.from_url(valkey.url) as client:
        data: dict[Any, Any] = {"p": "x", "d": entry_json(tallies.items(), (), now=0)}
        client.xadd(stream(), data, id=f"{int(at_s * 1000)}-*")


def test_what_all_processes_told_becomes_a_row(
    served: Endpoint, valkey: ValkeyServer, store: Hints
) -> None:
    begins = NUMBER * STRETCH_S
    tell(valkey, {served.pk: tally(100)}, at_s=begins - 0.001)
    tell(valkey, {served.pk: tally(6, failed=1, limited=3)}, at_s=begins)
    tell(valkey, {served.pk: tally(2, latency_s=2.0), 999_999: tally(1)}, at_s=begins + 299.9)
    tell(valkey, {served.pk: tally(100)}, at_s=begins + 300)

    assert record_shared(OVER, store=store) == 2

    row = EndpointSample.objects.get(started_at=STARTED_AT)
    assert (row.endpoint_id, row.calls, row.errors, row.rate_limited) == (served.pk, 9, 1, 3)
    assert row.first_token_p50_ms == pytest.approx(500, rel=RELATIVE_ERROR)
    assert row.first_token_p90_ms == pytest.approx(2000, rel=RELATIVE_ERROR)
    assert row.throughput_tps == pytest.approx(50, rel=RELATIVE_ERROR)


def test_done_twice_it_is_done_once(served: Endpoint, valkey: ValkeyServer, store: Hints) -> None:
    tell(valkey, {served.pk: tally(6)}, at_s=NUMBER * STRETCH_S)

    assert [record_shared(OVER, store=store) for _ in range(2)] == [1, 0]
    assert record_shared(OVER + STRETCH_S, store=store) == 0


def test_a_stretch_that_goes_on_is_not_written(
    served: Endpoint, valkey: ValkeyServer, store: Hints
) -> None:
    tell(valkey, {served.pk: tally(6)}, at_s=NUMBER * STRETCH_S)

    assert record_shared((NUMBER + 1) * STRETCH_S + 1.0, store=store) == 0


def test_many_entries_are_read_page_by_page(
    served: Endpoint, valkey: ValkeyServer, store: Hints
) -> None:
    for number in range(450):
        tell(valkey, {served.pk: tally(1)}, at_s=NUMBER * STRETCH_S + number / 2)

    record_shared(OVER, store=store)

    assert EndpointSample.objects.get().calls == 450


def test_a_store_that_is_gone_costs_no_wrong_row(
    served: Endpoint, valkey: ValkeyServer, store: Hints
) -> None:
    tell(valkey, {served.pk: tally(6)}, at_s=NUMBER * STRETCH_S)
    valkey.pause()
    try:
        assert record_shared(OVER, store=store) == 0
    finally:
        valkey.resume()

    assert record_shared(OVER, store=store) == 1


def test_what_is_old_is_forgotten(served: Endpoint, settings: Any) -> None:
    settings.ROUTER_HISTORY_DAYS = 2
    add_samples(samples_of({served.pk: tally(1)}, NUMBER))
    two_days = 2 * 24 * 3600

    assert forget_old(NUMBER * STRETCH_S + two_days) == 0
    assert forget_old((NUMBER + 1) * STRETCH_S + two_days) == 1


def test_processes_without_a_store_add_up(served: Endpoint) -> None:
    add_samples(samples_of({served.pk: tally(30, latency_s=1.0), 999_999: tally(1)}, NUMBER))
    add_samples(samples_of({served.pk: tally(9, failed=1, limited=2, latency_s=3.0)}, NUMBER))

    row = EndpointSample.objects.get()

    assert (row.calls, row.errors, row.rate_limited) == (40, 1, 2)
    assert row.first_token_p50_ms == pytest.approx(1500, rel=RELATIVE_ERROR)


def test_a_process_writes_at_the_end_of_each_stretch(served: Endpoint) -> None:
    clock, wall = Clock(), Clock(NUMBER * STRETCH_S + 10)
    seen = observer(clock, collects=True)
    own, where = OwnHistory(seen, clock=wall), entries.endpoint(pk=served.pk)

    def meet(count: int, **changes: Any) -> None:
        for _ in range(count):
            seen.observed(attempt(clock, where, **changes), streamed=True, tokens=50)
        refreshed(seen)
        own.keep()

    meet(5)
    meet(1, failure=FAILURE)
    assert not EndpointSample.objects.exists()
    wall.now += STRETCH_S
    meet(2)

    row = EndpointSample.objects.get()
    assert (row.started_at, row.calls, row.errors) == (STARTED_AT, 6, 1)
    wall.now += 29
    meet(1)
    assert EndpointSample.objects.count() == 1, "it is not half a minute yet"
    wall.now += 1
    meet(1)
    assert [each.calls for each in EndpointSample.objects.order_by("started_at")] == [6, 3]
    own.write()
    assert [each.calls for each in EndpointSample.objects.order_by("started_at")] == [6, 4]
