"""With pgbouncer in transaction mode between, what D2 asks for holds. No statement misses what an
earlier transaction left on a connection that is another one now."""

import time
from collections.abc import Iterator

import pytest

from tests.conformance.desk import Desk
from tests.faults import bench
from tests.faults.conftest import Open
from tests.faults.faulty_postgres import FaultyPostgres
from tests.faults.steady import Steady
from tests.faults.test_d2_database_dies import check_calls, outage, wait_refused
from tests.support.bed import Bed
from tests.support.pgbouncer import PgBouncer, is_installed

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(not is_installed(), reason="pgbouncer is not installed"),
]
# Fewer than the callers, so that each transaction gets whichever is free.
CONNECTIONS = 4


@pytest.fixture
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultyPostgres]:
    folder = tmp_path_factory.mktemp("pg")
    folder.chmod(0o755)
    cluster = FaultyPostgres(folder / "cluster")
    cluster.start()
    yield cluster
    cluster.stop()


@pytest.fixture
def desk(
    postgres: FaultyPostgres,
    stores: Bed,
    desk_on: Open,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Desk]:
    pooler = PgBouncer(tmp_path_factory.mktemp("pooler"), postgres, connections=CONNECTIONS)
    pooler.start()
    postgres.fill("gateway_pooled", stores)
    url = pooler.url("gateway_pooled")
    desk = desk_on(bench.plain_models(), database_url=url, DATABASE_POOLER="1")
    yield desk
    desk.server.kill()
    pooler.stop()
    postgres.mend()


def test_requests_and_books_through_a_restart_of_the_database(
    desk: Desk, postgres: FaultyPostgres
) -> None:
    account = desk.account
    with Steady(desk, callers=8, pause_s=0.02) as load:
        load.wait_until(200, 100, since=time.monotonic())
        # Analytics and management set limits of their own, for their transaction alone.
        for path in ("/api/v1/credits", "/api/v1/keys", "/api/v1/activity"):
            assert desk.server.get(path, key=account.management_key).status_code == 200
        with outage(desk, load):
            postgres.crash()
            wait_refused(load)
            postgres.revive()

    check_calls(desk, load)
    assert desk.server.get("/readyz").status_code == 200
    log = desk.server.log()
    assert "prepared statement" not in log
    assert "Traceback" not in log
