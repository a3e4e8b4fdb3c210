"""`budgets` of GET /key: all that a key is held to, and how much of it is spent."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client

from accounts.authentication import forget_keys
from accounts.models import (
    ApiKey,
    Hold,
    LedgerEntry,
    SpendCounter,
    Workspace,
    WorkspaceBudget,
)
from accounts.services.guardrail_assignments import assign_keys, assign_members
from accounts.services.guardrails import change_guardrail, create_guardrail
from accounts.services.keys import create_key
from accounts.services.records import SYSTEM
from accounts.spending import guardrail_scope_id
from accounts.windows import window_end, window_starts
from tests.accounts.test_keys import spent
from tests.support.management import Manager
from tests.support.operations import page

pytestmark = [pytest.mark.django_db, pytest.mark.both]
USD = 1_000_000_000


def told(mine: Manager, string: str) -> Any:
    forget_keys()
    status, answer = mine.call("GET", "/key", key=string)
    assert status == 200
    assert mine.queries <= 6
    return answer["data"]


def test_a_key_that_is_held_to_nothing_has_none(mine: Manager) -> None:
    home = mine.account.workspaces.get()
    key, string = create_key(account=mine.account, name="k", workspace=home)

    data = told(mine, string)

    assert (data["budgets"], data["effective_budget"]) == ([], None)
    assert data["allowed_data_regions"] == ["global", "europe", "us"]
    assert data["workspace_id"] == str(key.workspace_id)
    assert data["organization_id"] == str(mine.account.pk)
    assert told(mine, mine.key)["workspace_id"] is None


def test_all_budgets_stand_in_the_order_in_which_they_refuse(mine: Manager) -> None:
    home = mine.account.workspaces.get()
    key, string = create_key(
        account=mine.account,
        name="k",
        workspace=home,
        creator=mine.admin,
        limit_nano=5 * USD,
        limit_reset="daily",
        include_byok_in_limit=True,
    )
    made = [
        create_guardrail(
            account_id=mine.account.pk,
            workspace_id=None,
            by=SYSTEM,
            settings={"name": "g", "limit_nano": limit * USD, "reset_interval": reset},
        )
        for limit, reset in ((30, "monthly"), (7, "weekly"))
    ]
    assigning: dict[str, Any] = {"account_id": mine.account.pk, "by": SYSTEM, "assigner": None}
    user = mine.admin.public_id
    assign_members(guardrail_id=made[0].pk, user_ids=[user], **assigning)
    assign_keys(guardrail_id=made[1].pk, key_hashes=[key.hash], **assigning)
    default = home.default_guardrail_id
    change_guardrail(
        account_id=mine.account.pk,
        guardrail_id=default,
        by=SYSTEM,
        changes={"limit_nano": USD, "reset_interval": "daily", "allowed_data_regions": ["us"]},
    )
    for interval, limit in (("lifetime", 100), ("daily", 2)):
        mine.ok("PUT", f"/workspaces/default/budgets/{interval}", {"limit_usd": limit})
    now = datetime.now(UTC)
    spent(key, now, 6 * USD)
    SpendCounter.objects.create(
        scope="guardrail",
        scope_id=guardrail_scope_id(default, user=mine.admin.pk),
        window="day",
        window_start=window_starts(now)["day"],
        spent_nano=3 * USD,
        limit_nano=USD,
    )

    data = told(mine, string)

    rows = [(row["scope"], row["reset_interval"], row["limit_usd"]) for row in data["budgets"]]
    assert rows == [
        ("workspace_default_member", "daily", 1),
        ("workspace_default_key", "daily", 1),
        ("member", "monthly", 30),
        ("api_key", "weekly", 7),
        ("workspace", None, 100),
        ("workspace", "daily", 2),
        ("key_limit", "daily", 5),
    ]
    assert [row["spend_usd"] for row in data["budgets"]] == [3, 0, 6, 6, 0, 0, 6]
    assert [row["remaining_usd"] for row in data["budgets"]][-1] == -1
    rails = [row["guardrail_id"] for row in data["budgets"]]
    assert rails == [str(default)] * 2 + [str(each.pk) for each in made] + [None] * 3
    listed = mine.ok("GET", "/workspaces/default/budgets")["data"]
    ids = [row["budget_id"] for row in data["budgets"]]
    assert ids == [None] * 4 + [row["id"] for row in listed] + [None]
    assert [row["include_byok"] for row in data["budgets"]] == [False] * 6 + [True]
    tomorrow = window_end("day", window_starts(now)["day"])
    assert data["budgets"][0]["resets_at"] == f"{tomorrow}T00:00:00.000Z"
    assert data["budgets"][4]["resets_at"] is None
    assert data["effective_budget"] == data["budgets"][0]
    assert data["allowed_data_regions"] == ["us"]


@pytest.mark.parametrize("interval", ["lifetime", "monthly", "daily"])
def test_a_budget_set_while_requests_run_tells_what_they_cost_before_it_is_met(
    mine: Manager, admin_client: Client, interval: str
) -> None:
    home = mine.account.workspaces.get()
    key, string = create_key(account=mine.account, name="k", workspace=home)
    now = datetime.now(UTC)
    charged(key, "gen-before", now, 2 * USD)
    Hold.objects.create(
        generation_id="gen-running",
        account=mine.account,
        workspace=home,
        api_key=key,
        amount_nano=USD,
        counter_ids="0",
        model="acme/small",
        created_at=now,
        lease_expires_at=now + timedelta(minutes=15),
    )
    mine.ok("PUT", f"/workspaces/default/budgets/{interval}", {"limit_usd": 31})
    assert SpendCounter.objects.get(scope="workspace").limit_nano is None

    # It ends, and knows nothing of the budget.
    Hold.objects.all().delete()
    charged(key, "gen-running", now, USD // 2)

    (budget,) = told(mine, string)["budgets"]
    assert (budget["spend_usd"], budget["remaining_usd"]) == (2.5, 28.5)
    for shown in (page(WorkspaceBudget), page(Workspace, "change", home.pk)):
        assert ">2.5<" in admin_client.get(shown).text


def charged(key: ApiKey, generation_id: str, at: datetime, nano: int) -> None:
    LedgerEntry.objects.create(
        account=key.account,
        workspace=key.workspace,
        api_key=key,
        kind="usage",
        amount_nano=nano,
        generation_id=generation_id,
        day=at.date(),
        source="generation",
        source_ref=generation_id,
        created_at=at,
    )
