"""Payments told over HTTP are counted once; a statement of very many requests is exact, soon there,
and nobody waits for it meanwhile."""

import hashlib
import hmac
import json
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from tests.accounts.dump import database_text
from tests.conformance.desk import exact, nano
from tests.support.callers import at_a_time, new_key
from tests.support.gateways import SeededAccount, StartGateway, seed_account
from tests.support.ledger import Ledger
from tests.support.promptness import in_time
from tests.support.server import GatewayServer, as_json
from tests.support.wires import head_bytes

pytestmark = [pytest.mark.both, pytest.mark.thorough]
OrmOf = Callable[[GatewayServer], AbstractContextManager[None]]
PAYMENTS = "/api/v1/credits/payments"
SECRET = "webhook-secret-of-these-tests"
AT_ONCE = 50


def test_a_payment_told_fifty_times_at_once_is_credited_once_and_others_count(
    start_gateway: StartGateway, orm_of: OrmOf
) -> None:
    settings: dict[str, Any] = {
        "CREDITS_WEBHOOK_SECRET": SECRET,
        "CREDIT_FEE_RATE": "0.1",
        "WEB_CONCURRENCY": "2",
        "LOG_LEVEL": "DEBUG",
        # All fifty stand in one account's queue.
        "DATABASE_TIMEOUT": "10",
    }
    server = start_gateway(**settings)
    account = seed_account(server, credits_usd="1")
    signatures = {SECRET}

    def tell(source_ref: str, amount_usd: int) -> Any:
        body = {"source": "stripe", "account_id": account.account_id, "amount_usd": amount_usd}
        raw = json.dumps(body | {"source_ref": source_ref}).encode()
        digest = hmac.new(SECRET.encode(), raw, hashlib.sha256).hexdigest()
        headers = {"X-Signature": f"sha256={digest}", "Content-Type": "application/json"}
        signatures.add(digest)
        answer = server.post(PAYMENTS, data=raw, headers=headers)
        assert answer.status_code == 200, answer.text
        return as_json(answer)["data"]["credited"]

    def credits_nano() -> int:
        response = server.get("/api/v1/credits", key=account.management_key)
        return nano(exact(response)["data"]["total_credits"])

    told = at_a_time(AT_ONCE, AT_ONCE, lambda _: tell(account.name, 20))
    assert (told.count(True), told.count(False)) == (1, AT_ONCE - 1)
    # What was there, and what was paid less a tenth.
    assert credits_nano() == 19_000_000_000
    at_a_time(20, 20, lambda n: tell(f"{account.name}-{n}", 1))
    assert credits_nano() == 19_000_000_000 + 20 * 900_000_000
    assert server.manage("audit_ledger")["mismatches"] == []
    with orm_of(server):
        written = database_text() + server.log()
    assert [secret for secret in signatures if secret in written] == []


# --- Statements -----------------------------------------------------------------------------------

STATEMENT = "/api/v1/credits/statement"
KEYS, DAYS = 20, 400
# Amounts from 1 to 1000 nano-dollars, over some keys and days.
ENTRIES = """
INSERT INTO accounts_ledgerentry
    (account_id, workspace_id, api_key_id, kind, amount_nano, generation_id, source, source_ref,
     note, created_at)
SELECT k.account_id, k.workspace_id, k.id, 'usage', 1 + n % 1000, 'gen-' || n, 'generation',
       'gen-' || n, '', {moment}
FROM {numbers} JOIN accounts_apikey k
     ON k.id = (SELECT min(id) FROM accounts_apikey WHERE name = 'another') + (n / {days}) % {keys}
"""
NUMBERS = {
    "postgresql": "generate_series(1, {rows}) n",
    "sqlite": "(WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < {rows})"
    " SELECT n FROM s)",
}
MOMENTS = {
    "postgresql": "now() - (n % {days}) * interval '1 day' - interval '1 minute'",
    "sqlite": "datetime('now', '-' || (n % {days}) || ' days', '-1 minute')",
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
    parts = {"numbers": NUMBERS[kind].format(rows=rows), "moment": MOMENTS[kind].format(days=DAYS)}
    with ledger.connect() as connection:
        for statement in (ENTRIES.format(keys=KEYS, days=DAYS, **parts), TOTAL):
            connection.execute(statement)
        if kind == "sqlite":
            connection.commit()
        else:
            connection.execute("ANALYZE accounts_ledgerentry")
    return sum(1 + n % 1000 for n in range(1, rows + 1))


@pytest.mark.nightly
@pytest.mark.timeout(300)  # Its rows take most of it.
def test_a_statement_of_many_requests(start_gateway: StartGateway) -> None:
    """What it says is `test_statement`'s."""
    rows = 1_000_000
    server = start_gateway(DATABASE_POOL_SIZE="1")
    account = seed_account(server, credits_usd="5")
    charged_nano = fill(server, account, rows)
    start = (datetime.now(UTC) - timedelta(days=DAYS + 2)).date()
    path = f"{STATEMENT}?start={start}"

    with Waiting(server) as others:
        begun_at = time.monotonic()
        response = server.get(path, key=account.management_key, timeout=60)
        took_s = time.monotonic() - begun_at
    said = json.loads(response.content, parse_float=Decimal)["data"]

    sys.stdout.write(f"{took_s:.2f} s, others waited {others.slowest_s:.3f} s at most\n")
    _check_sums(said, charged_nano, rows)
    in_time(took_s, 15)
    in_time(others.slowest_s, 1)
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
    head = head_bytes(method="GET", path=path, key=account.management_key, close=True)
    with socket.create_connection(("127.0.0.1", int(server.env["PORT"])), timeout=60) as slow:
        slow.sendall(head)
        assert slow.recv(12).startswith(b"HTTP/1.1 200")
        credits = server.get("/api/v1/credits", key=account.management_key)
        assert credits.status_code == 200
        read = 12
        while piece := slow.recv(65_536):
            read += len(piece)
    assert read > size_bytes
