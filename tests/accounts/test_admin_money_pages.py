"""Refunds, transfers and statements in the admin."""

import uuid
from typing import Any

import pytest
from django.test import Client
from pytest_django import Settings

from accounts.models import Account, AuditRecord, LedgerEntry
from accounts.services.accounts import open_account
from accounts.services.credits import add_credits
from tests.support.operations import operator, page

pytestmark = [pytest.mark.django_db, pytest.mark.both]


@pytest.fixture
def rich(account: Account) -> Account:
    add_credits(account=account, amount_nano=10**10, source="test", source_ref="r")
    return account


def send(client: Client, account: Account, form: str, **data: Any) -> Any:
    usual = {"amount": "4", "reason": "asked for it", "ref": str(uuid.uuid4())}
    return client.post(page(Account, form, account.pk), usual | data, follow=True)


def credits_of(account: Account) -> int:
    account.refresh_from_db()
    return account.total_credits_nano


def test_a_refund_has_a_reason_and_says_who(admin_client: Client, rich: Account) -> None:
    response = send(admin_client, rich, "refund")

    assert "Refunded 4 USD of acme." in response.text
    entry = LedgerEntry.objects.get(kind="refund")
    assert (entry.amount_nano, entry.note) == (-4 * 10**9, "asked for it (by admin)")
    assert credits_of(rich) == 6 * 10**9
    record = AuditRecord.objects.get(object_type="ledger_entry")
    assert (record.operator.username, record.action) == ("admin", "booked")  # type: ignore[union-attr]  # There is one.
    assert record.after is not None
    assert record.after["note"] == entry.note


@pytest.mark.parametrize("kind", ["credits", "refund", "transfer"])
def test_nothing_moves_without_a_reason(admin_client: Client, rich: Account, kind: str) -> None:
    other = open_account(name="other")

    send(admin_client, rich, kind, reason="", kind="purchase", to=str(other.pk))

    assert LedgerEntry.objects.count() == 1


def test_a_refund_of_more_than_is_left_takes_a_box(admin_client: Client, rich: Account) -> None:
    assert "is smaller" in send(admin_client, rich, "refund", amount="11").text
    assert credits_of(rich) == 10**10

    send(admin_client, rich, "refund", amount="11", below_zero="on")

    assert credits_of(rich) == -(10**9)


def test_a_transfer_moves_once(admin_client: Client, rich: Account) -> None:
    other, ref = open_account(name="other"), str(uuid.uuid4())
    for _ in range(2):
        response = send(admin_client, rich, "transfer", to=str(other.pk), ref=ref)

    assert "count once" in response.text
    assert (credits_of(rich), credits_of(other)) == (6 * 10**9, 4 * 10**9)
    assert AuditRecord.objects.filter(object_type="ledger_entry").count() == 2


def test_nobody_transfers_to_the_same_account(admin_client: Client, rich: Account) -> None:
    send(admin_client, rich, "transfer", to=str(rich.pk))

    assert LedgerEntry.objects.count() == 1


def test_the_fee_is_told_before_it_is_kept(
    admin_client: Client, account: Account, settings: Settings
) -> None:
    settings.CREDIT_FEE_RATE = 0.055

    assert "5.5000% are kept" in admin_client.get(page(Account, "credits", account.pk)).text
    send(admin_client, account, "credits", amount="10", kind="purchase")
    send(admin_client, account, "credits", amount="10", kind="grant")

    amounts = LedgerEntry.objects.order_by("pk").values_list("amount_nano", flat=True)
    assert list(amounts) == [9_450_000_000, 10**10]


def test_a_statement_is_downloaded(admin_client: Client, rich: Account) -> None:
    path = page(Account, "statement", rich.pk)
    asked = {"start": "2020-01-01", "end": "2099-01-01", "format": "csv"}

    response: Any = admin_client.get(path, asked)

    assert response["Content-Disposition"].endswith('.csv"')
    assert b"10.000000000" in response.getvalue()
    assert "first day that is not part" in admin_client.get(path).text
    odd = admin_client.get(path, asked | {"end": "2019-01-01"})
    assert "It is before the start." in odd.text


@pytest.mark.parametrize("kind", ["credits", "refund", "transfer"])
def test_moving_money_takes_the_right_to(rich: Account, kind: str) -> None:
    viewer = Client()
    viewer.force_login(operator("viewer", permissions="view_"))

    assert send(viewer, rich, kind).status_code == 403
    assert viewer.get(page(Account, "statement", rich.pk)).status_code == 200
    changer = Client()
    changer.force_login(operator("changer", permissions="change_account"))
    assert changer.get(page(Account, "statement", rich.pk)).status_code == 403
