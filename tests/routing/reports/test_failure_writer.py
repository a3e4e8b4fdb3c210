"""Which failures get a row of their own, and which are counted."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import OperationalError

from gateway.shared_cache import SharedCache
from routing.reports.failed_requests import FailureWriter, store_failures
from routing.reports.flood import FloodGate, admit_records
from routing.reports.models import FailedRequest, FailedRequestCount
from routing.reports.report import RequestReport
from routing.serving.request.errors import ErrorFacts
from tests.routing.callers import CALLER
from tests.support.valkey import ValkeyServer

AT = datetime(2026, 5, 4, 10, 42, 7, tzinfo=UTC)
LIMITED = ErrorFacts("rate_limit_exceeded", "key_requests", "Rate limit exceeded", {})


def report(**changes: Any) -> RequestReport:
    plain = RequestReport(
        ended_at=AT,
        started=1.0,
        ended=1.25,
        identity=None,
        caller=CALLER,
        format="chat",
        requested_model="acme/small",
        streamed=False,
        status=429,
        error=LIMITED,
    )
    return plain._replace(**changes)


def write(writer: FailureWriter, reports: Sequence[RequestReport]) -> None:
    writer.observe(reports)
    writer.write()


def test_a_source_has_so_many_records_in_each_second() -> None:
    clock = [10.0]
    gate = FloodGate(lambda: clock[0], lambda: 2)

    assert [gate.admits("a") for _ in range(3)] == [True, True, False]
    assert gate.admits("b")
    clock[0] = 11.0
    assert gate.admits("a")


@pytest.mark.both
@pytest.mark.django_db
def test_failures_get_rows_and_a_flood_of_them_counts_per_minute() -> None:
    writer = FailureWriter()

    write(writer, [report(), report(error=None, status=200), report(is_counted=True)])
    later = AT + timedelta(seconds=30)
    write(writer, [report(is_counted=True, ended_at=later), report(is_counted=True, status=402)])
    write(writer, [report(is_counted=True, ended_at=AT + timedelta(minutes=1))])

    row = FailedRequest.objects.get()
    assert (row.at, row.status, row.reason, row.duration_ms) == (AT, 429, "key_requests", 250)
    counts = FailedRequestCount.objects.order_by("minute", "status")
    assert list(counts.values_list("minute", "status", "requests", "account_id")) == [
        (AT.replace(second=0), 402, 1, UUID(int=1)),
        (AT.replace(second=0), 429, 2, UUID(int=1)),
        (AT.replace(second=0) + timedelta(minutes=1), 429, 1, UUID(int=1)),
    ]


@pytest.mark.both
@pytest.mark.django_db
def test_a_crowd_of_addresses_without_a_key_is_counted_together() -> None:
    writer = FailureWriter()
    nobody = [report(caller=None, address=f"10.0.{n // 256}.{n % 256}") for n in range(1_010)]

    write(writer, nobody)

    assert FailedRequest.objects.count() == 0
    assert FailedRequestCount.objects.count() == 1_001
    assert FailedRequestCount.objects.get(address="other").requests == 10


@pytest.mark.django_db
def test_who_sends_ever_other_keys_fills_no_table_and_pushes_nobody_out() -> None:
    writer = FailureWriter()
    guesses = [report(caller=None, address="10.0.0.1", key_prefix=f"k{n}") for n in range(1_100)]

    write(writer, [*guesses, report(caller=None, address="10.0.0.2", key_prefix="k")])

    counts = FailedRequestCount.objects.filter(address="10.0.0.1")
    assert (counts.count(), counts.get(key_prefix="").requests) == (6, 1_095)
    assert FailedRequestCount.objects.get(address="10.0.0.2").key_prefix == "k"


@pytest.mark.django_db
def test_what_finds_no_database_is_written_with_the_next_batch() -> None:
    gone = [OperationalError("gone")]

    def store(*batch: Any) -> None:
        if gone:
            raise gone.pop()
        store_failures(*batch)

    writer = FailureWriter(store)
    write(writer, [report(), report(is_counted=True)])
    assert FailedRequest.objects.count() == 0

    write(writer, [report()])

    assert FailedRequest.objects.count() == 2
    assert FailedRequestCount.objects.get().requests == 1


@pytest.mark.both
@pytest.mark.django_db
def test_a_failure_that_no_table_takes_takes_no_other_with_it() -> None:
    writer = FailureWriter()

    unfit = report(requested_model="half a pair \ud800")
    write(writer, [report(), unfit, report(), report(is_counted=True)])

    assert FailedRequest.objects.count() == 2
    assert FailedRequestCount.objects.get().requests == 1
    assert writer.lost == 1


def test_all_processes_together_have_as_many_records_as_one(valkey: ValkeyServer) -> None:
    mine, theirs = (SharedCache(valkey.url, timeout_s=1) for _ in range(2))

    assert admit_records({("7", 100): 30, ("8", 100): 5}, mine) == {("7", 100): 30, ("8", 100): 5}
    assert admit_records({("7", 100): 45, ("7", 101): 60}, theirs) == {
        ("7", 100): 20,
        ("7", 101): 50,
    }
    assert admit_records({("7", 100): 1}, mine) == {("7", 100): 0}
    valkey.stop()
    assert admit_records({("7", 100): 1}, mine) == {("7", 100): 1}


@pytest.mark.django_db
def test_what_is_beyond_the_records_of_all_processes_is_counted() -> None:
    writer = FailureWriter(admit=lambda wanted: dict.fromkeys(wanted, 1))

    write(writer, [report(), report(), report(ended_at=AT + timedelta(seconds=1))])

    assert FailedRequest.objects.count() == 2
    assert FailedRequestCount.objects.get().requests == 1
