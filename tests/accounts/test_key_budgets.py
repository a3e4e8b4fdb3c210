"""Budgets: set, read and taken away of workspaces; and all that GET /key says a key is held to."""

import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client

from accounts.authentication import forget_keys
from accounts.caller import read_caller
from accounts.models import (
    Account,
    ApiKey,
    AuditRecord,
    Hold,
    SpendCounter,
    Workspace,
    WorkspaceBudget,
)
from accounts.models.account import default_workspace_id
from accounts.services.guardrail_assignments import assign_keys, assign_members
from accounts.services.guardrails import change_guardrail, create_guardrail
from accounts.services.keys import create_key
from accounts.services.records import SYSTEM
from accounts.spending import (
    SpendScope,
    find_window_end,
    find_window_starts,
    format_guardrail_scope_id,
)
from tests.accounts.office import charge, hold, spend
from tests.support.admin_pages import page
from tests.support.management import Manager

pytestmark = [pytest.mark.django_db, pytest.mark.both]
USD = 1_000_000_000
PATH = "/workspaces/default/budgets"


def put(mine: Manager, interval: str, limit: Any, **said: Any) -> Any:
    return mine.ok("PUT", f"{PATH}/{interval}", {"limit_usd": limit} | said)


def test_a_budget_shows_every_field_wherever_it_is_asked_for(mine: Manager) -> None:
    made = put(mine, "monthly", 500.25)

    assert made["include_byok_in_budgets"] is False
    shown = made["data"]
    assert shown == {
        "id": str(uuid.UUID(shown["id"])),
        "workspace_id": str(default_workspace_id(mine.account.pk)),
        "limit_usd": 500.25,
        "enforcement": "block",
        "reset_interval": "monthly",
        "created_at": shown["created_at"],
        "updated_at": shown["created_at"],
    }
    for reference in ("default", shown["workspace_id"], shown["workspace_id"].upper()):
        path = f"/workspaces/{reference}/budgets"
        assert mine.ok("GET", f"{path}/monthly") == made
        assert mine.ok("GET", path) == {"data": [shown], "include_byok_in_budgets": False}


def test_limits_strictly_decrease_as_the_interval_narrows(mine: Manager) -> None:
    put(mine, "weekly", 600)

    for interval, limit, words in (
        ("monthly", 500, "monthly ($500) must exceed weekly ($600)"),
        ("daily", 600, "weekly ($600) must exceed daily ($600)"),
        ("lifetime", 0.5, "lifetime ($0.5) must exceed weekly ($600)"),
    ):
        refused = mine.expect_refusal(400, "PUT", f"{PATH}/{interval}", {"limit_usd": limit})
        assert refused == f"Budget limits must strictly decrease: {words}"
    assert WorkspaceBudget.objects.count() == 1
    for interval, limit in (("lifetime", 1000), ("daily", 599.99), ("monthly", 600.01)):
        put(mine, interval, limit)
    # They are listed the widest first.
    listed = [(row["reset_interval"], row["limit_usd"]) for row in mine.ok("GET", PATH)["data"]]
    assert listed == [(None, 1000), ("monthly", 600.01), ("weekly", 600), ("daily", 599.99)]


def test_set_again_it_keeps_its_id_and_every_change_leaves_a_record(mine: Manager) -> None:
    first, _ = put(mine, "daily", 1)["data"], put(mine, "daily", 1)
    second = put(mine, "daily", 2, include_byok_in_budgets=True)["data"]
    assert second == first | {"limit_usd": 2, "updated_at": second["updated_at"]}
    assert second["updated_at"] > first["updated_at"]
    for _ in range(2):
        mine.ok("DELETE", f"{PATH}/daily")

    records = AuditRecord.objects.filter(object_type="workspace_budget").order_by("pk")
    assert [each.action for each in records] == ["set", "set", "deleted"]
    before, after = [each.before or {} for each in records], [each.after for each in records]
    assert (before[0]["limit_nano"], (after[0] or {})["limit_nano"]) == (None, USD)
    assert before[1] == {"limit_nano": USD, "include_byok_in_budgets": False}
    assert after[1] == {"limit_nano": 2 * USD, "include_byok_in_budgets": True}
    assert (before[2]["interval"], after[2]) == ("daily", None)
    whose = {(each.account_id, each.object_id) for each in records}
    assert whose == {(mine.account.pk, records[0].object_id)}


