"""Budgets of workspaces as an operator sets them."""

from datetime import UTC, datetime
from typing import Any

import pytest
from django.test import Client

from accounts.models import AuditRecord, SpendCounter, User, Workspace, WorkspaceBudget
from accounts.services.accounts import open_account, open_workspace
from accounts.services.records import SYSTEM
from accounts.services.workspace_budgets import set_budget
from tests.support.operations import page

pytestmark = [pytest.mark.django_db, pytest.mark.both]
USD = 1_000_000_000


@pytest.fixture
def workspace(db: None) -> Workspace:
    return open_workspace(account=open_account(name="acme"), slug="team")


def budget(workspace: Workspace, interval: str, usd: int) -> WorkspaceBudget:
    _, row = set_budget(
        account_id=workspace.account_id,
        reference="team",
        interval=interval,
        limit_nano=usd * USD,
        include_byok=None,
        by=SYSTEM,
    )
    return row


def add(client: Client, workspace: Workspace, **typed: str) -> Any:
    usual = {"workspace": str(workspace.pk), "interval": "weekly", "limit_usd": "12.50"}
    return client.post(page(WorkspaceBudget, "add"), usual | typed)


def test_a_budget_is_set_with_a_counter_and_a_record(
    admin_client: Client, admin_user: User, workspace: Workspace
) -> None:
    assert add(admin_client, workspace, include_byok_in_budgets="on").status_code == 302

    row = WorkspaceBudget.objects.get()
    assert (row.interval, row.limit_nano) == ("weekly", 12_500_000_000)
    workspace.refresh_from_db()
    assert workspace.include_byok_in_budgets
    record = AuditRecord.objects.get(object_type="workspace_budget")
    assert record.after is not None
    assert (record.operator_id, record.after["limit_nano"]) == (admin_user.pk, row.limit_nano)


def test_it_is_changed_in_place(admin_client: Client, workspace: Workspace) -> None:
    row = budget(workspace, "daily", 5)

    shown = admin_client.get(page(WorkspaceBudget, "change", row.pk)).text
    answer = admin_client.post(page(WorkspaceBudget, "change", row.pk), {"limit_usd": "6"})

    assert 'value="5"' in shown
    assert answer.status_code == 302
    row.refresh_from_db()
    assert (row.limit_nano, row.interval) == (6 * USD, "daily")
    assert SpendCounter.objects.get().limit_nano == 6 * USD


@pytest.mark.parametrize(
    ("typed", "text"),
    [
        ({"limit_usd": "0"}, "greater than or equal to"),
        ({"limit_usd": ""}, "This field is required."),
        ({"interval": "monthly"}, "The workspace has a budget of this interval."),
        ({"limit_usd": "500"}, "monthly ($500) must exceed weekly ($500)"),
        ({"interval": "yearly"}, "Select a valid choice"),
    ],
)
def test_what_cannot_be_is_refused(
    admin_client: Client, workspace: Workspace, typed: dict[str, str], text: str
) -> None:
    budget(workspace, "monthly", 500)

    response = add(admin_client, workspace, **typed)

    assert response.status_code == 200
    assert text in response.text
    assert WorkspaceBudget.objects.count() == 1


def test_it_is_taken_away_with_its_limit(admin_client: Client, workspace: Workspace) -> None:
    row = budget(workspace, "daily", 5)

    admin_client.post(page(WorkspaceBudget, "delete", row.pk), {"post": "yes"})

    assert not WorkspaceBudget.objects.exists()
    assert SpendCounter.objects.get().limit_nano is None
    last = AuditRecord.objects.filter(object_type="workspace_budget").latest("pk")
    assert last.action == "deleted"


def test_the_workspace_s_page_shows_what_was_spent_of_each(
    admin_client: Client, workspace: Workspace
) -> None:
    for interval, usd in (("lifetime", 900), ("monthly", 700), ("daily", 20)):
        budget(workspace, interval, usd)
    SpendCounter.objects.filter(window="month").update(spent_nano=123_450_000_000)
    SpendCounter.objects.filter(window="day").update(spent_nano=3 * USD, byok_spent_nano=USD)
    Workspace.objects.filter(pk=workspace.pk).update(include_byok_in_budgets=True)
    SpendCounter.objects.update(counts_byok=True)
    SpendCounter.objects.create(
        scope="workspace",
        scope_id=workspace.pk.hex,
        window="day",
        window_start=datetime(2026, 1, 1, tzinfo=UTC).date(),
        spent_nano=77 * USD,
        workspace=workspace,
    )

    shown = admin_client.get(page(Workspace, "change", workspace.pk)).text
    listed = admin_client.get(page(WorkspaceBudget)).text

    for text in (shown, listed):
        assert all(amount in text for amount in (">700<", ">123.45<", ">20<", ">4<"))
        assert ">77<" not in text
