"""D4: the commands of docs/operations.md, as they stand there, against a gateway under load."""

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from routing.simulator.testing import SimulatedUpstream
from tests.conformance.desk import Desk
from tests.faults import bench
from tests.faults.conftest import loaded
from tests.support.bed import Bed
from tests.support.gateways import StartGateway, seed_account
from tests.support.ledger import Ledger
from tests.support.manage import PROJECT
from tests.support.postgres import binaries
from tests.support.running import put_database
from tests.support.server import GatewayServer
from tests.support.steady import Asked, Steady

pytestmark = pytest.mark.thorough

PAGE = PROJECT / "docs" / "operations.md"
BLOCK = re.compile(r"<!-- tried: (.+?) -->\n```sh\n(.*?)```", re.DOTALL)
CALLERS = 4
SOME = 20


def blocks() -> dict[str, str]:
    """The page's shell blocks by the name that stands above each."""
    return dict(BLOCK.findall(PAGE.read_text(encoding="utf-8")))


@dataclass(frozen=True)
class Operator:
    """Somebody at a shell: the page's commands under a gateway's environment."""

    env: Mapping[str, str]
    backup: Path

    def does(self, name: str) -> str:
        script = blocks()[name].replace(".venv/bin/python", sys.executable)
        path = f"{binaries()}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            ["sh", "-eu", "-c", script],
            cwd=PROJECT,
            env={**self.env, "BACKUP": str(self.backup), "PATH": path},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, f"{name}: {done.stdout}{done.stderr}"
        return done.stdout


@pytest.fixture
def backup(tmp_path: Path) -> Path:
    folder = tmp_path / "backup"
    folder.mkdir()
    return folder


def running(
    starter: StartGateway, folder: Path, simulator: SimulatedUpstream, database_url: str
) -> Desk:
    simulator.clear()
    catalogue = bench.as_yaml(bench.personas(simulator), bench.plain_models())
    server = loaded(starter, folder, catalogue, database_url=database_url)
    return Desk(server, simulator, seed_account(server, credits_usd="1000"), "plain/first")


def backed_up_under_load(desk: Desk, operator: Operator, *names: str) -> list[Asked]:
    """Run the commands while callers ask; what had been answered before they began."""
    with Steady(desk, callers=CALLERS) as load:
        load.until(200, SOME, since=0)
        before = list(load.asked)
        for name in names:
            operator.does(name)
    assert {one.status for one in load.asked} == {200}
    assert [path for path in operator.backup.iterdir() if path.stat().st_mode & 0o077] == []
    return before


def check_restored(desk: Desk, operator: Operator, server: GatewayServer, had: list[Asked]) -> None:
    """The books are whole, the key works, and the provider is sent its own credential."""
    assert "mismatches: []" in operator.does("after a restore")
    ledger = Ledger(server.env["DATABASE_URL"])
    calls = {call.user: call for call in ledger.calls(desk.account.account_id)}
    assert all(calls[one.tag].entries_nano == one.cost_nano for one in had)
    server.start()
    # The upstream shows a hash of what it was sent.
    known = {entry["headers"]["authorization"] for entry in desk.upstream.requests()}
    desk.upstream.clear()
    answer = server.chat(
        key=desk.account.api_key, model=desk.model, messages=[{"role": "user", "content": "Hello"}]
    )
    assert answer.status_code == 200, answer.text
    (sent,) = desk.upstream.requests()
    assert {sent["headers"]["authorization"]} == known
    assert server.manage("audit_ledger")["mismatches"] == []


def test_postgresql_is_restored_into_an_empty_database(
    stores: Bed,
    start_gateway: StartGateway,
    simulator: SimulatedUpstream,
    tmp_path: Path,
    backup: Path,
) -> None:
    desk = running(start_gateway, tmp_path, simulator, stores.create())
    here = Operator(desk.server.env, backup)
    had = backed_up_under_load(desk, here, "back up postgresql", "back up secrets")
    desk.server.kill()

    there = start_gateway.build(database_url=stores.create(migrated=False))
    operator = Operator(there.env, backup)
    operator.does("restore secrets")
    operator.does("restore postgresql")

    check_restored(desk, operator, there, had)


def test_sqlite_is_restored_into_an_empty_home(
    stores: Bed,
    start_gateway: StartGateway,
    simulator: SimulatedUpstream,
    tmp_path: Path,
    backup: Path,
) -> None:
    desk = running_on_a_file(stores, start_gateway, tmp_path, simulator)
    here = Operator(desk.server.env, backup)
    had = backed_up_under_load(desk, here, "back up sqlite", "back up secrets")
    desk.server.kill()

    there = on_a_file(start_gateway)
    operator = Operator(there.env, backup)
    operator.does("restore secrets")
    operator.does("restore sqlite")

    check_restored(desk, operator, there, had)


def on_a_file(starter: StartGateway) -> GatewayServer:
    """A gateway on the SQLite file of its own home, as one without any setting is."""
    server = starter.build(database_url="sqlite:////nowhere", redis_url="none")
    server.env["DATABASE_URL"] = f"sqlite:///{server.env['GATEWAY_HOME']}/gateway.sqlite3"
    return server


def running_on_a_file(
    stores: Bed, starter: StartGateway, folder: Path, simulator: SimulatedUpstream
) -> Desk:
    simulator.clear()
    server = on_a_file(starter)
    put_database(Path(server.env["GATEWAY_HOME"]), stores.migrated_file())
    file = folder / "catalogue.yaml"
    catalogue = bench.as_yaml(bench.personas(simulator), bench.plain_models())
    file.write_text(catalogue, encoding="utf-8")
    server.manage("load_catalogue", str(file))
    server.start()
    return Desk(server, simulator, seed_account(server, credits_usd="1000"), "plain/first")


def test_without_the_secrets_no_credential_opens(
    stores: Bed,
    start_gateway: StartGateway,
    simulator: SimulatedUpstream,
    tmp_path: Path,
    backup: Path,
) -> None:
    """So the page is right to have them kept: the rest of a restore does not do."""
    desk = running(start_gateway, tmp_path, simulator, stores.create())
    Operator(desk.server.env, backup).does("back up postgresql")
    there = start_gateway.build(database_url=stores.create(migrated=False))
    Operator(there.env, backup).does("restore postgresql")
    there.start()

    answer = there.chat(
        key=desk.account.api_key, model=desk.model, messages=[{"role": "user", "content": "Hello"}]
    )

    assert answer.status_code >= 400
    assert desk.upstream.requests() == []


def test_every_block_of_the_page_is_tried() -> None:
    tried = Path(__file__).read_text(encoding="utf-8")
    assert len(blocks()) == PAGE.read_text(encoding="utf-8").count("```sh")
    assert [name for name in blocks() if f'"{name}"' not in tried] == []
