"""Stores that go and come are a line each, and other errors are not taken for that."""

import logging
import sqlite3
from typing import Any

import psycopg
import pytest
from django.db import OperationalError
from redis.exceptions import ConnectionError

from gateway.database.outages import QUIET_S, Store, is_database_outage, queue
from gateway.logs.setup import OutageFilter


def raise_from(cause: Exception) -> Exception:
    """The error that Django makes of it."""
    error = OperationalError(str(cause))
    error.__cause__ = cause
    return error


def test_a_store_that_goes_and_comes_is_two_lines(caplog: pytest.LogCaptureFixture) -> None:
    clock = [0.0]
    store = Store("shelf", clock=lambda: clock[0])

    for _ in range(3):
        store.lose(OSError("refused\nat 10.0.0.1"))
    store.recover()
    clock[0] = QUIET_S
    store.recover()
    store.recover()

    assert caplog.messages == ["The shelf does not answer: refused", "The shelf answers again"]


@pytest.mark.parametrize(
    ("error", "is_outage"),
    [
        (raise_from(psycopg.OperationalError("connection refused")), True),
        (raise_from(psycopg.errors.AdminShutdown()), True),
        (psycopg.errors.CannotConnectNow(), True),
        (OperationalError("The database did not answer in time"), True),
        (raise_from(psycopg.errors.DeadlockDetected()), False),
        (raise_from(psycopg.errors.DiskFull()), False),
        (raise_from(psycopg.errors.QueryCanceled()), False),
        (raise_from(sqlite3.OperationalError("database is locked")), False),
        (ValueError("connection refused"), False),
    ],
)
def test_only_a_database_that_cannot_be_reached_is_gone(error: Exception, is_outage: bool) -> None:
    assert is_database_outage(error) == is_outage


def test_lines_that_say_it_again_are_left_out(caplog: pytest.LogCaptureFixture) -> None:
    def passes(logger: str, *args: Any, exc_info: Any = None) -> bool:
        record = logging.LogRecord(logger, 40, "", 0, "%s", args, exc_info)
        return OutageFilter().filter(record)

    error = ConnectionError("refused")
    try:
        assert not passes("celery.beat", error)
        assert not passes("kombu.connection", exc_info=(ConnectionError, error, None))
        scheduling = ValueError("Couldn't apply scheduled task")
        scheduling.__context__ = error
        assert not passes("celery.beat", scheduling)
        # What the shared cache says of itself, and other errors, go on.
        assert passes("gateway.hints", error)
        assert passes("celery.beat", ValueError("odd"))
        assert passes("celery.beat", "no error")
        assert caplog.messages == ["The queue does not answer: refused"]
    finally:
        queue.is_gone = False
