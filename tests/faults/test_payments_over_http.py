"""Payments told over HTTP: signed, counted once, and nothing of the secret anywhere."""

import hashlib
import hmac
import json
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import pytest
import requests

from tests.accounts.dump import database_text
from tests.conformance.desk import exact, nano
from tests.support.bed import Bed
from tests.support.callers import at_a_time
from tests.support.gateways import SeededAccount, StartGateway, seed_account
from tests.support.server import GatewayServer, as_json

pytestmark = [pytest.mark.both, pytest.mark.thorough]
OrmOf = Callable[[GatewayServer], AbstractContextManager[None]]
PATH = "/api/v1/credits/payments"
SECRET = f"canary-webhook-{uuid.uuid4().hex}"
AT_ONCE = 50


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, stores: Bed) -> Iterator[GatewayServer]:
    settings: dict[str, Any] = {
        "CREDITS_WEBHOOK_SECRET": SECRET,
        "CREDIT_FEE_RATE": "0.1",
        "WEB_CONCURRENCY": "2",
        "LOG_LEVEL": "DEBUG",
        # All fifty stand in one account's queue.
        "DATABASE_TIMEOUT": "10",
    }
    with StartGateway(stores, tmp_path_factory.mktemp("payments")) as starter:
        server = starter(**settings)
        yield server
        assert server.manage("audit_ledger")["mismatches"] == []


@pytest.fixture
def account(server: GatewayServer) -> SeededAccount:
    return seed_account(server, credits_usd="1")


def tell(server: GatewayServer, raw: bytes, signature: str | None = None) -> requests.Response:
    digest = hmac.new(SECRET.encode(), raw, hashlib.sha256).hexdigest()
    headers = {"X-Signature": f"sha256={digest}" if signature is None else signature}
    return server.post(PATH, data=raw, headers=headers | {"Content-Type": "application/json"})


def payment(account: SeededAccount, **changes: Any) -> bytes:
    usual = {"source": "stripe", "source_ref": account.name, "account_id": account.account_id}
    return json.dumps(usual | {"amount_usd": 20} | changes).encode()


def credits_nano(server: GatewayServer, account: SeededAccount) -> int:
    response = server.get("/api/v1/credits", key=account.management_key)
    return nano(exact(response)["data"]["total_credits"])


def test_a_payment_told_fifty_times_at_once_is_credited_once(
    server: GatewayServer, account: SeededAccount
) -> None:
    raw = payment(account)

    answers = at_a_time(AT_ONCE, AT_ONCE, lambda _: tell(server, raw))

    assert {answer.status_code for answer in answers} == {200}
    told = [as_json(answer)["data"]["credited"] for answer in answers]
    assert (told.count(True), told.count(False)) == (1, AT_ONCE - 1)
    # What was there, and what was paid less a tenth.
    assert credits_nano(server, account) == 19_000_000_000


def test_payments_with_names_of_their_own_all_count(
    server: GatewayServer, account: SeededAccount
) -> None:
    raws = [payment(account, source_ref=f"{account.name}-{n}", amount_usd=1) for n in range(20)]

    answers = at_a_time(20, 20, lambda n: tell(server, raws[n]))

    assert {answer.status_code for answer in answers} == {200}
    assert credits_nano(server, account) == 1_000_000_000 + 20 * 900_000_000


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b'{"source": "stripe"}', b"\xff"])
def test_what_is_signed_and_says_nothing_is_400(server: GatewayServer, raw: bytes) -> None:
    assert tell(server, raw).status_code == 400


def test_one_changed_byte_spoils_the_signature(
    server: GatewayServer, account: SeededAccount
) -> None:
    raw = payment(account)
    digest = hmac.new(SECRET.encode(), raw, hashlib.sha256).hexdigest()

    assert tell(server, raw.replace(b"20", b"90"), f"sha256={digest}").status_code == 401
    assert tell(server, raw, f"sha256={digest[:-1]}").status_code == 401
    assert tell(server, raw, "").status_code == 401
    assert credits_nano(server, account) == 1_000_000_000


def test_the_secret_and_signatures_are_nowhere(
    server: GatewayServer, account: SeededAccount, orm_of: OrmOf
) -> None:
    raw = payment(account, source_ref=f"{account.name}-quiet")
    digest = hmac.new(SECRET.encode(), raw, hashlib.sha256).hexdigest()
    with orm_of(server):
        from django.db import connection

        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE accounts_purchasefee RENAME TO purchasefee_gone")
        broken = tell(server, raw)
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE purchasefee_gone RENAME TO accounts_purchasefee")
    answers = [broken, tell(server, raw), tell(server, raw, "sha256=nope"), tell(server, b"{")]
    answers += [server.get(f"/api/v1/{path}") for path in ("openapi.json", "credits/payments")]

    assert [answer.status_code for answer in answers[:4]] == [500, 200, 401, 400]
    with orm_of(server):
        kept = database_text()
    for secret in (SECRET, digest):
        assert secret not in kept
        assert secret not in server.log()
        assert [answer.url for answer in answers if secret in answer.text] == []
    assert SECRET not in json.dumps(server.manage("audit_ledger"))


def test_without_a_secret_nobody_is_listened_to(start_gateway: StartGateway) -> None:
    closed = start_gateway()
    account = seed_account(closed)

    for raw in (payment(account), b"{"):
        empty = hmac.new(b"", raw, hashlib.sha256).hexdigest()
        answer = tell(closed, raw, f"sha256={empty}")
        assert answer.status_code == 404
        assert as_json(answer)["error"]["message"] == "Not Found"


def test_a_body_past_the_cap_is_413(server: GatewayServer) -> None:
    assert tell(server, b" " * 1_048_577).status_code == 413