LIMIT = "limit_usd: Invalid input: expected"
WRONG: list[tuple[Any, str]] = [
    ({}, f"{LIMIT} number, received undefined"),
    ({"limit_usd": 0}, "limit_usd: Too small: expected number to be >0"),
    ({"limit_usd": 1e-10}, f"{LIMIT} at most 9 decimal places"),
]


def test_a_wrong_body_or_interval_is_refused_and_changes_nothing(mine: Manager) -> None:
    for body, told in WRONG:
        assert mine.expect_refusal(400, "PUT", f"{PATH}/daily", body).startswith(told)
    intervals = 'expected one of "daily"|"weekly"|"monthly"|"lifetime"'
    for method, body in (("GET", None), ("PUT", {"limit_usd": 5}), ("DELETE", None)):
        said = mine.expect_refusal(400, method, f"{PATH}/yearly", body)
        assert said == f"interval: Invalid option: {intervals}"
    assert not WorkspaceBudget.objects.exists()


def test_a_budget_that_is_not_there_is_404_and_deleted_all_the_same(mine: Manager) -> None:
    put(mine, "monthly", 5)

    mine.expect_refusal(404, "GET", f"{PATH}/daily")
    assert mine.ok("DELETE", f"{PATH}/daily") == {"deleted": True}
    assert mine.ok("DELETE", f"{PATH}/monthly") == {"deleted": True}
    assert mine.ok("DELETE", f"{PATH}/monthly") == {"deleted": True}
    mine.expect_refusal(404, "GET", f"{PATH}/monthly")
    assert mine.ok("GET", PATH)["data"] == []


def test_whether_byok_counts_stays_where_nothing_is_said(mine: Manager) -> None:
    name = "include_byok_in_budgets"

    assert put(mine, "monthly", 5, **{name: True})[name] is True
    assert put(mine, "daily", 4)[name] is True
    assert put(mine, "daily", 4, **{name: None})[name] is True
    assert mine.ok("GET", "/workspaces/default")["data"][name] is True
    mine.ok("DELETE", f"{PATH}/monthly")
    assert mine.ok("GET", f"{PATH}/daily")[name] is True
    assert put(mine, "daily", 3, **{name: False})[name] is False


def test_a_caller_knows_its_budgets(mine: Manager, django_assert_num_queries: Any) -> None:
    workspace = mine.workspace("team")
    key, _ = create_key(account=mine.account, name="k", workspace=workspace)
    with django_assert_num_queries(1):
        caller = read_caller(key.hash)
    assert caller is not None
    assert (caller.budgets, caller.limits_version) == ((), 0)

    for interval, limit in (("daily", 1), ("lifetime", 9)):
        path = f"/workspaces/team/budgets/{interval}"
        mine.ok("PUT", path, {"limit_usd": limit, "include_byok_in_budgets": True})

    with django_assert_num_queries(2):
        again = read_caller(key.hash)
    assert again is not None
    assert again.budgets == (
        SpendScope("workspace", workspace.pk.hex, "total", 9 * USD, counts_byok=True),
        SpendScope("workspace", workspace.pk.hex, "day", USD, counts_byok=True),
    )
    assert again.limits_version == 2
    ApiKey.objects.filter(pk=key.pk).update(disabled=True)
    mine.ok("DELETE", "/workspaces/team")
    mine.expect_refusal(404, "GET", "/workspaces/team/budgets")


def test_the_counter_stands_with_its_limit_from_the_change_on(mine: Manager) -> None:
    put(mine, "weekly", 3)
    row = SpendCounter.objects.get()
    workspace = default_workspace_id(mine.account.pk)

    assert (row.scope, row.scope_id, row.window) == ("workspace", workspace.hex, "week")
    assert row.window_start == find_window_starts(datetime.now(UTC))["week"]
    assert (row.limit_nano, row.spent_nano, row.counts_byok) == (3 * USD, 0, False)
    assert (row.account_id, row.workspace_id) == (mine.account.pk, workspace)
    mine.ok("DELETE", f"{PATH}/weekly")
    row.refresh_from_db()
    assert row.limit_nano is None
    assert Account.objects.get(pk=mine.account.pk).limits_version == 2


