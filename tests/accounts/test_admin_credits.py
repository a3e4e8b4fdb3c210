import uuid
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.test import Client, RequestFactory

from accounts.models import Account, LedgerEntry, User
from accounts.services.accounts import open_account
from accounts.services.credits import add_credits
from tests.support.operations import operator, page

pytestmark = [pytest.mark.django_db, pytest.mark.both]


@pytest.fixture
def account(db: None) -> Account:
    return open_account(name="acme")


def form(amount: str = "2.5", **changes: str) -> dict[str, str]:
    usual = {"kind": "purchase", "reason": "Invoice 7", "ref": str(uuid.uuid4())}
    return {"amount": amount, **usual, **changes}


def send(client: Client, account: Account, data: dict[str, str]) -> Any:
    return client.post(page(Account, "credits", account.pk), data)


def test_credits_are_booked_with_their_reason_and_who_added_them(
    admin_client: Client, account: Account
) -> None:
    response = admin_client.post(page(Account, "credits", account.pk), form(), follow=True)

    assert "Added 2.5 USD to acme." in response.content.decode()
    entry = LedgerEntry.objects.get()
    assert (entry.kind, entry.amount_nano, entry.source) == ("purchase", 2_500_000_000, "admin")
    assert entry.note == "Invoice 7 (by admin)"
    account.refresh_from_db()
    assert account.total_credits_nano == 2_500_000_000
    assert "Added credits: 2.5 USD." in LogEntry.objects.get().get_change_message()


def test_the_same_form_sent_twice_counts_once(admin_client: Client, account: Account) -> None:
    data = form("0.000000001")
    send(admin_client, account, data)

    response = admin_client.post(page(Account, "credits", account.pk), data, follow=True)

    assert "count once" in response.content.decode()
    account.refresh_from_db()
    assert account.total_credits_nano == 1
    assert LogEntry.objects.count() == 1


def test_a_used_form_books_no_other_payment(admin_client: Client, account: Account) -> None:
    data = form("1")
    send(admin_client, account, data)

    response = send(admin_client, account, data | {"amount": "2"})

    assert "This form was used for another payment" in response.content.decode()
    assert LedgerEntry.objects.get().amount_nano == 1_000_000_000


@pytest.mark.parametrize("amount", ["", "0", "-1", "0.0000000001", "1000000001", "NaN", "1e99"])
def test_an_odd_amount_is_refused(admin_client: Client, account: Account, amount: str) -> None:
    response = send(admin_client, account, form(amount))

    assert "errorlist" in response.content.decode()
    assert not LedgerEntry.objects.exists()


def test_a_grant_is_no_purchase(admin_client: Client, account: Account) -> None:
    send(admin_client, account, form(kind="grant"))

    assert LedgerEntry.objects.get().kind == "grant"


@pytest.mark.parametrize("kind", ["usage", "refund"])
def test_only_money_that_comes_in_can_be_added(
    admin_client: Client, account: Account, kind: str
) -> None:
    send(admin_client, account, form(kind=kind))

    assert not LedgerEntry.objects.exists()


def test_the_action_leads_to_the_form_of_one_account(
    admin_client: Client, account: Account
) -> None:
    other = open_account(name="other")
    one = {"action": "add_credits_to", "_selected_action": [str(account.pk)]}

    assert admin_client.post(page(Account), one)["Location"] == page(Account, "credits", account.pk)
    two = one | {"_selected_action": [str(account.pk), str(other.pk)]}
    assert "one account at a time" in admin_client.post(page(Account), two, follow=True).text


def test_adding_credits_takes_the_right_to_add_ledger_entries(account: Account) -> None:
    changer, booker = Client(), Client()
    changer.force_login(operator("changer", permissions="change_account"))
    booker.force_login(operator("booker", permissions="add_ledgerentry"))

    assert send(changer, account, form()).status_code == 403
    assert send(booker, account, form()).status_code == 302
    assert LedgerEntry.objects.count() == 1


def test_nobody_adds_credits_to_an_account_that_is_not_there(admin_client: Client) -> None:
    assert admin_client.get(page(Account, "credits", uuid.uuid4())).status_code == 404


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


def test_totals_cannot_be_typed(admin_client: Client, account: Account) -> None:
    data = {"name": "acme", "total_credits_nano": "99", "credits": "99", "held_nano": "99"}
    for inline in ("workspaces", "memberships"):
        data |= {f"{inline}-TOTAL_FORMS": "0", f"{inline}-INITIAL_FORMS": "0"}

    assert admin_client.post(page(Account, "change", account.pk), data).status_code == 302

    account.refresh_from_db()
    assert (account.total_credits_nano, account.held_nano) == (0, 0)


def test_a_new_account_comes_with_its_default_workspace(admin_client: Client) -> None:
    admin_client.post(page(Account, "add"), {"name": "newcomer"})

    account = Account.objects.get(name="newcomer")
    assert [workspace.is_default for workspace in account.workspaces.all()] == [True]


def test_an_account_is_found_by_its_id(admin_client: Client, account: Account) -> None:
    open_account(name="other")

    response = admin_client.get(page(Account), {"q": str(account.pk)})

    assert [found.name for found in response.context["cl"].result_list] == ["acme"]


def test_a_balance_is_shown_in_plain_usd(admin_client: Client, account: Account) -> None:
    Account.objects.update(total_credits_nano=1_500_000_000, total_usage_nano=1_500_000_001)

    shown = admin_client.get(page(Account)).text

    assert ">1.500000001<" in shown
    assert ">-0.000000001<" in shown
