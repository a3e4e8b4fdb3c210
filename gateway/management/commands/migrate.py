"""migrate: Django's, but nobody waits long for a table.

A statement that waits for its lock makes all wait who come after it, readers too. So it gives up
soon, its migration is undone, and all of it is tried again.
"""

import time
from collections.abc import Callable
from typing import Any, Final

from django.conf import settings
from django.core.management.commands import migrate
from django.db import OperationalError, connections
from psycopg.errors import LockNotAvailable

_LOCK_WAIT_MS: Final = 800
_PAUSE_S: Final = 2.0
_TRIES: Final = 60
# PostgreSQL ends an autovacuum only for whoever has waited `deadlock_timeout` for it.
_PATIENT_EVERY: Final = 4
_PATIENCE: Final = (
    "SELECT greatest(%s, setting::int + 100) FROM pg_settings WHERE name = 'deadlock_timeout'"
)


class Command(migrate.Command):
    def handle(self, *args: Any, **options: Any) -> None:
        database = connections[options["database"]]
        if database.vendor != "postgresql":
            super().handle(*args, **options)
            return
        for number in range(1, _TRIES + 1):
            wait_ms = _LOCK_WAIT_MS
            with database.cursor() as cursor:
                if number % _PATIENT_EVERY == 0:
                    cursor.execute(_PATIENCE, [wait_ms])
                    wait_ms = cursor.fetchone()[0]
                # What is set of a session stays with a pooler's connection, which is another's
                # next.
                if not settings.DATABASE_POOLER:
                    cursor.execute(f"SET lock_timeout = {wait_ms}")
            try:
                with database.execute_wrapper(_limit_waits(wait_ms)):
                    super().handle(*args, **options)
            except OperationalError as error:
                if number == _TRIES or not isinstance(error.__cause__, LockNotAvailable):
                    raise
                self.stderr.write(f"Somebody uses the table: tried again in {_PAUSE_S:g} s")
                time.sleep(_PAUSE_S)
            else:
                break
        if not settings.DATABASE_POOLER:
            with database.cursor() as cursor:
                cursor.execute("RESET lock_timeout")


def _limit_waits(wait_ms: int) -> Callable[..., Any]:
    """Limit the waits of transactions, which are all that a pooler leaves to limit."""

    def execute(run: Any, sql: str, values: Any, many: bool, context: dict[str, Any]) -> Any:
        if settings.DATABASE_POOLER and context["connection"].in_atomic_block:
            run(f"SET LOCAL lock_timeout = {wait_ms}", None, False, context)
        return run(sql, values, many, context)

    return execute
