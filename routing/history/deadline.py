"""A deadline for one piece of reading, which the database keeps itself."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from django.db import OperationalError, connection, transaction
from psycopg.errors import QueryCanceled

from gateway.http.errors import GatewayError

# SQLite asks after so many of its steps, some tens of milliseconds.
_STEPS: Final = 100_000
# What is asked of sums is in memory mostly, indexes too, which PostgreSQL's defaults do not expect;
# groups are to be made there as well. Compiling takes longer than any of it, and so does sorting
# many rows by their texts to join them with the few that it does not know are few.
_PLANS: Final = (
    "SET LOCAL random_page_cost = 1.1; SET LOCAL work_mem = '32MB'; SET LOCAL jit = off;"
    " SET LOCAL enable_mergejoin = off"
)


class TimedOut(GatewayError):
    """The query took longer than it may."""

    status, error_type = 408, "timeout"
    message = "Operation timed out. Please try again later."


@contextmanager
def deadline(limit_s: float) -> Iterator[None]:
    """Ends a query of the block with `TimedOut` where it takes longer. Nothing may be written."""
    keeper = _sqlite_deadline if connection.vendor == "sqlite" else _postgresql_deadline
    with keeper(limit_s):
        yield


@contextmanager
def _postgresql_deadline(limit_s: float) -> Iterator[None]:
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(f"SET LOCAL statement_timeout = {max(1, int(limit_s * 1000))}; {_PLANS}")
            yield
    except OperationalError as error:
        if isinstance(error.__cause__, QueryCanceled):
            raise TimedOut from error
        raise


@contextmanager
def _sqlite_deadline(limit_s: float) -> Iterator[None]:
    connection.ensure_connection()
    raw: Any = connection.connection
    ends_at = time.monotonic() + limit_s
    raw.set_progress_handler(lambda: time.monotonic() > ends_at, _STEPS)
    try:
        yield
    except OperationalError as error:
        if time.monotonic() > ends_at:
            raise TimedOut from error
        raise
    finally:
        raw.set_progress_handler(None, 0)
