"""The life sign of a machine that runs interns, from its worker of `intern-control`."""

import fcntl
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TextIO

from django.conf import settings
from django.db import DatabaseError, InterfaceError, connection

from gateway.home import private_folder
from interns import hosts
from interns.runtime.host_lease import (
    FILE_NAME,
    LOOK_S,
    is_over,
    read_clock,
    remove_lease,
    write_lease,
)

log = logging.getLogger("gateway.interns")
# So many of them may be lost before the machine counts as gone.
_BEATS_PER_TERM: Final = 6
# What is left of the term is for stopping, and for clocks that differ.
_LEASE_OF_TERM: Final = 2 / 3


@contextmanager
def hold_heartbeat_lock() -> Iterator[None]:
    """Show other processes of this machine that its row is being written."""
    with _open_lock() as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        yield


@contextmanager
def pause_heartbeats() -> Iterator[bool]:
    """Keep this machine's workers from beginning to write its row. Whether none does already."""
    with _open_lock() as lock:
        is_still = True
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            is_still = False
        yield is_still


def _open_lock() -> TextIO:
    folder = private_folder(Path(settings.GATEWAY_HOME) / "run")
    return (folder / "intern-heartbeat.lock").open("a", encoding="ascii")


class Heartbeat(threading.Thread):
    """Writes this machine's row for as long as the process lives, and then how long its interns may
    run. `compare` has runtimes compared with rows, after a time in which nobody heard of this
    machine; it raises nothing and says whether it could."""

    def __init__(self, compare: Callable[[], bool]) -> None:
        super().__init__(daemon=True, name="heartbeat")
        self._compare = compare
        self._has_compared = False

    def run(self) -> None:
        with hold_heartbeat_lock():
            while True:
                self.beat()
                connection.close()
                time.sleep(settings.INTERN_HOST_SECONDS / _BEATS_PER_TERM)

    def beat(self) -> None:
        path = private_folder(Path(settings.GATEWAY_HOME) / "run") / FILE_NAME
        try:
            if is_over(path):
                self._has_compared = False
                # Whatever runs still is to see that, before there is a new one.
                time.sleep(2 * LOOK_S)
            began = read_clock()
            if not hosts.write_heartbeat(hosts.read_database_time()):
                return
            if not hosts.has_others():
                remove_lease(path)
                return
            write_lease(path, began + settings.INTERN_HOST_SECONDS * _LEASE_OF_TERM)
            self._has_compared = self._has_compared or self._compare()
        except (DatabaseError, InterfaceError, OSError) as error:
            # A worker may come before the tables do; the next beat tries again.
            log.warning("The life sign of this machine could not be written: %s", error)
