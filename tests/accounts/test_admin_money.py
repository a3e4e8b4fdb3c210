"""Money that an operator moves: credits, refunds, transfers, fees, statements."""

import uuid
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.test import Client, RequestFactory
from pytest_django import Settings

from accounts.models import Account, AuditRecord, LedgerEntry, User
from accounts.services.books.credits import add_credits
from accounts.services.organization import open_account
from tests.support.admin_pages import operator, page

pytestmark = [pytest.mark.django_db, pytest.mark.both]
MOVES = ["credits", "refund", "transfer"]


@pytest.fixture
def rich(account: Account) -> Account:
    add_credits(account=account, amount_nano=10**10, source="test", source_ref="r")
    return account


def send(client: Client, account: Account, form: str = "credits", **typed: str) -> Any:
    usual = {"amount": "4", "kind": "purchase", "reason": "Invoice 7", "ref": str(uuid.uuid4())}
    return client.post(page(Account, form, account.pk), usual | typed, follow=True)


def credits_of(account: Account) -> int:
    account.refresh_from_db()
    return account.total_credits_nano


def logged_in(permissions: str) -> Client:
    client = Client()
    client.force_login(operator(permissions, permissions=permissions))
    return client


def test_credits_are_booked_once_with_reason_and_author(
    admin_client: Client, account: Account
) -> None:
    typed = {"amount": "2.5", "ref": str(uuid.uuid4())}

    first, again = (send(admin_client, account, **typed) for _ in range(2))
    other = send(admin_client, account, **typed | {"amount": "2"})

    assert "Added 2.5 USD to acme." in first.text
    assert "count once" in again.text
    assert "This form was used for another payment" in other.text
    entry = LedgerEntry.objects.get()
    assert (entry.kind, entry.amount_nano, entry.source) == ("purchase", 2_500_000_000, "admin")
    assert entry.note == "Invoice 7 (by admin)"
    assert credits_of(account) == 2_500_000_000
    assert "Added credits: 2.5 USD." in LogEntry.objects.get().get_change_message()


def test_odd_amounts_and_kinds_are_refused(admin_client: Client, account: Account) -> None:
    for amount in ("", "0", "-1", "0.0000000001", "1000000001", "NaN", "1e99"):
        assert "errorlist" in send(admin_client, account, amount=amount).text, amount
    for kind in ("usage", "refund"):
        send(admin_client, account, kind=kind)
    assert not LedgerEntry.objects.exists()
    assert admin_client.get(page(Account, "credits", uuid.uuid4())).status_code == 404


def test_a_refund_has_a_reason_and_says_who(admin_client: Client, rich: Account) -> None:
    assert "Refunded 4 USD of acme." in send(admin_client, rich, "refund").text

    entry = LedgerEntry.objects.get(kind="refund")
    assert (entry.amount_nano, entry.note) == (-4 * 10**9, "Invoice 7 (by admin)")
    assert credits_of(rich) == 6 * 10**9
    record = AuditRecord.objects.get(object_type="ledger_entry")
    assert (str(record.operator), record.action) == ("admin", "booked")
    assert record.after is not None
    assert record.after["note"] == entry.note
    # More than is left takes a box.
    assert "is smaller" in send(admin_client, rich, "refund", amount="7").text
    assert credits_of(rich) == 6 * 10**9
    send(admin_client, rich, "refund", amount="7", below_zero="on")
    assert credits_of(rich) == -(10**9)


@pytest.mark.parametrize("form", MOVES)
def test_nothing_moves_without_reason_and_right(
    admin_client: Client, rich: Account, form: str
) -> None:
    to = {"to": str(open_account(name="other").pk)}
    changer, viewer = logged_in("change_account"), logged_in("view_")

    send(admin_client, rich, form, reason="", **to)
    assert send(changer, rich, form, **to).status_code == 403
    assert send(viewer, rich, form, **to).status_code == 403
    assert LedgerEntry.objects.count() == 1
    assert viewer.get(page(Account, "statement", rich.pk)).status_code == 200
    assert changer.get(page(Account, "statement", rich.pk)).status_code == 403
    booker = logged_in("add_ledgerentry")
    assert booker.post(page(Account, form, rich.pk), {"amount": "x"}).status_code == 200


