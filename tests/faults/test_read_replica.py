"""Sums are read from a standby of the database, and from the database where it is gone."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import psycopg
import pytest

from routing.simulator.testing import SimulatedUpstream
from tests.faults import bench
from tests.faults.faulty_postgres import FaultyPostgres
from tests.support.bed import Bed
from tests.support.gateways import SeededAccount, StartGateway, seed_account
from tests.support.server import GatewayServer

pytestmark = pytest.mark.thorough
HELLO = [{"role": "user", "content": "Hello"}]


@pytest.fixture
def clusters(stores: Bed) -> Iterator[tuple[FaultyPostgres, FaultyPostgres]]:
    """A primary with a migrated database, and its standby."""
    folder = stores.folder / "replicas"
    primary, standby = FaultyPostgres(folder / "a"), FaultyPostgres(folder / "b")
    with ExitStack() as ends:
        ends.callback(primary.stop)
        primary.start()
        primary.fill("gateway", stores)
        standby.follow(primary)
        ends.callback(standby.stop)
        standby.start()
        yield primary, standby


def ask(server: GatewayServer, account: SeededAccount) -> None:
    answer = server.chat(key=account.api_key, model="replicated/model", messages=HELLO)
    assert answer.status_code == 200, answer.text


def count_requests(server: GatewayServer, account: SeededAccount) -> int:
    body = {"metrics": ["request_count"]}
    path, key = "/api/v1/analytics/query", account.management_key
    answer = server.request("POST", path, key=key, json=body)
    assert answer.status_code == 200, answer.text
    rows = answer.json()["data"]["data"]
    return int(rows[0]["request_count"]) if rows else 0


def find_replica(server: GatewayServer) -> tuple[str, str]:
    findings: list[dict[str, Any]] = json.loads(server.run_command("doctor", "--json").stdout)[
        "findings"
    ]
    (found,) = [each for each in findings if each["subject"] == "read replica"]
    return found["state"], found["text"]


def test_sums_come_from_the_standby_while_it_answers(
    clusters: tuple[FaultyPostgres, FaultyPostgres],
    start_gateway: StartGateway,
    simulator: SimulatedUpstream,
) -> None:
    primary, standby = clusters
    simulator.clear()
    catalogue = bench.as_yaml(
        bench.personas(simulator), [bench.model("replicated/model", bench.endpoint("first"))]
    )
    server = start_gateway.with_catalogue(
        catalogue, database_url=primary.url("gateway"), DATABASE_READ_URL=standby.url("gateway")
    )
    account = seed_account(server)
    ask(server, account)
    server.wait_until(lambda: count_requests(server, account) == 1)
    assert find_replica(server)[0] == "ok"

    with psycopg.connect(standby.url("postgres"), autocommit=True) as connection:
        connection.execute("SELECT pg_wal_replay_pause()")
        ask(server, account)
        assert count_requests(server, account) == 1
        connection.execute("SELECT pg_wal_replay_resume()")
        server.wait_until(lambda: count_requests(server, account) == 2)

    standby.freeze()
    try:
        ask(server, account)
        assert count_requests(server, account) == 3
    finally:
        standby.thaw()

    standby.stop()
    ask(server, account)
    assert count_requests(server, account) == 4
    assert find_replica(server)[0] == "warning"
