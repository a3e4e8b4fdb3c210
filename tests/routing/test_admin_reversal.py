"""An operator gives a charge back, with a reason."""

import uuid
from datetime import UTC, datetime
from typing import Any

import pytest
from django.test import Client

from accounts.models import Account, AuditRecord, LedgerEntry
from accounts.services.accounts import open_account
from accounts.services.keys import create_key
from accounts.windows import window_starts
from routing.metering.models import Generation
from tests.support.operations import generation, operator, page

pytestmark = [pytest.mark.django_db, pytest.mark.both]


@pytest.fixture
def charged(db: None) -> Generation:
    """A generation that cost ten nano-dollars, in all the books."""
    from accounts.models import SpendCounter

    account = open_account(name="acme")
    workspace, now = account.workspaces.get(), datetime.now(UTC)
    key, _ = create_key(account=account, name="k", workspace=workspace)
    owner: dict[str, Any] = {"account": account, "workspace": workspace, "api_key": key}
    LedgerEntry.objects.create(
        **owner,
        kind="usage",
        amount_nano=10,
        generation_id="gen-1",
        source="generation",
        source_ref="gen-1",
        created_at=now,
    )
    Account.objects.update(total_usage_nano=10)
    for window, start in window_starts(now).items():
        where: dict[str, Any] = {"window": window, "window_start": start}
        SpendCounter.objects.update_or_create(
            scope="key", scope_id=str(key.pk), **where, defaults={"spent_nano": 10}
        )
    return generation(id="gen-1", **owner, created_at=now, charge_nano=10)


def send(client: Client, amount: str = "0.000000004", **changes: str) -> Any:
    data = {"amount": amount, "reason": "it was wrong", "ref": str(uuid.uuid4())}
    return client.post(page(Generation, "reverse", "gen-1"), data | changes, follow=True)


def used_nano() -> int:
    return Account.objects.get().total_usage_nano


def test_a_charge_is_given_back_with_a_reason(admin_client: Client, charged: Generation) -> None:
    response = send(admin_client)

    assert "Gave 0.000000004 USD of gen-1 back." in response.text
    entry = LedgerEntry.objects.get(kind="usage_reversal")
    assert (entry.amount_nano, entry.note) == (-4, "it was wrong (by admin)")
    assert used_nano() == 6
    record = AuditRecord.objects.get(object_type="ledger_entry", object_id=str(entry.pk))
    assert record.operator is not None
    assert record.after is not None
    assert record.after["note"] == entry.note


def test_it_counts_once_and_never_more_than_was_charged(
    admin_client: Client, charged: Generation
) -> None:
    ref = str(uuid.uuid4())
    send(admin_client, ref=ref)

    assert "count once" in send(admin_client, ref=ref).text
    assert "used for another" in send(admin_client, "0.000000005", ref=ref).text
    assert "more than what is left" in send(admin_client, "0.000000007").text
    assert used_nano() == 6
    assert AuditRecord.objects.filter(object_type="ledger_entry").count() == 1


def test_it_takes_a_reason_and_the_right_to(admin_client: Client, charged: Generation) -> None:
    viewer = Client()
    viewer.force_login(operator("viewer", permissions="view_"))

    send(admin_client, reason="")
    assert send(viewer).status_code == 403
    assert used_nano() == 10
    assert "Give back its charge" in admin_client.get(page(Generation, "change", "gen-1")).text
    assert admin_client.get(page(Generation, "reverse", "gen-1")).status_code == 200
