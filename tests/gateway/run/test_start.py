"""`make run` from start to ready."""

import json
import shlex
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.support.bed import Bed
from tests.support.postgres import PostgresCluster
from tests.support.promptness import in_time
from tests.support.running import SUPERVISOR, Run, StartRun

pytestmark = pytest.mark.thorough

SECRETS = {"api_key", "management_key", "admin_password"}
# The promise is four, which the benchmark measures on a quiet machine.
SECOND_START_S = 8.0


def curl_line(run: Run) -> str:
    return next(line for line in run.stdout.splitlines() if line.startswith("curl "))


@pytest.fixture(scope="module")
def first_run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """It begins with nothing at all."""
    run = Run(tmp_path_factory.mktemp("first") / "home", {})
    run.ready()
    yield run
    run.clean_up()


def test_it_tells_programs_and_people_where_it_is(first_run: Run) -> None:
    run = first_run
    facts = run.ready()

    assert run.ready_file.stat().st_mode & 0o777 == 0o600
    assert facts["pid"] in run.children("gateway.run")
    assert facts["base_url"] == f"{facts['root_url']}/api/v1"
    assert requests.get(f"{facts['root_url']}/readyz", timeout=5).status_code == 200
    assert requests.get(facts["admin_url"], timeout=5).status_code == 200
    assert requests.get(f"{facts['simulator_url']}/_health", timeout=5).status_code == 200
    for name in ("base_url", "api_key", "management_key", "admin_url", "admin_password"):
        assert facts[name] in run.stdout
    assert {"account_id", "workspace_id", "admin_user", "version", "broker_url"} <= facts.keys()


def test_the_curl_line_works_as_pasted(first_run: Run) -> None:
    run = first_run
    facts = run.ready()

    pasted = subprocess.run(
        shlex.split(curl_line(run)), capture_output=True, text=True, timeout=30, check=True
    )

    answer = json.loads(pasted.stdout)
    assert answer["choices"][0]["message"]["content"]
    assert answer["usage"]["cost"] > 0
    for model in ("simulated/judge", "simulated/small", "simulated/reasoner"):
        check_judged(facts, model)


def check_judged(facts: dict[str, Any], model: str) -> None:
    """A question about a state, which each of the simulated models answers in its own way."""
    question = {"type": "noul", "instructions": "Is it open?"}
    answer = requests.post(
        f"{facts['base_url']}/systemone",
        headers={"Authorization": f"Bearer {facts['api_key']}"},
        json={"model": model, "state": "The door is open.", "questions": {"open": question}},
        timeout=30,
    )
    assert answer.status_code == 200, answer.text
    assert 0 <= answer.json()["answers"]["open"]["noul"] <= 1


def test_a_second_start_is_quick_and_shows_the_same_secrets(start_run: StartRun) -> None:
    first = start_run()
    secrets = {name: first.ready()[name] for name in SECRETS}
    first.stop()
    kept = first.home / "secrets" / "demo.json"
    assert kept.stat().st_mode & 0o777 == 0o600

    second = start_run()
    facts = second.ready()

    in_time(time.monotonic() - second.started_at, SECOND_START_S)
    assert {name: facts[name] for name in SECRETS} == secrets


def test_lost_secrets_are_replaced_and_the_simulator_can_be_left_out(start_run: StartRun) -> None:
    first = start_run()
    lost = first.ready()
    assert first.children("routing.simulator") != []
    first.stop()
    (first.home / "secrets" / "demo.json").unlink()

    run = start_run(SIMULATOR="0")
    found = run.ready()

    assert found["account_id"] == lost["account_id"]
    assert not {found[name] for name in SECRETS} & {lost[name] for name in SECRETS}
    # No simulated provider is left, and none of its models.
    assert found["simulator_url"] is None
    assert run.children("routing.simulator") == []
    assert f"curl -s {found['base_url']}/models" in run.stdout


def test_a_well_known_provider_is_added_by_its_key(start_run: StartRun) -> None:
    # Nothing beyond this machine is reached: nobody listens where the proxy should be.
    run = start_run(GROQ_API_KEY="gsk-made-up", ROUTER_UPSTREAM_PROXY="http://127.0.0.1:9")
    facts = run.ready()

    run.until(lambda: "gateway: add_provider groq failed (exit 1)" in run.stderr, "the attempt")
    assert "gsk-made-up" not in run.stderr
    assert run.probe("/readyz", facts["root_url"]) == 200
    run.stop()


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


def test_d3_an_absent_hint_store_degrades_and_no_more(start_run: StartRun) -> None:
    run = start_run(REDIS_URL="redis://127.0.0.1:9/0")
    facts = run.ready()

    checks = requests.get(f"{facts['root_url']}/readyz", timeout=5).json()["checks"]
    assert checks["hints"]["ok"] is False
    run.stop()


def test_d3_a_taken_port_starts_nothing(start_run: StartRun) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        run = start_run(PORT=str(other.getsockname()[1]), command=SUPERVISOR)

        assert run.process.wait(20) == 2
    assert run.stderr.startswith("gateway: PORT: cannot listen on 127.0.0.1:")
    assert run.stderr.count("\n") == 1
    assert not (run.home / "gateway.sqlite3").exists()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PORT", "eighty"),
        ("WEB_CONCURRENCY", "0"),
        ("LEDGER_TIMEOUT", "soon"),
        ("DATABASE_URL", "mysql://localhost/x"),
        ("SIMULATOR", "maybe"),
        ("SIMULATOR_PORT", "70000"),
        ("HOST", "no.such.host.invalid"),
    ],
)
def test_d3_an_odd_setting_is_named_and_starts_nothing(
    start_run: StartRun, name: str, value: str
) -> None:
    setting: dict[str, Any] = {name: value}
    run = start_run(command=SUPERVISOR, **setting)

    assert run.process.wait(20) == 2
    assert run.stderr.startswith(f"gateway: {name}: ")
    assert run.stderr.count("\n") == 1
    assert not (run.home / "gateway.sqlite3").exists()


def test_d3_settings_that_contradict_each_other_are_refused(start_run: StartRun) -> None:
    run = start_run(command=SUPERVISOR, HOLD_LEASE_SECONDS="5", ROUTER_TOTAL_TIMEOUT="60")

    assert run.process.wait(20) == 2
    assert run.stderr.startswith("gateway: HOLD_LEASE_SECONDS must be longer")
    assert run.stderr.count("\n") == 1
    run.wait_gone(within_s=1)


def test_d3_make_passes_the_refusal_on(start_run: StartRun) -> None:
    run = start_run(PORT="eighty")

    assert run.process.wait(30) == 2
    assert "gateway: PORT: " in run.stderr


def test_one_home_has_one_gateway(first_run: Run) -> None:
    first = first_run
    facts = first.ready()

    second = Run(first.home, {}, command=SUPERVISOR)

    assert second.process.wait(20) == 2
    assert "GATEWAY_HOME: another gateway runs in" in second.stderr
    assert first.probe("/readyz", facts["root_url"]) == 200
