"""An upgrade as the docs have it. The version before the newest migration serves, and tables move
on. Then this version starts beside it on the same socket, and the former one stops."""

import io
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from routing.simulator.testing import SimulatedUpstream
from tests.conformance.desk import Desk
from tests.faults import bench
from tests.faults.steady import Asked, Steady
from tests.faults.test_d2_database_dies import check_calls
from tests.support import processes
from tests.support.bed import Bed
from tests.support.crowds import Between, counting_gateway
from tests.support.gateways import StartGateway, seed_account
from tests.support.manage import PROJECT, Outcome, manage_process
from tests.support.promptness import PATIENCE_S
from tests.support.server import STOP_S, GatewayServer

pytestmark = pytest.mark.nightly
# They end within the grace of the version that stops.
STREAMS = {"streams": 30, "tokens": 40, "tokens_per_s": 20}
CALLERS, ENOUGH = 4, 40
COMMAND_S = 300
READS = (
    *("/api/v1/credits", "/api/v1/keys", "/api/v1/activity"),
    *("/api/v1/analytics/meta", "/api/v1/workspaces"),
)


def run_git(*arguments: str) -> bytes:
    command = ["git", *arguments]
    return subprocess.run(command, cwd=PROJECT, capture_output=True, check=True).stdout


@pytest.fixture
def former(tmp_path: Path) -> Path:
    """A checkout of the last version that knew nothing of the newest migration."""
    try:
        added = ["--diff-filter=A", "--format=%H", "--", "*/migrations/0*.py"]
        newest = run_git("log", "-1", *added).decode().strip()
        archive = run_git("archive", f"{newest}^")
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("the checkout has no history")
    folder = tmp_path / "former"
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(folder, filter="data")
    return folder


def find_last_migration(project: Path, app: str) -> str:
    return max(file.stem for file in project.glob(f"{app}/migrations/0*.py"))


class Reconnecting(Steady):
    """Opens another connection where an answer ended the last one, as clients do."""

    def _ask(self, connection: HTTPConnection, tag: str) -> Asked:
        connection.auto_open = 1
        return super()._ask(connection, tag)


@pytest.fixture
def former_desk(
    stores: Bed, former: Path, simulator: SimulatedUpstream, tmp_path: Path
) -> Iterator[Desk]:
    """The former version with a worker, on tables as it knows them."""
    simulator.clear()
    url = stores.create()
    env = stores.environment(home=tmp_path, database_url=url, redis_url="")
    for app in ("accounts", "interns", "routing"):
        known, own = (find_last_migration(folder, app) for folder in (former, PROJECT))
        if known != own:
            undone = manage_process(env, "migrate", app, known, timeout_s=COMMAND_S)
            assert undone.status == 0, undone.stderr
    with StartGateway(stores, tmp_path) as starter:
        options: dict[str, Any] = {"database_url": url, "project": former, "worker": True}
        options["is_forked"] = False
        with counting_gateway(starter, tmp_path, **options) as between:
            catalogue = tmp_path / "plain.yaml"
            catalogue.write_text(bench.as_yaml(bench.personas(simulator), bench.plain_models()))
            server = between.server
            server.manage("load_catalogue", str(catalogue))
            yield Desk(server, simulator, between.account, "plain/first")
    stores.drop(url)


def run_new(server: GatewayServer, *arguments: str) -> Outcome:
    outcome = manage_process(dict(server.env), *arguments, timeout_s=COMMAND_S)
    assert outcome.status == 0, outcome
    return outcome


def read_all(desk: Desk) -> None:
    """Management, by whichever of both answers."""
    for path in READS * 4:
        answer = desk.server.get(path, key=desk.account.management_key)
        assert answer.status_code == 200, (path, answer.text)


def test_an_upgrade_under_load_fails_nobody_and_the_books_agree(
    former_desk: Desk, former: Path
) -> None:
    desk, server = former_desk, former_desk.server
    old_web, old_worker = server._web, server._worker
    assert old_web
    assert old_worker
    crowds = Between(server, seed_account(server, credits_usd="1000"))
    with Reconnecting(desk, callers=CALLERS, pause_s=0.05) as load:
        load.wait_until(200, ENOUGH, since=0)
        run_new(server, "migrate")
        read_all(desk)
        # What the former worker does on a schedule, on tables of this version, and the way back.
        assert server.run_command("roll_up_usage").status == 0
        run_new(server, "downgrade_check", str(former))
        load.wait_until(200, ENOUGH, since=time.monotonic())

        server.project = PROJECT
        server.start()  # A second master on the same socket, and a second worker.
        run_new(server, "wait_ready", "--pid", str(server.pid))
        load.wait_until(200, ENOUGH, since=time.monotonic())
        read_all(desk)
        run_new(server, "roll_up_usage")
        with crowds.crowd(**STREAMS) as streams:
            streams.wait_open()
            old_web.send_signal(signal.SIGTERM)
            old_web.wait(STOP_S + PATIENCE_S)
            flowed = streams.end()
        processes.stop(old_worker, grace_s=STOP_S)
        load.wait_until(200, ENOUGH, since=time.monotonic())
        read_all(desk)

    failed = [one for one in load.asked if one.status != 200]
    assert failed == []
    assert (flowed["whole"], flowed["broken"]) == (STREAMS["streams"], 0), flowed
    check_calls(desk, load)
    assert "Traceback" not in server.log()
    audit = run_new(server, "audit_ledger", "--json").json()
    assert (audit["mismatches"], audit["open_holds"]) == ([], 0)
    sys.stdout.write(f"{len(load.asked)} requests\n")
