"""/workspaces/{id}/budgets: set, read and taken away through the API."""

import uuid
from datetime import UTC, datetime
from typing import Any

import pytest

from accounts.authentication import forget_keys
from accounts.caller import Caller, read_caller
from accounts.models import Account, ApiKey, AuditRecord, SpendCounter, Workspace, WorkspaceBudget
from accounts.models.account import default_workspace_id
from accounts.services.keys import create_key
from accounts.spending import SpendScope
from accounts.windows import window_starts
from tests.support.management import Manager, manager

pytestmark = [pytest.mark.django_db, pytest.mark.both]
USD = 1_000_000_000
PATH = "/workspaces/default/budgets"


@pytest.fixture
def mine(db: None) -> Manager:
    return manager("mine")


def put(mine: Manager, interval: str, limit: Any, **said: Any) -> Any:
    return mine.ok("PUT", f"{PATH}/{interval}", {"limit_usd": limit} | said)


def caller_of(mine: Manager, workspace: Workspace) -> Caller:
    key, _ = create_key(account=mine.account, name="k", workspace=workspace)
    caller = read_caller(key.hash)
    assert caller is not None
    return caller


def test_a_budget_shows_every_field_wherever_it_is_asked_for(mine: Manager) -> None:
    made = put(mine, "monthly", 500.25)

    assert made["include_byok_in_budgets"] is False
    shown = made["data"]
    assert shown == {
        "id": str(uuid.UUID(shown["id"])),
        "workspace_id": str(default_workspace_id(mine.account.pk)),
        "limit_usd": 500.25,
        "reset_interval": "monthly",
        "created_at": shown["created_at"],
        "updated_at": shown["created_at"],
    }
    for reference in ("default", shown["workspace_id"], shown["workspace_id"].upper()):
        path = f"/workspaces/{reference}/budgets"
        assert mine.ok("GET", f"{path}/monthly") == made
        assert mine.ok("GET", path) == {"data": [shown], "include_byok_in_budgets": False}


def test_budgets_are_listed_the_widest_first(mine: Manager) -> None:
    for interval, limit in (("weekly", 30), ("lifetime", 1000), ("daily", 7), ("monthly", 100)):
        put(mine, interval, limit)

    listed = mine.ok("GET", PATH)["data"]

    assert [row["reset_interval"] for row in listed] == [None, "monthly", "weekly", "daily"]
    assert [row["limit_usd"] for row in listed] == [1000, 100, 30, 7]


def test_set_again_it_keeps_its_id_and_says_when(mine: Manager) -> None:
    first = put(mine, "daily", 5)["data"]
    second = put(mine, "daily", 6)["data"]

    assert (second["id"], second["created_at"]) == (first["id"], first["created_at"])
    assert second["limit_usd"] == 6
    assert WorkspaceBudget.objects.count() == 1


def test_limits_strictly_decrease_as_the_interval_narrows(mine: Manager) -> None:
    put(mine, "weekly", 600)

    words = "Budget limits must strictly decrease: "
    refused = mine.refused(400, "PUT", f"{PATH}/monthly", {"limit_usd": 500})
    assert refused == f"{words}monthly ($500) must exceed weekly ($600)"
    refused = mine.refused(400, "PUT", f"{PATH}/daily", {"limit_usd": 600})
    assert refused == f"{words}weekly ($600) must exceed daily ($600)"
    refused = mine.refused(400, "PUT", f"{PATH}/lifetime", {"limit_usd": 0.5})
    assert refused == f"{words}lifetime ($0.5) must exceed weekly ($600)"
    assert WorkspaceBudget.objects.count() == 1
    put(mine, "monthly", 600.01)
    put(mine, "daily", 599.99)


WRONG: list[tuple[Any, str]] = [
    ({}, "limit_usd: Invalid input: expected number, received undefined"),
    ({"limit_usd": None}, "limit_usd: Invalid input: expected number, received null"),
    ({"limit_usd": "5"}, "limit_usd: Invalid input: expected number, received string"),
    ({"limit_usd": True}, "limit_usd: Invalid input: expected number, received boolean"),
    ({"limit_usd": 0}, "limit_usd: Too small: expected number to be >0"),
    ({"limit_usd": -1}, "limit_usd: Too small: expected number to be >0"),
    (
        {"limit_usd": 1, "include_byok_in_budgets": "yes"},
        "include_byok_in_budgets: Invalid input: expected boolean, received string",
    ),
]


@pytest.mark.parametrize(("body", "told"), WRONG)
def test_a_wrong_body_is_refused_and_changes_nothing(mine: Manager, body: Any, told: str) -> None:
    assert mine.refused(400, "PUT", f"{PATH}/daily", body) == told
    assert not WorkspaceBudget.objects.exists()


def test_finer_than_a_nano_dollar_is_no_limit(mine: Manager) -> None:
    message = mine.refused(400, "PUT", f"{PATH}/daily", {"limit_usd": 1e-10})
    assert "9 decimal places" in message


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
def test_an_interval_that_is_none_is_refused(mine: Manager, method: str) -> None:
    body = {"limit_usd": 5} if method == "PUT" else None

    assert mine.refused(400, method, f"{PATH}/yearly", body) == (
        'interval: Invalid option: expected one of "daily"|"weekly"|"monthly"|"lifetime"'
    )


