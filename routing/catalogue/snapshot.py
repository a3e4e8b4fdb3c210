"""The catalogue a process serves: loaded at first use, replaced whole when the version moved."""

import atexit
import gc
import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Final

from django.conf import settings
from django.db import DatabaseError, InterfaceError, connection
from django.utils import timezone

from gateway.database.db import Lane, run_queries
from gateway.eventloop import run_in_thread
from gateway.http.errors import Unavailable
from gateway.http.jsonio import JsonObject
from routing.catalogue.assembly import assemble, read_rows
from routing.catalogue.version import CatalogueServing, current_version
from routing.entities.entries import Snapshot

log = logging.getLogger("routing.catalogue")
REPORT_S: Final = 5.0
# A killed process leaves its row behind; after this many seconds no load waits for it.
STALE_S: Final = 30.0


def build_snapshot() -> Snapshot:
    """Read and assemble the catalogue as it is now. Raises `DatabaseError`."""
    with _collector_disabled():
        # Not the lane of the hot path's reads: a big catalogue would hold them up.
        rows = run_queries(Lane.OPERATOR, read_rows)
        return run_in_thread(lambda: assemble(rows))


@contextmanager
def _collector_disabled() -> Iterator[None]:
    """Keep the garbage collector out: the many new objects would set off full collections.

    A full collection holds every thread for as long as it takes: 280 ms and more were seen on a
    busy machine with 10,000 endpoints. And a snapshot has no cycles to find.
    """
    collects, keeps_frozen = gc.isenabled(), gc.get_freeze_count() > 0
    if collects and keeps_frozen:
        # What is garbage now would be frozen with the rest; little is left to look at here.
        gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            # Together these call the new objects old without looking at each. The next collection
            # of the young would look (150 ms and more on the same machine).
            gc.freeze()
            if not keeps_frozen:
                # Web workers froze what they loaded (`gateway.server.worker`), and collections
                # would go through it again from now on; there the catalogue stays frozen too.
                gc.unfreeze()
            gc.enable()


def list_served_versions() -> dict[str, int]:
    """The version each live process serves, by its name."""
    alive = timezone.now() - timedelta(seconds=STALE_S)
    rows = CatalogueServing.objects.filter(seen_at__gte=alive)
    return dict(rows.values_list("process", "version"))


class Catalogue:
    """The process's one view of the catalogue."""

    def __init__(self) -> None:
        self._snapshot: Snapshot | None = None
        self._loading = threading.Lock()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._process = ""
        self._reported: tuple[int, float] | None = None
        self._failing = False

    def current(self) -> Snapshot:
        """The snapshot to serve a request from.

        Raises `Unavailable` while none could be loaded yet because the database does not answer.
        """
        if self._snapshot is None:
            try:
                with self._loading:
                    if self._snapshot is None:
                        self._serve(build_snapshot())
            except (DatabaseError, InterfaceError) as error:
                log.warning("catalogue not loaded: %s", error)
                raise Unavailable from error
        assert self._snapshot is not None
        return self._snapshot

    def _serve(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        if self._thread is not None:
            fields = {"version": snapshot.version, "endpoints": snapshot.endpoint_count}
            log.info("Catalogue version %(version)d, %(endpoints)d endpoints", fields, extra=fields)
        for problem in snapshot.problems:
            log.error("catalogue %s: %s", snapshot.version, problem)

    def refresh_if_changed(self) -> bool:
        """Load the catalogue again if its version moved. Raises `DatabaseError`."""
        version = run_queries(Lane.READ, current_version)
        if self._snapshot is not None and version == self._snapshot.version:
            return False
        with self._loading:
            self._serve(build_snapshot())
        return True

    def forget(self) -> None:
        """Drop the snapshot, so that the next use reads the database (tests roll versions back)."""
        self._snapshot = None

    def start_polling(self) -> None:
        """Follow changes in the background and report the version served; call after a fork."""
        if self._thread is not None:
            return
        self._process = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
        self._stopping.clear()
        self._thread = threading.Thread(target=self._poll, name="catalogue", daemon=True)
        self._thread.start()
        atexit.register(self.stop_polling)

    def stop_polling(self) -> None:
        """Stop following and take back the report."""
        if self._thread is None:
            return
        self._stopping.set()
        self._thread.join(timeout=1)
        self._thread = None
        atexit.unregister(self.stop_polling)
        try:
            run_queries(
                Lane.OPERATOR, CatalogueServing.objects.filter(process=self._process).delete
            )
        except (DatabaseError, InterfaceError) as error:
            log.info("catalogue report stays behind: %s", error)

    def _poll(self) -> None:
        while not self._stopping.is_set():
            try:
                self.refresh_if_changed()
                self._report()
                self._failing = False
            except Exception as error:
                # The poller outlives a bad row and a lost database. The old snapshot stays, and the
                # error is logged once until a refresh succeeds.
                if not self._failing:
                    known = isinstance(error, DatabaseError | InterfaceError)
                    trace = None if known else error
                    log.error("catalogue not refreshed: %s", error, exc_info=trace)
                self._failing = True
                connection.close_if_unusable_or_obsolete()
            self._stopping.wait(settings.CATALOGUE_POLL_SECONDS)
        connection.close()

    def _report(self) -> None:
        assert self._snapshot is not None
        version = self._snapshot.version
        now = time.monotonic()
        if self._reported and self._reported[0] == version and now - self._reported[1] < REPORT_S:
            return
        row: JsonObject = {"version": version, "seen_at": timezone.now()}
        reports = CatalogueServing.objects
        run_queries(
            Lane.OPERATOR, lambda: reports.update_or_create(process=self._process, defaults=row)
        )
        self._reported = (version, now)


catalogue = Catalogue()
