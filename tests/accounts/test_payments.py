"""POST /credits/payments in process: who may tell of a payment, and what of it is believed."""

import hashlib
import hmac
import json
import uuid
from typing import Any

import pytest
from django.test import Client
from hypothesis import given
from hypothesis import strategies as st
from pytest_django import Settings

from accounts.models import Account, AuditRecord, LedgerEntry
from accounts.services.accounts import open_account
from accounts.services.credits import OWN_SOURCES, add_credits
from accounts.views.payments import is_signed
from tests.support.management import Manager, manager

pytestmark = [pytest.mark.django_db, pytest.mark.both]
PATH = "/api/v1/credits/payments"
SECRET = "a secret of the webhook's own"


def signature(body: bytes, secret: str = SECRET) -> str:
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


@pytest.fixture
def mine(db: None, settings: Settings) -> Manager:
    settings.CREDITS_WEBHOOK_SECRET = SECRET
    return manager("mine")


def told(mine: Manager, **changes: Any) -> dict[str, Any]:
    usual = {
        "source": "stripe",
        "source_ref": "pi_1",
        "account_id": str(mine.account.pk),
        "amount_usd": 12.5,
    }
    return {name: value for name, value in (usual | changes).items() if value is not ...}


def send(body: Any, **options: Any) -> Any:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    headers = {"X-Signature": signature(raw)} | options
    return Client(raise_request_exception=False).post(
        PATH, raw, content_type="application/json", headers=headers
    )


def refused(status: int, body: Any, **options: Any) -> Any:
    response = send(body, **options)
    assert response.status_code == status, response.content
    assert SECRET.encode() not in response.content
    assert not LedgerEntry.objects.exists()
    return response.json()["error"]


def test_a_payment_is_credited_and_told_again_is_not(mine: Manager) -> None:
    answers = [send(told(mine)).json() for _ in range(3)]

    assert [answer["data"] for answer in answers] == [{"credited": n == 0} for n in range(3)]
    entry = LedgerEntry.objects.get()
    assert (entry.kind, entry.amount_nano) == ("purchase", 12_500_000_000)
    assert (entry.source, entry.source_ref) == ("stripe", "pi_1")
    mine.account.refresh_from_db()
    assert mine.account.total_credits_nano == 12_500_000_000
    assert AuditRecord.objects.get(object_type="ledger_entry").command == "payments"


def test_a_fee_is_kept(mine: Manager, settings: Settings) -> None:
    settings.CREDIT_FEE_RATE = 0.1
    send(told(mine, amount_usd=10))

    assert LedgerEntry.objects.get().amount_nano == 9_000_000_000


@pytest.mark.parametrize("amount", [12.6, 1])
def test_another_amount_under_the_same_reference_is_a_conflict(
    mine: Manager, amount: float
) -> None:
    send(told(mine))

    response = send(told(mine, amount_usd=amount))

    assert response.status_code == 409
    assert "name another payment" in response.json()["error"]["message"]
    assert LedgerEntry.objects.count() == 1


def test_another_account_under_the_same_reference_is_a_conflict(mine: Manager) -> None:
    other = open_account(name="other")
    send(told(mine))

    assert send(told(mine, account_id=str(other.pk))).status_code == 409
    other.refresh_from_db()
    assert other.total_credits_nano == 0


@pytest.mark.parametrize(
    "wrong", ["", "sha256=", "sha256=" + "0" * 64, "nonsense", signature(b"another body"), "é\xff"]
)
def test_a_bad_signature_is_401(mine: Manager, wrong: str) -> None:
    headers = {"HTTP_X_SIGNATURE": wrong} if wrong else {}
    body = json.dumps(told(mine))

    response = Client().post(PATH, body, content_type="application/json", **headers)  # type: ignore[arg-type]  # Django's stubs take no extra headers here.

    assert response.status_code == 401
    assert response.json()["error"]["message"] == "Invalid signature"
    assert not LedgerEntry.objects.exists()


def test_the_digest_alone_or_in_capitals_is_no_signature() -> None:
    good = signature(b"x")

    assert is_signed(b"x", good, SECRET)
    assert not is_signed(b"x", good.removeprefix("sha256="), SECRET)
    assert not is_signed(b"x", good.upper(), SECRET)
    assert not is_signed(b"x", good, SECRET + "x")


@given(body=st.binary(max_size=50), told=st.text(max_size=80))
def test_no_other_text_is_a_signature(body: bytes, told: str) -> None:
    assert is_signed(body, told, SECRET) == (told == signature(body))


def test_without_a_secret_there_is_no_such_path(mine: Manager, settings: Settings) -> None:
    settings.CREDITS_WEBHOOK_SECRET = ""

    refused(404, told(mine), **{"X-Signature": signature(b"", "")})


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"source": ...}, "source"),
        ({"source": ""}, "source"),
        ({"source": "s" * 33}, "source"),
        ({"source": 5}, "source"),
        ({"source_ref": "r" * 201}, "source_ref"),
        ({"source_ref": "a\nb"}, "source_ref"),
        ({"account_id": "nobody"}, "account_id"),
        ({"account_id": str(uuid.uuid4())}, "account_id"),
        ({"amount_usd": ...}, "amount_usd"),
        ({"amount_usd": 0}, "amount_usd"),
        ({"amount_usd": -1}, "amount_usd"),
        ({"amount_usd": "5"}, "amount_usd"),
        ({"amount_usd": True}, "amount_usd"),
        ({"amount_usd": 1e-10}, "amount_usd"),
        ({"amount_usd": 1e10}, "amount_usd"),
        *(({"source": source}, "source") for source in sorted(OWN_SOURCES)),
    ],
)
def test_a_body_that_cannot_be_meant_is_400(
    mine: Manager, changes: dict[str, Any], path: str
) -> None:
    error = refused(400, told(mine, **changes))

    assert [issue["path"] for issue in error["metadata"]["issues"]] == [path]


@pytest.mark.parametrize(("field", "most"), [("source", 32), ("source_ref", 200)])
def test_too_long_a_text_is_told_in_characters(mine: Manager, field: str, most: int) -> None:
    error = refused(400, told(mine, **{field: "x" * (most + 1)}))

    said = f"{field}: Too big: expected string to have <={most} characters"
    assert error["message"] == said


@pytest.mark.parametrize("raw", [b"{", b"[]", b"null", b"\xff"])
def test_what_is_no_object_is_400(mine: Manager, raw: bytes) -> None:
    refused(400, raw)


def test_a_body_past_the_cap_is_413(mine: Manager, settings: Settings) -> None:
    settings.MANAGEMENT_MAX_BODY_BYTES = 10

    refused(413, told(mine))


def test_a_credential_that_is_there_must_be_good(mine: Manager) -> None:
    refused(401, told(mine), Authorization="Bearer nope")
    assert send(told(mine), Authorization=f"Bearer {mine.key}").status_code == 200


def test_what_the_gateway_books_under_is_not_for_sale() -> None:
    """A charge is unique by its source: nobody outside may take its place first."""
    from routing.metering import reversals

    assert {"generation", "expiry", "transfer", "admin", reversals.SOURCE} <= OWN_SOURCES


def test_a_payment_told_by_webhook_is_not_one_of_an_operator(mine: Manager) -> None:
    account: Account = mine.account
    add_credits(account=account, amount_nano=1, source="admin", source_ref="pi_1")

    assert send(told(mine)).json()["data"]["credited"] is True