@pytest.mark.parametrize(("method", "rest"), [("GET", ""), ("GET", "/daily"), ("PUT", "/daily")])
@pytest.mark.parametrize("which", ["nobody", "other", "00000000-0000-4000-8000-000000000000"])
def test_a_workspace_that_is_not_ours_is_unknown(
    mine: Manager, method: str, rest: str, which: str
) -> None:
    other = manager("other").workspace("other")
    body = {"limit_usd": 5} if method == "PUT" else None
    name = str(other.pk) if which == "other" else which

    mine.refused(404, method, f"/workspaces/{name}/budgets{rest}", body)
    mine.refused(404, "DELETE", f"/workspaces/{name}/budgets/daily")
    assert not WorkspaceBudget.objects.exists()


def test_a_budget_that_is_not_there_is_404_and_deleted_all_the_same(mine: Manager) -> None:
    put(mine, "monthly", 5)

    mine.refused(404, "GET", f"{PATH}/daily")
    assert mine.ok("DELETE", f"{PATH}/daily") == {"deleted": True}
    assert mine.ok("DELETE", f"{PATH}/monthly") == {"deleted": True}
    assert mine.ok("DELETE", f"{PATH}/monthly") == {"deleted": True}
    mine.refused(404, "GET", f"{PATH}/monthly")
    assert mine.ok("GET", PATH)["data"] == []


def test_whether_byok_counts_is_the_workspace_s_and_stays_where_nothing_is_said(
    mine: Manager,
) -> None:
    assert put(mine, "monthly", 5, include_byok_in_budgets=True)["include_byok_in_budgets"] is True
    assert put(mine, "daily", 4)["include_byok_in_budgets"] is True
    assert put(mine, "daily", 4, include_byok_in_budgets=None)["include_byok_in_budgets"] is True
    assert mine.ok("GET", "/workspaces/default")["data"]["include_byok_in_budgets"] is True
    mine.ok("DELETE", f"{PATH}/monthly")
    assert mine.ok("GET", f"{PATH}/daily")["include_byok_in_budgets"] is True
    assert put(mine, "daily", 3, include_byok_in_budgets=False)["include_byok_in_budgets"] is False


def test_an_inference_key_sees_and_changes_no_budget(mine: Manager) -> None:
    workspace = mine.account.workspaces.get()
    _, string = create_key(account=mine.account, name="k", workspace=workspace)

    for method, rest in (("GET", ""), ("GET", "/daily"), ("PUT", "/daily"), ("DELETE", "/daily")):
        assert mine.call(method, f"{PATH}{rest}", key=string)[0] == 403


def test_a_caller_knows_its_budgets_in_one_more_query(
    mine: Manager, django_assert_num_queries: Any
) -> None:
    workspace = mine.workspace("team")
    caller = caller_of(mine, workspace)
    assert (caller.budgets, caller.limits_version) == ((), 0)
    with django_assert_num_queries(1):
        read_caller(caller.key_hash)

    for interval, limit in (("daily", 1), ("lifetime", 9)):
        path = f"/workspaces/team/budgets/{interval}"
        mine.ok("PUT", path, {"limit_usd": limit, "include_byok_in_budgets": True})

    with django_assert_num_queries(2):
        again = read_caller(caller.key_hash)
    assert again is not None
    assert again.budgets == (
        SpendScope("workspace", workspace.pk.hex, "total", 9 * USD, counts_byok=True),
        SpendScope("workspace", workspace.pk.hex, "day", USD, counts_byok=True),
    )
    assert again.limits_version == 2


def test_every_change_leaves_a_record(mine: Manager) -> None:
    put(mine, "daily", 1)
    put(mine, "daily", 1)
    put(mine, "daily", 2, include_byok_in_budgets=True)
    mine.ok("DELETE", f"{PATH}/daily")
    mine.ok("DELETE", f"{PATH}/daily")

    records = AuditRecord.objects.filter(object_type="workspace_budget").order_by("pk")
    made, changed, deleted = records
    assert [each.action for each in records] == ["set", "set", "deleted"]
    assert made.before is not None and made.after is not None and deleted.before is not None  # noqa: PT018 - mypy is told at once.
    assert (made.before["limit_nano"], made.after["limit_nano"]) == (None, USD)
    assert changed.before == {"limit_nano": USD, "include_byok_in_budgets": False}
    assert changed.after == {"limit_nano": 2 * USD, "include_byok_in_budgets": True}
    assert (deleted.before["interval"], deleted.after) == ("daily", None)
    assert {each.account_id for each in records} == {mine.account.pk}
    assert len({each.object_id for each in records}) == 1


def test_the_counter_stands_with_its_limit_from_the_change_on(mine: Manager) -> None:
    put(mine, "weekly", 3)
    row = SpendCounter.objects.get()
    workspace = default_workspace_id(mine.account.pk)

    assert (row.scope, row.scope_id, row.window) == ("workspace", workspace.hex, "week")
    assert row.window_start == window_starts(datetime.now(UTC))["week"]
    assert (row.limit_nano, row.spent_nano, row.counts_byok) == (3 * USD, 0, False)
    assert (row.account_id, row.workspace_id) == (mine.account.pk, workspace)
    mine.ok("DELETE", f"{PATH}/weekly")
    row.refresh_from_db()
    assert row.limit_nano is None
    assert Account.objects.get(pk=mine.account.pk).limits_version == 2


def test_budgets_go_with_their_workspace(mine: Manager) -> None:
    team = mine.workspace("team")
    mine.ok("PUT", "/workspaces/team/budgets/daily", {"limit_usd": 1})
    create_key(account=mine.account, name="k", workspace=team)
    ApiKey.objects.filter(workspace=team).update(disabled=True)
    forget_keys()

    mine.ok("DELETE", "/workspaces/team")

    mine.refused(404, "GET", "/workspaces/team/budgets")
