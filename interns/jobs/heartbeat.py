"""The life sign of a machine that runs interns, from its worker of `intern-control`."""

import logging
import threading
import time
from datetime import UTC, datetime
from typing import Final

from django.conf import settings
from django.db import DatabaseError, InterfaceError, connection

from interns import hosts

log = logging.getLogger("gateway.interns")
# So many of them may be lost before the machine counts as gone.
_BEATS_PER_TERM: Final = 6


class Heartbeat(threading.Thread):
    """Writes this machine's row for as long as the process lives."""

    def __init__(self) -> None:
        super().__init__(daemon=True, name="heartbeat")

    def run(self) -> None:
        while True:
            self.beat()
            time.sleep(settings.INTERN_HOST_SECONDS / _BEATS_PER_TERM)

    def beat(self) -> None:
        try:
            hosts.write_heartbeat(datetime.now(UTC))
        except (DatabaseError, InterfaceError, OSError) as error:
            # A worker may come before the tables do; the next beat tries again.
            log.warning("The life sign of this machine could not be written: %s", error)
        finally:
            connection.close()
