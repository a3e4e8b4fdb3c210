"""`manage.py migrate` beside somebody who reads a table for long."""

import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import psycopg
import pytest

from tests.support import processes
from tests.support.bed import Bed
from tests.support.manage import manage_process

TABLE = "routing_usagerolled"
WAITS = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = %s::regclass"


@pytest.mark.thorough
def test_a_migration_gives_way_until_the_table_is_free(stores: Bed) -> None:
    if not stores.is_postgres:
        return
    url = stores.create()
    env = stores.environment(home=stores.folder, database_url=url, redis_url="")
    run = partial(manage_process, env, "migrate", "routing", timeout_s=300)
    assert run("0030").status == 0
    with (
        psycopg.connect(url) as reader,
        psycopg.connect(url, autocommit=True) as writer,
        ThreadPoolExecutor() as pool,
    ):
        reader.execute(f"SELECT FROM {TABLE}")
        migration = pool.submit(run)

        def is_waiting() -> bool:
            row = writer.execute(WAITS, [TABLE]).fetchone()
            return bool(row and row[0])

        processes.eventually(is_waiting, within_s=240, what="the migration's wait", log=None)
        begun = time.monotonic()
        # It stands in the queue behind the migration, and the reader never ends.
        writer.execute(f"DELETE FROM {TABLE}")  # noqa: S608 - A constant.
        assert time.monotonic() - begun < 10
        reader.rollback()
        outcome = migration.result()
    assert outcome.status == 0
    assert "tried again" in outcome.stderr
    stores.drop(url)
