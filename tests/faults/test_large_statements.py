"""A statement of very many requests: exact, soon there, and nobody waits for it meanwhile."""

import json
import socket
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from tests.support.callers import new_key
from tests.support.gateways import SeededAccount, StartGateway, seed_account
from tests.support.ledger import Ledger
from tests.support.promptness import in_time
from tests.support.server import GatewayServer

pytestmark = pytest.mark.thorough

PATH = "/api/v1/credits/statement"
KEYS, DAYS = 20, 400
# Amounts from 1 to 1000 nano-dollars, over some keys and days.
ENTRIES = {
    "postgresql": """
INSERT INTO accounts_ledgerentry
    (account_id, workspace_id, api_key_id, kind, amount_nano, generation_id, source, source_ref,
     note, created_at)
SELECT k.account_id, k.workspace_id, k.id, 'usage', 1 + n % 1000, 'gen-' || n, 'generation',
       'gen-' || n, '', now() - (n % {days}) * interval '1 day' - interval '1 minute'
FROM generate_series(1, {rows}) n JOIN accounts_apikey k
     ON k.id = (SELECT min(id) FROM accounts_apikey WHERE name = 'another') + (n / {days}) % {keys}
""",
    "sqlite": """
WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < {rows})
INSERT INTO accounts_ledgerentry
    (account_id, workspace_id, api_key_id, kind, amount_nano, generation_id, source, source_ref,
     note, created_at)
SELECT k.account_id, k.workspace_id, k.id, 'usage', 1 + n % 1000, 'gen-' || n, 'generation',
       'gen-' || n, '', datetime('now', '-' || (n % {days}) || ' days', '-1 minute')
FROM s JOIN accounts_apikey k
     ON k.id = (SELECT min(id) FROM accounts_apikey WHERE name = 'another') + (n / {days}) % {keys}
""",
}
TOTAL = (
    "UPDATE accounts_account SET total_usage_nano = (SELECT SUM(amount_nano) FROM"
    " accounts_ledgerentry WHERE kind = 'usage')"
)


class Waiting:
    """How long others wait for an answer meanwhile."""

    def __init__(self, server: GatewayServer) -> None:
        self._server = server
        self._over = threading.Event()
        self.slowest_s = 0.0
        self._thread = threading.Thread(target=self._ask)

    def __enter__(self) -> "Waiting":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _ask(self) -> None:
        while not self._over.is_set():
            begun_at = time.monotonic()
            assert self._server.get("/healthz").status_code == 200
            self.slowest_s = max(self.slowest_s, time.monotonic() - begun_at)


def fill(server: GatewayServer, account: SeededAccount, rows: int) -> int:
    """That many charges; what they come to."""
    for _ in range(KEYS):
        new_key(server, account)
    ledger = Ledger(server.env["DATABASE_URL"])
    kind = "sqlite" if server.env["DATABASE_URL"].startswith("sqlite:") else "postgresql"
    statements = [ENTRIES[kind].format(rows=rows, keys=KEYS, days=DAYS), TOTAL]
    with ledger.connected() as connection:
        for statement in statements:
            connection.execute(statement)
        if kind == "sqlite":
            connection.commit()
        else:
            connection.execute("ANALYZE accounts_ledgerentry")
    return sum(1 + n % 1000 for n in range(1, rows + 1))


def check_statement(starter: StartGateway, rows: int, *, within_s: float, wait_s: float) -> None:
    server = starter(DATABASE_POOL_SIZE="1")
    account = seed_account(server, credits_usd="5")
    charged_nano = fill(server, account, rows)
    start = (datetime.now(UTC) - timedelta(days=DAYS + 2)).date()
    path = f"{PATH}?start={start}"

    with Waiting(server) as others:
        begun_at = time.monotonic()
        response = server.get(path, key=account.management_key, timeout=60)
        took_s = time.monotonic() - begun_at
    said = json.loads(response.content, parse_float=Decimal)["data"]

    sys.stdout.write(
        f"{rows} requests: {took_s:.2f} s, {len(response.content)} bytes,"
        f" others waited {others.slowest_s * 1000:.0f} ms at most\n"
    )
    _check_sums(said, charged_nano, rows)
    in_time(took_s, within_s)
    in_time(others.slowest_s, wait_s)
    _check_slow_reader(server, account, path, len(response.content))


def _check_sums(said: Any, charged_nano: int, rows: int) -> None:
    usage = [line for line in said["lines"] if line["kind"] == "usage"]
    assert sum(line["entries"] for line in usage) == rows
    assert sum(line["amount_nano"] for line in said["lines"]) == said["totals"]["change_nano"]
    assert said["totals"]["usage_nano"] == -charged_nano
    assert said["opening_balance_nano"] == 0
    assert said["closing_balance_nano"] == 5_000_000_000 - charged_nano
    assert len(usage) <= KEYS * (DAYS + 1)


def _check_slow_reader(
    server: GatewayServer, account: SeededAccount, path: str, size_bytes: int
) -> None:
    """Who reads slowly keeps no connection: there is only one, and others use it."""
    assert size_bytes > 1_048_576
    head = (
        f"GET {path} HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer "
        f"{account.management_key}\r\nConnection: close\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", int(server.env["PORT"])), timeout=60) as slow:
        slow.sendall(head.encode())
        assert slow.recv(12).startswith(b"HTTP/1.1 200")
        credits = server.get("/api/v1/credits", key=account.management_key)
        assert credits.status_code == 200
        read = 12
        while piece := slow.recv(65_536):
            read += len(piece)
    assert read > size_bytes


@pytest.mark.both
@pytest.mark.timeout(180)  # Its rows take most of it.
def test_fifty_thousand_requests(start_gateway: StartGateway) -> None:
    check_statement(start_gateway, 50_000, within_s=15, wait_s=2)


@pytest.mark.nightly
@pytest.mark.both
@pytest.mark.timeout(300)
def test_a_million_requests(start_gateway: StartGateway) -> None:
    check_statement(start_gateway, 1_000_000, within_s=15, wait_s=1)
