"""Migrations of large tables while others write: how long these wait for their lock."""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread

import psycopg
import pytest
from psycopg import sql

from tests.support.bed import Bed
from tests.support.manage import ManageHost

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(3600)]
ROWS = int(os.environ.get("GATEWAY_TEST_ROWS", "300000"))
LOCK_S = 1.0
# What was there before the tables that grow with requests were first moved.
BEFORE = (("accounts", "0031"), ("interns", "0001"), ("routing", "0018"))
# Those with a row for each request may have more than those that sum up or are written by hand.
GROWING = dict.fromkeys(
    (
        *("routing_generation", "routing_generationfact", "routing_failedrequest"),
        "accounts_ledgerentry",
    ),
    ROWS,
) | dict.fromkeys(
    (
        *("routing_generationfeedback", "routing_usagehour"),
        *("accounts_auditrecord", "accounts_spendcounter"),
    ),
    min(ROWS, 1_000_000),
)
# A value for each type, of row number g.
_VALUES = {
    "uuid": "gen_random_uuid()",
    "boolean": "false",
    "jsonb": "'{}'",
    "bytea": "''",
    "timestamp with time zone": "now() - g * interval '1 second'",
    "date": "current_date",
}
_OWN = {"kind": "'usage'", "rating": "'up'", "status": "200"}


def write_line(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def fill(database: "psycopg.Connection[tuple[object, ...]]", table: str) -> None:
    """Rows whose references nobody checks."""
    columns = database.execute(
        "SELECT column_name, data_type FROM information_schema.columns WHERE table_name = %s"
        " AND is_nullable = 'NO' AND is_identity = 'NO' AND column_default IS NULL",
        [table],
    ).fetchall()
    values = {
        str(name): _OWN.get(str(name))
        or _VALUES.get(str(kind), "g::text" if "char" in str(kind) or kind == "text" else "g % 100")
        for name, kind in columns
    }
    statement = sql.SQL("INSERT INTO {} ({}) SELECT {} FROM generate_series(1, {}) g").format(
        sql.Identifier(table),
        sql.SQL(", ").join(map(sql.Identifier, values)),
        sql.SQL(", ").join(map(sql.SQL, values.values())),
        GROWING[table],
    )
    database.execute(statement)


class Writers:
    """One per table, who asks each 50 ms for the lock that a writer takes."""

    def __init__(self, url: str) -> None:
        self._url, self._over = url, Event()
        self.longest_s = dict.fromkeys(GROWING, 0.0)

    @contextmanager
    def at_work(self) -> Iterator[None]:
        threads = [Thread(target=self._write, args=[table]) for table in GROWING]
        for each in threads:
            each.start()
        try:
            yield
        finally:
            self._over.set()
            for each in threads:
                each.join()

    def take(self) -> dict[str, float]:
        """The longest waits since the last time, seconds."""
        found, self.longest_s = self.longest_s, dict.fromkeys(GROWING, 0.0)
        return found

    def _write(self, table: str) -> None:
        lock = sql.SQL("LOCK TABLE {} IN ROW EXCLUSIVE MODE").format(sql.Identifier(table))
        with psycopg.connect(self._url) as database:
            while not self._over.wait(0.05):
                begun = time.monotonic()
                database.execute(lock)
                database.rollback()
                took_s = time.monotonic() - begun
                self.longest_s[table] = max(self.longest_s[table], took_s)


@pytest.fixture
def url(stores: Bed) -> Iterator[str]:
    url = stores.create(migrated=False)
    yield url
    stores.drop(url)


@pytest.fixture
def host(stores: Bed, url: str) -> Iterator[ManageHost]:
    host = ManageHost(stores.environment(home=stores.folder, database_url=url, redis_url=""))
    yield host
    host.close()


def test_no_migration_keeps_writers_of_a_large_table_waiting(url: str, host: ManageHost) -> None:
    for app, number in BEFORE:
        assert host.run("migrate", app, number).status == 0
    with psycopg.connect(url) as database:
        database.execute("SET session_replication_role = replica")
        for table in GROWING:
            begun = time.monotonic()
            fill(database, table)
            write_line(f"{table}: {GROWING[table]} rows in {time.monotonic() - begun:.1f} s")
    with psycopg.connect(url, autocommit=True) as database:
        database.execute("ANALYZE")
    plan = host.run("showmigrations", "--plan").stdout.splitlines()
    waits: dict[str, tuple[float, str, float]] = {}
    writers = Writers(url)
    with writers.at_work():
        for line in plan:
            if line.startswith("[ ]"):
                app, name = line.split()[2].split(".")
                writers.take()
                begun = time.monotonic()
                done = host.run("migrate", app, name)
                took_s = time.monotonic() - begun
                assert done.status == 0, done.stderr
                table, longest_s = max(writers.take().items(), key=lambda each: each[1])
                waits[f"{app}.{name}"] = (longest_s, table, took_s)
                write_line(f"{app}.{name}: {longest_s:.2f} s of {took_s:.1f} s, {table}")
    assert {name: each for name, each in waits.items() if each[0] > LOCK_S} == {}
