"""A deadline for read queries, enforced by the database."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from django.db import OperationalError, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from psycopg.errors import QueryCanceled

from gateway.database.replica import reading_connection
from gateway.http.errors import GatewayError

# SQLite asks after so many of its steps, some tens of milliseconds.
_STEPS: Final = 100_000
# Sums and their indexes are mostly in memory, which PostgreSQL's defaults do not expect; grouping
# should be too. JIT compilation takes longer than any of these queries, and so do merge joins that
# sort many rows by text to meet a few.
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
    """End a query of the block with `TimedOut` after `limit_s`. The block must not write."""
    with reading_connection() as database:
        if database.vendor == "sqlite":
            with _sqlite_deadline(database, limit_s):
                yield
            return
        limits = f"SET LOCAL statement_timeout = {max(1, int(limit_s * 1000))}; {_PLANS}"
        try:
            with transaction.atomic(using=database.alias), database.cursor() as cursor:
                cursor.execute(limits)
                yield
        except OperationalError as error:
            if isinstance(error.__cause__, QueryCanceled):
                raise TimedOut from error
            raise


@contextmanager
def _sqlite_deadline(database: BaseDatabaseWrapper, limit_s: float) -> Iterator[None]:
    database.ensure_connection()
    raw: Any = database.connection
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
