"""A PostgreSQL of a test's own, for everything that can happen to one."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import psycopg

from tests.support import processes
from tests.support.bed import Bed
from tests.support.postgres import PostgresCluster, binaries

START_S = 20.0


class FaultyPostgres(PostgresCluster):
    """Dies, freezes, fills up and refuses to write on command. Without fsync: what was written
    outlives every process of it, and no test here cuts the power."""

    def fill(self, database: str, bed: Bed) -> str:
        """A new migrated database; returns its URL."""
        self.create(database)
        url = self.url(database)
        dump = subprocess.run(
            [binaries() / "pg_dump", bed.url_of(bed.migrated_template())],
            check=True,
            stdout=subprocess.PIPE,
        )
        subprocess.run(
            [binaries() / "psql", "-q", "-v", "ON_ERROR_STOP=1", url],
            check=True,
            input=dump.stdout,
            stdout=subprocess.DEVNULL,
        )
        return url

    def crash(self) -> None:
        """SIGKILL to the postmaster; its children end as soon as they see it."""
        assert self._process is not None
        self._process.kill()
        self._process.wait(10)

    def revive(self) -> None:
        """Start after a crash, once the dead one's shared memory is free."""

        def is_started() -> bool:
            try:
                self.start()
            except RuntimeError:
                return False
            return True

        log = self.folder / "postgres.log"
        processes.eventually(is_started, within_s=START_S, what="the restart", log=log)

    def freeze(self) -> None:
        """SIGSTOP to all its processes: connections stay open and nothing answers."""
        assert self._process is not None
        # The postmaster first: it has no new children afterwards.
        send_signal(self.pid, signal.SIGSTOP)
        for pid in processes.children(self.pid):
            send_signal(pid, signal.SIGSTOP)

    def thaw(self) -> None:
        for pid in (*processes.children(self.pid), self.pid):
            send_signal(pid, signal.SIGCONT)

    def mend(self) -> None:
        """Whatever a failed test left it in, it answers again."""
        assert self._process is not None
        if self._process.poll() is None:
            self.thaw()
        else:
            self.revive()

    @contextmanager
    def no_room(self, database: str) -> Iterator[None]:
        """Others hold every connection there is; those of `database` are ended first."""
        with ExitStack() as others:
            first = others.enter_context(psycopg.connect(self.url("postgres"), autocommit=True))
            first.execute("ALTER DATABASE " + database + " CONNECTION LIMIT 0")
            while True:
                first.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s",
                    [database],
                )
                try:
                    others.enter_context(psycopg.connect(self.url("postgres")))
                except psycopg.OperationalError:
                    break
            first.execute("ALTER DATABASE " + database + " CONNECTION LIMIT -1")
            yield

    @contextmanager
    def read_only(self) -> Iterator[None]:
        """As after an operator's slip, or on a standby."""
        self._set_default("on")
        try:
            yield
        finally:
            self._set_default("off")

    def _set_default(self, value: str) -> None:
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute("SET default_transaction_read_only = off")
            connection.execute(f"ALTER SYSTEM SET default_transaction_read_only = {value}")
            connection.execute("SELECT pg_reload_conf()")


def send_signal(pid: int, number: signal.Signals) -> None:
    """A backend may end between being listed and being told."""
    with suppress(ProcessLookupError):
        os.kill(pid, number)
