"""D4: migrations down and up again over many rows. None keeps a table locked for long."""

import re

import psycopg
import pytest
from django.db.migrations.loader import MigrationLoader

from tests.support.gateways import StartGateway
from tests.support.promptness import in_time
from tests.support.server import GatewayServer

pytestmark = pytest.mark.thorough

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


def check_many_rows(starter: StartGateway, rows: int) -> None:
    server = starter.build()
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


@pytest.mark.timeout(300)  # Django works the tables out anew for every step.
def test_down_and_up_over_a_hundred_thousand_rows(start_gateway: StartGateway) -> None:
    check_many_rows(start_gateway, 100_000)


@pytest.mark.nightly
def test_down_and_up_over_a_million_rows(start_gateway: StartGateway) -> None:
    check_many_rows(start_gateway, 1_000_000)
