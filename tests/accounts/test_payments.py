"""Whoever moves money from outside: POST /credits/payments, and the commands that book and seed."""

import hashlib
import hmac
import json
import uuid
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from hypothesis import given
from hypothesis import strategies as st
from pytest_django import Settings

from accounts.models import Account, ApiKey, AuditRecord, LedgerEntry, Membership
from accounts.services.books.credits import OWN_SOURCES, add_credits
from accounts.services.organization import open_account
from accounts.views.credits import is_signed
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


def make_payment(mine: Manager, **changes: Any) -> dict[str, Any]:
    usual = {"source": "stripe", "source_ref": "pi_1", "amount_usd": 12.5}
    said = usual | {"account_id": str(mine.account.pk)} | changes
    return {name: value for name, value in said.items() if value is not ...}


def send(body: Any, **options: Any) -> Any:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    headers = {"X-Signature": signature(raw)} | options
    return Client(raise_request_exception=False).post(
        PATH, raw, content_type="application/json", headers=headers
    )


def send_refused(status: int, body: Any, **options: Any) -> Any:
    response = send(body, **options)
    assert response.status_code == status, response.content
    assert SECRET.encode() not in response.content
    assert not LedgerEntry.objects.exists()
    return response.json()["error"]


def test_a_payment_is_credited_but_its_fee_once(mine: Manager, settings: Settings) -> None:
    settings.CREDIT_FEE_RATE = 0.1
    account: Account = mine.account
    # What an operator booked is another payment.
    add_credits(account=account, amount_nano=1, source="admin", source_ref="pi_1")
    answers = [send(make_payment(mine)).json() for _ in range(3)]

    assert [answer["data"] for answer in answers] == [{"credited": n == 0} for n in range(3)]
    entry = LedgerEntry.objects.get(source="stripe")
    assert (entry.kind, entry.amount_nano) == ("purchase", 11_250_000_000)
    assert entry.source_ref == "pi_1"
    account.refresh_from_db()
    assert account.total_credits_nano == 11_250_000_001
    record = AuditRecord.objects.get(object_type="ledger_entry", object_id=str(entry.pk))
    assert record.command == "payments"


def test_another_amount_or_account_under_the_same_reference_is_a_conflict(mine: Manager) -> None:
    other = open_account(name="other")
    send(make_payment(mine))

    for changes in ({"amount_usd": 12.6}, {"amount_usd": 1}, {"account_id": str(other.pk)}):
        response = send(make_payment(mine, **changes))
        assert response.status_code == 409
        assert "name another payment" in response.json()["error"]["message"]
    assert LedgerEntry.objects.get().account == mine.account
    other.refresh_from_db()
    assert other.total_credits_nano == 0


def test_a_bad_signature_is_401(mine: Manager) -> None:
    body = json.dumps(make_payment(mine))
    wrong = ["", "sha256=", "sha256=" + "0" * 64, "nonsense", signature(b"another body"), "é\xff"]
    for each in wrong:
        options: Any = {"HTTP_X_SIGNATURE": each} if each else {}
        response = Client().post(PATH, body, content_type="application/json", **options)
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


def test_a_credential_that_is_there_must_be_good_and_without_a_secret_there_is_no_such_path(
    mine: Manager, settings: Settings
) -> None:
    send_refused(401, make_payment(mine), Authorization="Bearer nope")
    settings.CREDITS_WEBHOOK_SECRET = ""
    send_refused(404, make_payment(mine), **{"X-Signature": signature(b"", "")})
    settings.CREDITS_WEBHOOK_SECRET = SECRET
    assert send(make_payment(mine), Authorization=f"Bearer {mine.key}").status_code == 200


def test_a_body_that_cannot_be_meant_is_400(mine: Manager) -> None:
    odd: dict[str, list[Any]] = {
        "source": [..., "", "s" * 33, 5, *sorted(OWN_SOURCES)],
        "source_ref": ["r" * 201, "a\nb"],
        "account_id": ["nobody", str(uuid.uuid4())],
        "amount_usd": [..., 0, -1, "5", True, 1e-10, 1e10],
    }
    for field, values in odd.items():
        for value in values:
            error = send_refused(400, make_payment(mine, **{field: value}))
            assert [issue["path"] for issue in error["metadata"]["issues"]] == [field]
    error = send_refused(400, make_payment(mine, source="s" * 33))
    assert error["message"] == "source: Too big: expected string to have <=32 characters"
    for raw in (b"{", b"[]", b"null", b"\xff"):
        send_refused(400, raw)


def test_what_the_gateway_books_under_is_not_for_sale() -> None:
    """A charge is unique by its source: nobody outside may take its place first."""
    from routing.metering import reversals

    assert {"generation", "expiry", "transfer", "admin", reversals.SOURCE} <= OWN_SOURCES


def run(*arguments: str) -> dict[str, Any]:
    out = StringIO()
    call_command(*arguments, "--json", stdout=out)
    told: dict[str, Any] = json.loads(out.getvalue())
    return told


def command_refused(*arguments: str) -> CommandError:
    with pytest.raises(CommandError) as caught:
        run(*arguments)
    return caught.value


def credit(*options: str) -> tuple[str, ...]:
    return ("credits_add", "--account", "payer", *options)


def test_a_purchase_told_twice_counts_once() -> None:
    account, other = open_account(name="payer"), open_account(name="other")

    first, second = (run(*credit("--usd", "5.25", "--ref", "p-1")) for _ in range(2))

    assert (first["created"], second["created"]) == (True, False)
    assert first["entry_id"] == second["entry_id"]
    assert second["total_credits"] == 5.25
    for options, text in (
        (credit("--usd", "6", "--ref", "p-1"), "names another payment"),
        (credit("--usd", "0", "--ref", "p-2"), "more than zero"),
        (("credits_add", "--account", "other", "--usd", "5.25", "--ref", "p-1"), "another payment"),
        (("credits_add", "--account", "nobody", "--usd", "5", "--ref", "x"), "nobody"),
        (("create_management_key", "--account", "nobody"), "nobody"),
    ):
        error = command_refused(*options)
        assert error.returncode == 1
        assert text in str(error)
    totals = dict(Account.objects.values_list("pk", "total_credits_nano"))
    assert totals == {account.pk: 5_250_000_000, other.pk: 0}
    assert LedgerEntry.objects.get().amount_nano == 5_250_000_000


def test_seeding_makes_everything_once_and_shows_keys_once() -> None:
    seed = ("seed_keys", "--workspace", "main", "--account")
    seeded = (*seed, "a", "--credits", "5")

    first, second = run(*seeded), run(*seeded)

    assert (first["created"], second["created"]) == (True, False)
    assert (second["api_key"], second["management_key"]) == (None, None)
    assert first["api_key"].startswith("sk-rt-v1-")
    assert first["api_key_hash"] == second["api_key_hash"]
    assert second["total_credits"] == 5
    rotated = run(*seed, "a", "--rotate")
    for name in ("api_key", "management_key"):
        assert rotated[name] not in (None, first[name])
    other, nameless = command_refused(*seed, "a", "--credits", "6"), command_refused(*seed, " ")
    assert (other.returncode, nameless.returncode) == (1, 2)
    assert "credits_add adds more" in str(other)
    assert ApiKey.objects.count() == 2
    assert Membership.objects.get().role == Membership.Role.ADMIN
