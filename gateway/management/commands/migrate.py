"""migrate: Django's, but nobody waits long for a table.

A statement that waits for its lock makes all wait who come after it, readers too. So it gives up
soon, its migration is undone, and all of it is tried again.
"""

import time
from typing import Any, Final

from django.conf import settings
from django.core.management.commands import migrate
from django.db import OperationalError, connections
from psycopg.errors import LockNotAvailable

_LOCK_WAIT: Final = "800ms"
_PAUSE_S: Final = 2.0
_TRIES: Final = 60


class Command(migrate.Command):
    def handle(self, *args: Any, **options: Any) -> None:
        database = connections[options["database"]]
        # What is set of a session stays with a pooler's connection, which is another's next.
        if database.vendor != "postgresql" or settings.DATABASE_POOLER:
            super().handle(*args, **options)
            return
        for left in reversed(range(_TRIES)):
            with database.cursor() as cursor:
                cursor.execute(f"SET lock_timeout = '{_LOCK_WAIT}'")
            try:
                super().handle(*args, **options)
            except OperationalError as error:
                if not (left and isinstance(error.__cause__, LockNotAvailable)):
                    raise
                self.stderr.write(f"Somebody uses the table: tried again in {_PAUSE_S:g} s")
                time.sleep(_PAUSE_S)
            else:
                break
        with database.cursor() as cursor:
            cursor.execute("RESET lock_timeout")
