"""`make run` from start to ready, with children that die and come back, to its end."""

import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from gateway.run.child import Restarts
from tests.support.bed import Bed
from tests.support.postgres import PostgresCluster
from tests.support.promptness import in_time
from tests.support.running import SUPERVISOR, Run, StartRun, put_database

pytestmark = pytest.mark.thorough
SECRETS = {"api_key", "management_key", "admin_password"}


@pytest.fixture
def start_run(tmp_path: Path, stores: Bed) -> Iterator[StartRun]:
    """`make run` with these settings in a home of its own; nothing of it outlives the test."""
    runs: list[Run] = []

    def start(*, home: Path | None = None, command: list[str] | None = None, **env: str) -> Run:
        place = home or tmp_path / "home"
        if command is None and "DATABASE_URL" not in env:
            put_database(place, stores.migrated_file())
        run = Run(place, env, command=command)
        runs.append(run)
        return run

    yield start
    for run in runs:
        run.clean_up()


def test_lost_secrets_are_replaced_and_the_rest_is_optional(start_run: StartRun) -> None:
    """The second run has no simulator and no shared cache, and reaches nothing beyond this machine:
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
    run.wait_until(
        lambda: "gateway: add_provider groq failed (exit 1)" in run.stderr, "the attempt"
    )
    assert "gsk-made-up" not in run.stderr
    ready = requests.get(f"{found['root_url']}/readyz", timeout=5)
    assert (ready.status_code, ready.json()["checks"]["hints"]["ok"]) == (200, False)
    assert "gateway_web_processes 1.0" in requests.get(found["metrics_url"], timeout=5).text
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

    run.wait_until(lambda: "waiting for the database" in run.stderr, "the news")
    run.wait_until(lambda: run.probe("/healthz", root_url) == 200, "liveness")
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


# Others are tried by tests/outside, and how each is read by test_env.
@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"HOST": "no.such.host.invalid"}, "HOST: "),
        (
            {"HOLD_LEASE_SECONDS": "5", "ROUTER_TOTAL_TIMEOUT": "60"},
            "HOLD_LEASE_SECONDS must be longer",
        ),
    ],
)
def test_d3_an_odd_setting_is_named_and_starts_nothing(
    start_run: StartRun, settings: dict[str, Any], told: str
) -> None:
    run = start_run(command=SUPERVISOR, **settings)

    assert run.process.wait(90) == 2
    assert run.stderr.startswith(f"gateway: {told}")
    assert run.stderr.count("\n") == 1
    assert not (run.home / "gateway.sqlite3").exists()
    run.wait_gone(within_s=1)


def test_d3_make_passes_the_refusal_on(start_run: StartRun) -> None:
    run = start_run(PORT="eighty")
    assert run.process.wait(30) == 2
    assert "gateway: PORT: " in run.stderr


CHILDREN = {
    "web": "gunicorn",
    "worker": " worker@",
    "events": " events@",
    "interns": " interns@",
    "intern-control": " intern-control@",
    "destinations": " destinations@",
    "beat": " beat ",
    "simulator": "routing.simulator",
    "valkey": "valkey-server",
}


def test_a_child_that_dies_comes_back_but_not_the_fifth_time(start_run: StartRun) -> None:
    run = start_run()
    facts = run.ready()
    run.wait_until(lambda: all(run.children(part) for part in CHILDREN.values()), "all of them")
    first = {name: run.children(part) for name, part in CHILDREN.items()}

    for pids in first.values():
        os.kill(pids[0], signal.SIGKILL)

    for name, part in CHILDREN.items():
        news = f"gateway: {name} died (SIGKILL); restarting in 0.5 s"
        run.wait_until(lambda news=news: news in run.stderr, news)  # type: ignore[misc]  # Bound now.
        run.wait_until(lambda n=name, p=part: not set(run.children(p)) <= set(first[n]), name)  # type: ignore[misc]  # Bound now.
    run.wait_until(lambda: run.probe("/readyz", facts["root_url"]) == 200, "readiness")
    run.wait_until(lambda: run.probe("/_health", facts["simulator_url"]) == 200, "the simulator")
    while run.process.poll() is None:
        for pid in run.children(" beat "):
            os.kill(pid, signal.SIGKILL)
        run.wait_until(
            lambda: bool(run.children(" beat ")) or run.process.poll() is not None,
            "beat or the end",
        )

    assert run.process.returncode != 0
    assert "gateway: beat died 5 times within a minute; giving up" in run.stderr
    assert run.stderr.count("beat died (SIGKILL)") == 4
    run.wait_gone(within_s=1)


def test_the_back_off_doubles_and_forgets_and_the_fifth_death_in_a_minute_is_the_last() -> None:
    restarts = Restarts()
    assert [restarts.after_death(now) for now in (0, 1, 2, 3)] == [0.5, 1, 2, 4]
    assert restarts.after_death(200) == 0.5
    restarts = Restarts()
    assert [restarts.after_death(now) for now in (0, 10, 20, 30, 59)][-1] is None


STOP_S = 10.0


# At every commit SIGINT to make is tried at the end of a start, SIGTERM to the pid in
# tests/outside.
@pytest.mark.nightly
@pytest.mark.parametrize(("number", "whom"), [(signal.SIGTERM, "make"), (signal.SIGINT, "its pid")])
def test_a_signal_stops_it(start_run: StartRun, number: int, whom: str) -> None:
    run = start_run()
    pid = run.ready()["pid"]
    asked = time.monotonic()

    status = run.stop(number, pid=pid if whom == "its pid" else None)

    # GNU make ends by the signal it got, once everything under it has ended well.
    assert status in ({0} if whom == "its pid" else {0, -number})
    in_time(time.monotonic() - asked, STOP_S)
    assert not run.ready_file.exists()


def test_a_stop_during_the_start_leaves_nothing(start_run: StartRun) -> None:
    run = start_run()
    run.wait_until(lambda: bool(run.children("gateway.run.prepare")), "preparing")
    run.stop(signal.SIGTERM)
    assert not run.ready_file.exists()
