"""Migrations beside others at work: who reads a table for long, and what an abort left."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from uuid import uuid4

import psycopg
import pytest
from django.db import IntegrityError, connection
from django.db.migrations.loader import MigrationLoader
from django.utils import timezone

from routing.history.models import GenerationFeedback
from tests.support import processes
from tests.support.bed import Bed
from tests.support.manage import manage_process

TABLE = "routing_usagerolled"
# A migration that never gives way would block the writer for ever.
PATIENCE = "-c statement_timeout=60s"
WAITS = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = %s::regclass"


@pytest.fixture
def url(stores: Bed) -> Iterator[str]:
    url = stores.create()
    yield url
    stores.drop(url)


@pytest.mark.thorough
@pytest.mark.parametrize("pooler", ["0", "1"])
def test_a_migration_gives_way_until_the_table_is_free(stores: Bed, url: str, pooler: str) -> None:
    env = stores.environment(home=stores.folder, database_url=url, redis_url="")
    env["DATABASE_POOLER"] = pooler
    run = partial(manage_process, env, "migrate", "routing", timeout_s=300)
    assert run("0030").status == 0
    with (
        psycopg.connect(url) as reader,
        psycopg.connect(url, autocommit=True, options=PATIENCE) as writer,
        ThreadPoolExecutor() as pool,
    ):
        reader.execute(f"SELECT FROM {TABLE}")
        migration = pool.submit(run)

        def is_waiting() -> bool:
            row = writer.execute(WAITS, [TABLE]).fetchone()
            return bool(row and row[0])

        processes.eventually(is_waiting, within_s=240, what="the migration's wait", log=None)
        # It stands in the queue behind the migration, and the reader never ends.
        writer.execute(f"DELETE FROM {TABLE}")  # noqa: S608 - A constant.
        reader.rollback()
        outcome = migration.result()
    assert outcome.status == 0
    assert "tried again" in outcome.stderr


@pytest.mark.django_db(transaction=True)
def test_a_migration_that_was_aborted_is_run_again_from_its_beginning() -> None:
    name, index, now = (
        "0021_feedback_leaves_with_its_generation",
        "routing_feedback_generation",
        timezone.now(),
    )
    table = GenerationFeedback._meta.db_table
    for created_at in (now - timedelta(days=3), now):
        GenerationFeedback.objects.create(
            account_id=uuid4(),
            generation_id="gen-1",
            api_key_id=1,
            category="other",
            created_at=created_at,
            generation_at=now,
        )
    with connection.cursor() as cursor:
        cursor.execute(f"DROP INDEX {index}")
        if connection.vendor == "postgresql":
            # It fails, as an abort does: an index of that name stays, which serves nobody.
            with pytest.raises(IntegrityError):
                cursor.execute(
                    f"CREATE UNIQUE INDEX CONCURRENTLY {index} ON {table} (generation_at)"
                )

    loader = MigrationLoader(connection)
    migration = loader.get_migration("routing", name)
    for _ in range(2):
        with connection.schema_editor(atomic=False) as editor:
            migration.apply(loader.project_state(migration.dependencies), editor)

    for each in GenerationFeedback.objects.all():
        assert each.generation_at == each.created_at
    with connection.cursor() as cursor:
        found = connection.introspection.get_constraints(cursor, table)[index]
    assert found["index"]
    assert not found["unique"]
