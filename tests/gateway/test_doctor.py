"""`manage.py doctor` on deployments that have something wrong with them, and `wait_ready`."""

import os
from pathlib import Path
from typing import Any

import psycopg
import pytest
import redis

from tests.support import processes
from tests.support.gateways import StartGateway
from tests.support.manage import manage_process
from tests.support.processes import children
from tests.support.server import STOP_S, GatewayServer, as_json
from tests.support.valkey import ValkeyServer

Findings = dict[str, list[tuple[str, str]]]


def ask(server: GatewayServer, *options: str) -> tuple[int, Findings]:
    """The exit status, and by subject what was found: its state and its words."""
    outcome = server.run_command("doctor", "--json", *options)
    found: Findings = {}
    for each in outcome.json()["findings"]:
        found.setdefault(each["subject"], []).append((each["state"], each["text"]))
    return outcome.status, found


def execute(server: GatewayServer, statement: str) -> None:
    with psycopg.connect(server.env["DATABASE_URL"], autocommit=True) as connection:
        connection.execute(statement)


@pytest.fixture
def server(start_gateway: StartGateway, valkey: ValkeyServer) -> GatewayServer:
    return start_gateway(worker=True, REDIS_URL=valkey.url)


def test_the_doctor_says_what_is_wrong_and_what_to_do(
    server: GatewayServer, valkey: ValkeyServer, tmp_path: Path
) -> None:
    def worker() -> Any:
        return as_json(server.get("/readyz"))["checks"]["worker"]

    server.wait_until(lambda: worker()["queues"]["celery"] is True)
    others = dict.fromkeys(("events", "interns", "intern-control", "destinations"), False)
    assert worker() == {"ok": False, "queues": {"celery": True, **others}}
    backup = tmp_path / "backups" / "gateway.dump"
    backup.parent.mkdir()
    backup.touch()
    own = ["--url", server.root_url, "--backups", str(backup.parent)]

    status, found = ask(server, *own)

    assert found["database durability"][0][0] == "problem"  # The test's server has no fsync.
    assert found["database"][0][0] == found["migrations"][0][0] == found["disk"][0][0] == "ok"
    assert found["redis policy"] == [("ok", "maxmemory-policy is noeviction")]
    assert [state for state, _ in found["clock"]] == ["ok", "ok"]
    assert found["address"] == [("ok", f"{server.root_url} is ready")]
    assert found["backups"][0][0] == "ok"
    assert ("ok", "a worker reads celery") in found["workers"]
    assert ("problem", "nobody reads the queue destinations") in found["workers"]
    assert found["beat"] == [("problem", "beat has sent nothing for half a minute")]
    assert found["catalogue"] == [("warning", "no endpoint is offered")]
    assert found["settings"] == [("warning", "these are settings for development")]

    os.utime(backup, (1, 1))
    redis.Redis.from_url(valkey.url).config_set("maxmemory-policy", "allkeys-lru")
    execute(server, "DELETE FROM django_migrations WHERE app = 'routing' AND name LIKE '0001%'")
    execute(server, "INSERT INTO django_migrations VALUES (9999, 'routing', '9999_later', now())")

    status, found = ask(server, *own, "--url", "http://127.0.0.1:9")

    assert status == 1
    assert found["redis policy"] == [("problem", "maxmemory-policy is allkeys-lru")]
    states = dict(found["migrations"])
    assert states["problem"].startswith("routing.0001_")
    assert states["warning"] == "routing.9999_later is unknown to this version"
    assert found["backups"][0][0] == "problem"
    assert found["address"] == [("problem", "http://127.0.0.1:9 is not ready")]
    [(_, line)] = [each for each in found["database rights"] if each[0] != "ok"]
    assert "superuser" in line


def test_a_version_whose_tables_are_not_there_yet_is_not_ready(
    start_gateway: StartGateway,
) -> None:
    server = start_gateway.build()
    execute(server, "DELETE FROM django_migrations WHERE app = 'routing' AND name LIKE '0001%'")

    server.start(until_ready=False)

    def is_refused() -> bool:
        answer = server.get("/readyz")
        return answer.status_code == 503 and not as_json(answer)["checks"]["migrations"]["ok"]

    server.wait_until(is_refused, within_s=30)


@pytest.mark.thorough
def test_who_waits_for_a_master_hears_when_all_its_workers_accept(
    start_gateway: StartGateway,
) -> None:
    """Two masters share a socket, so that HTTP would not tell which of them answers."""
    server = start_gateway(is_forked=False, WEB_CONCURRENCY="2")
    first = server._web
    assert first is not None
    assert server.manage("wait_ready", "--pid", str(first.pid))["ready"]
    server.start(until_ready=False)
    second = server.pid
    own = ["--pid", str(second), "--url", server.root_url]

    assert server.manage("wait_ready", *own)["ready"]
    assert len(children(second)) == 2
    # Any other process has no workers that accept.
    refused = server.run_command("wait_ready", "--pid", str(os.getpid()), "--seconds", "0.3")
    assert (refused.status, "do not accept yet" in refused.stderr) == (1, True), refused

    processes.stop(first, grace_s=STOP_S)
    gone = server.run_command("wait_ready", "--pid", str(first.pid))
    assert (gone.status, f"There is no process {first.pid}." in gone.stderr) == (1, True), gone


def test_who_migrates_waits_for_a_database_that_comes_later(start_gateway: StartGateway) -> None:
    server = start_gateway.build()
    assert server.manage("wait_ready", "--database")["ready"]
    gone = {**server.env, "DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none"}
    refused = manage_process(gone, "wait_ready", "--database", "--seconds", "0.3")
    assert (refused.status, "Not ready after 0.3 s" in refused.stderr) == (1, True), refused
    assert refused.stderr.startswith("Waiting: "), refused