def read_own_key(mine: Manager, string: str) -> Any:
    forget_keys()
    status, answer = mine.call("GET", "/key", key=string)
    assert status == 200
    assert mine.queries <= 6
    return answer["data"]


def test_a_key_that_is_held_to_nothing_has_none(mine: Manager) -> None:
    home = mine.account.workspaces.get()
    key, string = create_key(account=mine.account, name="k", workspace=home)

    data = read_own_key(mine, string)

    assert (data["budgets"], data["effective_budget"]) == ([], None)
    assert data["allowed_data_regions"] == ["global", "europe", "us"]
    assert data["workspace_id"] == str(key.workspace_id)
    assert data["organization_id"] == str(mine.account.pk)
    assert read_own_key(mine, mine.key)["workspace_id"] is None


def test_all_budgets_stand_in_the_order_in_which_they_refuse(mine: Manager) -> None:
    home = mine.account.workspaces.get()
    limit: dict[str, Any] = {"limit_nano": 5 * USD, "limit_reset": "daily"}
    who: dict[str, Any] = {"account": mine.account, "workspace": home, "creator": mine.admin}
    key, string = create_key(name="k", **who, **limit, include_byok_in_limit=True)
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
    for interval, usd in (("lifetime", 100), ("daily", 2)):
        put(mine, interval, usd)
    now = datetime.now(UTC)
    spend(key, 6 * USD)
    SpendCounter.objects.create(
        scope="guardrail",
        scope_id=format_guardrail_scope_id(default, user=mine.admin.pk),
        window="day",
        window_start=find_window_starts(now)["day"],
        spent_nano=3 * USD,
        limit_nano=USD,
    )

    data = read_own_key(mine, string)

    names = ("scope", "reset_interval", "limit_usd", "spend_usd", "include_byok")
    assert [tuple(row[name] for name in names) for row in data["budgets"]] == [
        ("workspace_default_member", "daily", 1, 3, False),
        ("workspace_default_key", "daily", 1, 0, False),
        ("member", "monthly", 30, 6, False),
        ("api_key", "weekly", 7, 6, False),
        ("workspace", None, 100, 0, False),
        ("workspace", "daily", 2, 0, False),
        ("key_limit", "daily", 5, 6, True),
    ]
    assert data["budgets"][-1]["remaining_usd"] == -1
    rails = [row["guardrail_id"] for row in data["budgets"]]
    assert rails == [str(default)] * 2 + [str(each.pk) for each in made] + [None] * 3
    listed = mine.ok("GET", "/workspaces/default/budgets")["data"]
    ids = [row["budget_id"] for row in data["budgets"]]
    assert ids == [None] * 4 + [row["id"] for row in listed] + [None]

    tomorrow = find_window_end("day", find_window_starts(now)["day"])
    assert data["budgets"][0]["resets_at"] == f"{tomorrow}T00:00:00.000Z"
    assert data["budgets"][4]["resets_at"] is None
    assert data["effective_budget"] == data["budgets"][0]
    assert data["allowed_data_regions"] == ["us"]


@pytest.mark.parametrize("interval", ["lifetime", "daily"])
def test_a_budget_set_while_requests_run_tells_what_they_cost_before_it_is_met(
    mine: Manager, admin_client: Client, interval: str
) -> None:
    home = mine.account.workspaces.get()
    key, string = create_key(account=mine.account, name="k", workspace=home)
    now = datetime.now(UTC)
    charge(key, 2 * USD, "gen-before", now)
    hold(key, USD, "gen-running", now + timedelta(minutes=15))
    mine.ok("PUT", f"/workspaces/default/budgets/{interval}", {"limit_usd": 31})
    assert SpendCounter.objects.get(scope="workspace").limit_nano is None

    # It ends, and knows nothing of the budget.
    Hold.objects.all().delete()
    charge(key, USD // 2, "gen-running", now)

    (budget,) = read_own_key(mine, string)["budgets"]
    assert (budget["spend_usd"], budget["remaining_usd"]) == (2.5, 28.5)
    for shown in (page(WorkspaceBudget), page(Workspace, "change", home.pk)):
        assert ">2.5<" in admin_client.get(shown).text
