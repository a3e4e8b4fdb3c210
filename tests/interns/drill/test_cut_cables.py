"""A machine that lost its cable, as PostgreSQL sees it and as the machine does."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.interns.drill.cables import Cable, may_lay
from tests.support import processes
from tests.support.bed import Bed
from tests.support.manage import PROJECT
from tests.support.postgres import USER, PostgresCluster

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(300)]
# Three keepalives after ten seconds of silence, or what was sent and stays unanswered so long.
NOTICE_S = 40.0
HOLD = """
import time, django
django.setup()
from django.db import connection, transaction
with transaction.atomic(), connection.cursor() as cursor:
    cursor.execute("SELECT pg_advisory_xact_lock(7)")
    print("held", flush=True)
    {then}
"""


@pytest.fixture
def cable() -> Iterator[Cable]:
    if not may_lay():
        pytest.skip("networks are root's to make")
    cable = Cable(9)
    cable.lay()
    yield cable
    cable.take_away()


@pytest.fixture
def cluster(cable: Cable, tmp_path: Path) -> Iterator[PostgresCluster]:
    cluster = PostgresCluster(tmp_path / "p", tcp=True, address=cable.address)
    cluster.start()
    yield cluster
    cluster.stop()


@contextmanager
def begin(cable: Cable, cluster: PostgresCluster, bed: Bed, then: str) -> Iterator[Any]:
    """A process beyond the cable that has a lock, and then does this inside its transaction."""
    log = cluster.folder.parent / "held.log"
    url = f"postgresql://{USER}@{cable.address}:{cluster.port}/postgres"
    holder = processes.spawn(
        [*cable.prefix, sys.executable, "-c", HOLD.format(then=then)],
        log=log,
        env=bed.environment(home=log.parent, database_url=url, redis_url=""),
        cwd=PROJECT,
    )
    try:
        processes.eventually(lambda: "held" in log.read_text(), within_s=60, what="it", log=log)
        yield holder
    finally:
        processes.kill(holder)


def test_locks_of_a_machine_without_its_cable_are_free_within_the_minute(
    cable: Cable, cluster: PostgresCluster, stores: Bed
) -> None:
    with (
        begin(cable, cluster, stores, "time.sleep(600)"),
        psycopg.connect(cluster.url("postgres")) as other,
    ):
        cable.pull()
        begun = time.monotonic()
        other.execute("SELECT pg_advisory_xact_lock(7)")
        assert time.monotonic() - begun < NOTICE_S


def test_a_machine_that_waits_for_an_answer_without_its_cable_gives_up_within_the_minute(
    cable: Cable, cluster: PostgresCluster, stores: Bed
) -> None:
    with begin(cable, cluster, stores, "cursor.execute('SELECT pg_sleep(600)')") as holder:
        cable.pull()
        # It ends by an exception of the database's.
        assert holder.wait(NOTICE_S) == 1
