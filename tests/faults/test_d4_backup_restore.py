"""D4: the commands of docs/how-to/operations.md, as they stand there, against a gateway under load.
Also migrations down and up again over many rows, of which none keeps a table locked for long."""

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
from django.db.migrations.loader import MigrationLoader

from routing.simulator.testing import SimulatedUpstream
from tests.conformance.desk import HELLO, Desk
from tests.faults import bench
from tests.faults.steady import Asked, Steady
from tests.support.bed import Bed
from tests.support.gateways import StartGateway, seed_account
from tests.support.ledger import Ledger
from tests.support.manage import PROJECT
from tests.support.postgres import binaries
from tests.support.promptness import in_time
from tests.support.running import put_database
from tests.support.server import GatewayServer

pytestmark = pytest.mark.thorough
PAGE = PROJECT / "docs" / "how-to" / "operations.md"
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


def start_gateway_with_models(
    server: GatewayServer, folder: Path, simulator: SimulatedUpstream
) -> Desk:
    simulator.clear()
    file = folder / "catalogue.yaml"
    catalogue = bench.as_yaml(bench.personas(simulator), bench.plain_models())
    file.write_text(catalogue, encoding="utf-8")
    server.manage("load_catalogue", str(file))
    server.start()
    return Desk(server, simulator, seed_account(server, credits_usd="1000"), "plain/first")


def back_up_under_load(desk: Desk, operator: Operator, *names: str) -> list[Asked]:
    """Run the commands while callers ask; what had been answered before they began."""
    with Steady(desk, callers=CALLERS) as load:
        load.wait_until(200, SOME, since=0)
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
    answer = server.chat(key=desk.account.api_key, model=desk.model, messages=HELLO)
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
    desk = start_gateway_with_models(start_gateway.build(), tmp_path, simulator)
    here = Operator(desk.server.env, backup)
    had = back_up_under_load(desk, here, "back up", "back up secrets")
    desk.server.kill()
    sent = len(desk.upstream.requests())

    there = start_gateway.build(database_url=stores.create(migrated=False))
    operator = Operator(there.env, backup)
    operator.does("restore postgresql")
    # The page is right to have the secrets kept: without them no credential opens.
    there.start()
    answer = there.chat(key=desk.account.api_key, model=desk.model, messages=HELLO)
    assert answer.status_code >= 400
    assert len(desk.upstream.requests()) == sent
    there.kill()
    operator.does("restore secrets")

    check_restored(desk, operator, there, had)


def test_sqlite_is_restored_into_an_empty_home(
    stores: Bed,
    start_gateway: StartGateway,
    simulator: SimulatedUpstream,
    tmp_path: Path,
    backup: Path,
) -> None:
    server = on_a_file(start_gateway)
    put_database(Path(server.env["GATEWAY_HOME"]), stores.migrated_file())
    desk = start_gateway_with_models(server, tmp_path, simulator)
    here = Operator(desk.server.env, backup)
    had = back_up_under_load(desk, here, "back up", "back up secrets")
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


def test_every_block_of_the_page_is_tried() -> None:
    tried = Path(__file__).read_text(encoding="utf-8")
    assert len(blocks()) == PAGE.read_text(encoding="utf-8").count("```sh")
    assert [name for name in blocks() if f'"{name}"' not in tried] == []


# --- Migrations -----------------------------------------------------------------------------------

OURS = ("accounts", "routing", "interns")
# A migration is one transaction, so its whole run bounds how long it holds a lock.
LOCKED_S = 5.0
STEP_TOOK = re.compile(r"OK \((\d+\.\d+)s\)")
ENTRIES = """
INSERT INTO accounts_ledgerentry
    (account_id, kind, amount_nano, source, source_ref, note, created_at)
SELECT a.id, 'grant', 1, 'rows', n::text, '', now() - n * interval '1 second'
FROM accounts_account a, generate_series(1, %(rows)s) n
"""
CREDITS = "UPDATE accounts_account SET total_credits_nano = total_credits_nano + %(rows)s"
GENERATIONS = """
INSERT INTO routing_generation
    (id, account_id, workspace_id, api_key_id, created_at, api_type, model, requested_model,
     status, streamed, cancelled, lost, overrun, tokens_prompt, tokens_completion,
     tokens_reasoning, tokens_cached, charge_nano, hold_nano, upstream_cost_nano, is_byok,
     attempts, detail)
SELECT 'gen-' || n, a.id, w.id, 1, now() - n * interval '1 second', 'completions', 'm', 'm',
       200, true, false, false, false, 9, 9, 0, 0, 0, 0, 0, false, '[]', '{}'
FROM accounts_account a JOIN accounts_workspace w ON w.account_id = a.id AND w.slug = 'main',
     generate_series(1, %(rows)s) n
"""


def chains() -> dict[str, list[str]]:
    """The migrations of each app of ours, oldest first."""
    names = MigrationLoader(None).disk_migrations
    return {app: sorted(name for owner, name in names if owner == app) for app in OURS}


class Tables:
    """A database with many rows, and migrations run on it one at a time."""

    def __init__(self, server: GatewayServer, rows: int) -> None:
        self._server = server
        self._rows = rows
        self.slowest_s = 0.0
        self.steps = 0

    def fill(self, *statements: str) -> None:
        with psycopg.connect(self._server.env["DATABASE_URL"]) as connection:
            for statement in statements:
                connection.execute(statement, {"rows": self._rows})

    def count(self, table: str) -> int:
        with psycopg.connect(self._server.env["DATABASE_URL"]) as connection:
            row = connection.execute(f"SELECT count(*) FROM {table}").fetchone()  # noqa: S608 - A constant name.
        assert row is not None
        return int(row[0])

    def migrate(self, app: str, name: str) -> None:
        """Each step is a transaction of its own and says how long it took."""
        done = self._server.run_command("migrate", app, name, "--verbosity", "2", "--skip-checks")
        assert done.status == 0, done
        took_s = [float(each) for each in STEP_TOOK.findall(done.stdout)]
        self.steps += len(took_s)
        self.slowest_s = max((self.slowest_s, *took_s))


@pytest.mark.nightly
def test_down_and_up_over_a_million_rows(start_gateway: StartGateway) -> None:
    rows = 1_000_000
    server = start_gateway.build()
    server.manage("seed_keys", "--account", "acme", "--workspace", "main", "--credits", "1")
    tables = Tables(server, rows)
    tables.fill(ENTRIES, CREDITS, GENERATIONS)

    all_names = chains()
    for app, names in all_names.items():
        tables.migrate(app, names[0])
        tables.migrate(app, names[-1])
        if tables.count("routing_generation") == 0:  # What a migration made went with it.
            tables.fill(GENERATIONS)

    # And what goes with one of another app.
    assert tables.steps >= 2 * sum(len(names) - 1 for names in all_names.values())
    in_time(tables.slowest_s, LOCKED_S)
    assert tables.count("accounts_ledgerentry") == rows + 1
    assert server.run_command("migrate", "--check").status == 0
    assert server.manage("audit_ledger")["mismatches"] == []