def test_a_transfer_moves_once_and_to_another_account(admin_client: Client, rich: Account) -> None:
    other, ref = open_account(name="other"), str(uuid.uuid4())
    send(admin_client, rich, "transfer", to=str(rich.pk))
    for _ in range(2):
        response = send(admin_client, rich, "transfer", to=str(other.pk), ref=ref)

    assert "count once" in response.text
    assert (credits_of(rich), credits_of(other)) == (6 * 10**9, 4 * 10**9)
    assert AuditRecord.objects.filter(object_type="ledger_entry").count() == 2


def test_a_purchase_is_charged_the_fee_and_a_grant_is_not(
    admin_client: Client, account: Account, settings: Settings
) -> None:
    settings.CREDIT_FEE_RATE = 0.055

    assert "5.5000% are kept" in admin_client.get(page(Account, "credits", account.pk)).text
    for kind in ("purchase", "grant"):
        send(admin_client, account, amount="10", kind=kind)

    booked = LedgerEntry.objects.order_by("pk").values_list("kind", "amount_nano")
    assert list(booked) == [("purchase", 9_450_000_000), ("grant", 10**10)]


def test_a_statement_is_downloaded(admin_client: Client, rich: Account) -> None:
    path = page(Account, "statement", rich.pk)
    asked = {"start": "2020-01-01", "end": "2099-01-01", "format": "csv"}

    response: Any = admin_client.get(path, asked)

    assert response["Content-Disposition"].endswith('.csv"')
    assert b"10.000000000" in response.getvalue()
    assert "first day that is not part" in admin_client.get(path).text
    odd = admin_client.get(path, asked | {"end": "2019-01-01"})
    assert "It is before the start." in odd.text


def test_saving_an_account_leaves_totals_that_moved_meanwhile(account: Account) -> None:
    stale = Account.objects.get(pk=account.pk)
    add_credits(account=account, amount_nano=7, source="test", source_ref="meanwhile")
    stale.name = "acme, renamed"
    said = type("Form", (), {"changed_data": ["name"]})()

    request = RequestFactory().post("/")
    request.user = User.objects.create(username="operator")
    admin.site.get_model_admin(Account).save_model(request, stale, said, True)

    account.refresh_from_db()
    assert (account.name, account.total_credits_nano) == ("acme, renamed", 7)


def test_totals_are_shown_and_cannot_be_typed(admin_client: Client, account: Account) -> None:
    Account.objects.update(total_credits_nano=1_500_000_000, total_usage_nano=1_500_000_001)
    typed = {"name": "acme", "total_credits_nano": "99", "credits": "99", "held_nano": "99"}
    for inline in ("workspaces", "memberships"):
        typed |= {f"{inline}-TOTAL_FORMS": "0", f"{inline}-INITIAL_FORMS": "0"}

    assert admin_client.post(page(Account, "change", account.pk), typed).status_code == 302

    account.refresh_from_db()
    assert (account.total_credits_nano, account.held_nano) == (1_500_000_000, 0)
    shown = admin_client.get(page(Account)).text
    assert ">1.500000001<" in shown
    assert ">-0.000000001<" in shown


def test_a_new_account_comes_with_its_default_workspace(
    admin_client: Client, account: Account
) -> None:
    admin_client.post(page(Account, "add"), {"name": "newcomer"})
    newcomer = Account.objects.get(name="newcomer")
    assert [workspace.is_default for workspace in newcomer.workspaces.all()] == [True]
    found = admin_client.get(page(Account), {"q": str(newcomer.pk)}).context["cl"].result_list
    assert [each.name for each in found] == ["newcomer"]
