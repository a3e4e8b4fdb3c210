"""`make run` from start to ready."""

import signal
import socket
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.support.bed import Bed
from tests.support.postgres import PostgresCluster
from tests.support.running import SUPERVISOR, StartRun

pytestmark = pytest.mark.thorough

SECRETS = {"api_key", "management_key", "admin_password"}


def test_lost_secrets_are_replaced_and_the_rest_is_optional(start_run: StartRun) -> None:
    """The second run has no simulator and no hint store, and reaches nothing beyond this machine:
    nobody listens where the proxy should be."""
    first = start_run()
    lost = first.ready()
    assert first.children("routing.simulator") != []
    first.stop()
    (first.home / "secrets" / "demo.json").unlink()
    nowhere: dict[str, Any] = {
        "ROUTER_UPSTREAM_PROXY": "http://127.0.0.1:9",
        "REDIS_URL": "redis://127.0.0.1:9/0",
    }

    run = start_run(SIMULATOR="0", GROQ_API_KEY="gsk-made-up", **nowhere)
    found = run.ready()

    assert found["account_id"] == lost["account_id"]
    assert not {found[name] for name in SECRETS} & {lost[name] for name in SECRETS}
    # No simulated provider is left, and none of its models.
    assert found["simulator_url"] is None
    assert run.children("routing.simulator") == []
    assert f"curl -s {found['base_url']}/models" in run.stdout
    # A well-known provider is added by its key.
    run.until(lambda: "gateway: add_provider groq failed (exit 1)" in run.stderr, "the attempt")
    assert "gsk-made-up" not in run.stderr
    ready = requests.get(f"{found['root_url']}/readyz", timeout=5)
    assert (ready.status_code, ready.json()["checks"]["hints"]["ok"]) == (200, False)
    # GNU make ends by the signal it got, once everything under it has ended well.
    assert run.stop(signal.SIGINT) in {0, -signal.SIGINT}
    assert not run.ready_file.exists()


def test_d3_an_absent_database_is_waited_for(
    start_run: StartRun, stores: Bed, tmp_path: Path
) -> None:
    """Both servers are the operator's own: nothing embedded is started in their place."""
    cluster = PostgresCluster(tmp_path / "pg")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    root_url = f"http://127.0.0.1:{port}"
    url = cluster.url("postgres")
    run = start_run(DATABASE_URL=url, REDIS_URL=stores.redis_url, PORT=str(port))

    run.until(lambda: "waiting for the database" in run.stderr, "the news")
    run.until(lambda: run.probe("/healthz", root_url) == 200, "liveness")
    assert run.probe("/readyz", root_url) == 503
    assert not run.ready_file.exists()

    cluster.start()
    try:
        run.ready()
        ready = requests.get(f"{root_url}/readyz", timeout=5)
        assert ready.status_code == 200
        checks = ready.json()["checks"]
        assert checks["database"]["vendor"] == "postgresql"
        assert checks["hints"] == {"ok": True, "configured": True}
        assert run.children("valkey-server") == []
        assert not (run.home / "gateway.sqlite3").exists()
        run.stop()
    finally:
        cluster.stop()


ODD: list[Any] = [
    ({"HOST": "no.such.host.invalid"}, "HOST: "),
    ({"SIMULATOR_PORT": "70000"}, "SIMULATOR_PORT: "),
    (
        {"HOLD_LEASE_SECONDS": "5", "ROUTER_TOTAL_TIMEOUT": "60"},
        "HOLD_LEASE_SECONDS must be longer",
    ),
]
ODD_AT_NIGHT = [
    pytest.param({name: value}, f"{name}: ", marks=pytest.mark.nightly)
    for name, value in {
        "WEB_CONCURRENCY": "0",
        "LEDGER_TIMEOUT": "soon",
        "DATABASE_URL": "mysql://localhost/x",
        "SIMULATOR": "maybe",
    }.items()
]


@pytest.mark.parametrize(("settings", "told"), ODD + ODD_AT_NIGHT)
def test_d3_an_odd_setting_is_named_and_starts_nothing(
    start_run: StartRun, settings: dict[str, Any], told: str
) -> None:
    run = start_run(command=SUPERVISOR, **settings)

    assert run.process.wait(20) == 2
    assert run.stderr.startswith(f"gateway: {told}")
    assert run.stderr.count("\n") == 1
    assert not (run.home / "gateway.sqlite3").exists()
    run.wait_gone(within_s=1)


def test_d3_make_passes_the_refusal_on(start_run: StartRun) -> None:
    run = start_run(PORT="eighty")
    assert run.process.wait(30) == 2
    assert "gateway: PORT: " in run.stderr
