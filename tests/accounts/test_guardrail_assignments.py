"""Whom guardrails govern: assigned and taken away through the API, and read with the key."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from accounts.models import ApiKey, AuditRecord, GuardrailKey, Membership, User
from accounts.services.keys import create_key
from tests.accounts.own_credentials import caller_of
from tests.support.management import Manager, manager

pytestmark = [pytest.mark.django_db, pytest.mark.both, pytest.mark.usefixtures("loaded_catalogue")]
KEYS, MEMBERS = "assignments/keys", "assignments/members"


def make_guardrail(mine: Manager, **said: Any) -> str:
    data = mine.ok("POST", "/guardrails", {"name": "g"} | said, status=201)["data"]
    its_id: str = data["id"]
    return its_id


def key_of(mine: Manager, name: str = "k", **said: Any) -> ApiKey:
    key, _ = create_key(account=mine.account, name=name, workspace=mine.workspace("team"), **said)
    return key


def assign(mine: Manager, its_id: str, *holders: ApiKey | User) -> None:
    for holder in holders:
        if isinstance(holder, ApiKey):
            mine.ok("POST", f"/guardrails/{its_id}/{KEYS}", {"key_hashes": [holder.hash]})
        else:
            body = {"member_user_ids": [holder.public_id]}
            mine.ok("POST", f"/guardrails/{its_id}/{MEMBERS}", body)


def test_keys_and_members_come_under_a_guardrail_and_leave_it(mine: Manager) -> None:
    its_id, key, other, member = (
        make_guardrail(mine),
        key_of(mine, "1"),
        key_of(mine),
        mine.member("second"),
    )
    common = {"guardrail_id": its_id, "assigned_by": mine.admin.public_id}
    of_key = {"key_hash": key.hash, "key_name": "1", "key_label": key.label}
    of_member = {"user_id": member.public_id, "organization_id": str(mine.account.pk)}
    for kind, field, holders, shown in (
        (KEYS, "key_hashes", [other.hash, key.hash, other.hash], of_key),
        (MEMBERS, "member_user_ids", [mine.admin.public_id, member.public_id], of_member),
    ):
        path = f"/guardrails/{its_id}/{kind}"
        assert mine.ok("POST", path, {field: holders}) == {"assigned_count": 2}

        said = mine.ok("GET", path)
        assert (said["total_count"], len(said["data"])) == (2, 2)
        (one,) = (each for each in said["data"] if each.items() >= shown.items())
        assert one == common | shown | {"id": one["id"], "created_at": one["created_at"]}
        assert mine.ok("GET", f"/guardrails/{kind}") == said
        gone = {field: holders[:1]}
        assert mine.ok("POST", f"{path}/remove", gone) == {"unassigned_count": 1}
        assert mine.ok("POST", f"{path}/remove", gone) == {"unassigned_count": 0}
        assert mine.ok("GET", path)["data"] == [one]
    actions = AuditRecord.objects.filter(object_id=its_id).order_by("id")
    assert [each.action for each in actions] == [
        *("created", "keys assigned", "keys unassigned", "members assigned", "members unassigned")
    ]


def test_assigning_replaces_and_what_is_deleted_is_not_listed(mine: Manager) -> None:
    first, second, key = make_guardrail(mine), make_guardrail(mine), key_of(mine)
    body = {"key_hashes": [key.hash]}

    def counts(*paths: str) -> list[int]:
        return [mine.ok("GET", f"/guardrails/{path}")["total_count"] for path in paths]

    assign(mine, first, key, mine.admin)
    assert mine.ok("POST", f"/guardrails/{second}/{KEYS}", body) == {"assigned_count": 1}
    assert counts(f"{first}/{KEYS}", f"{second}/{KEYS}", KEYS) == [0, 1, 1]
    removal = mine.ok("POST", f"/guardrails/{first}/{KEYS}/remove", body)
    assert removal == {"unassigned_count": 0}
    mine.ok("DELETE", f"/keys/{key.hash}")
    assert counts(f"{second}/{KEYS}", KEYS, MEMBERS) == [0, 0, 1]
    mine.ok("DELETE", f"/guardrails/{first}")
    assert counts(KEYS, MEMBERS) == [0, 0]


def test_all_of_them_or_none(mine: Manager) -> None:
    its_id, key = make_guardrail(mine), key_of(mine)
    other = manager("other")
    theirs = key_of(other, "theirs")
    management = ApiKey.objects.get(account=mine.account, kind="management")
    for stranger in (theirs.hash, management.hash, "0" * 64, "nope", ""):
        body = {"key_hashes": [key.hash, stranger]}
        for path in (KEYS, f"{KEYS}/remove"):
            said = mine.expect_refusal(400, "POST", f"/guardrails/{its_id}/{path}", body)
            assert said == "key_hashes.1: Invalid input: no key of this account"
    for stranger in (other.admin.public_id, "nope"):
        body = {"member_user_ids": [mine.admin.public_id, stranger]}
        for path in (MEMBERS, f"{MEMBERS}/remove"):
            said = mine.expect_refusal(400, "POST", f"/guardrails/{its_id}/{path}", body)
            assert said == "member_user_ids.1: Invalid input: no member of this account"
    assert mine.ok("GET", f"/guardrails/{KEYS}")["total_count"] == 0
    assert mine.ok("GET", f"/guardrails/{MEMBERS}")["total_count"] == 0


def test_a_default_guardrail_is_not_assigned(mine: Manager) -> None:
    key = key_of(mine)
    its_id = mine.ok("GET", "/workspaces/team")["data"]["default_guardrail_id"]
    told = "A workspace's default guardrail cannot be assigned: it governs all of its traffic"

    for _ in range(2):
        for path, body in (
            (KEYS, {"key_hashes": [key.hash]}),
            (MEMBERS, {"member_user_ids": [mine.admin.public_id]}),
        ):
            assert mine.expect_refusal(400, "POST", f"/guardrails/{its_id}/{path}", body) == told
        mine.ok("PATCH", f"/guardrails/{its_id}", {"description": "d"})
    assert mine.ok("GET", f"/guardrails/{its_id}/{KEYS}")["total_count"] == 0


def test_pages_of_assignments(mine: Manager) -> None:
    its_id = make_guardrail(mine)
    keys = [key_of(mine, str(number)) for number in range(3)]
    mine.ok("POST", f"/guardrails/{its_id}/{KEYS}", {"key_hashes": [key.hash for key in keys]})
    rows = GuardrailKey.objects.filter(api_key=keys[0])
    rows.update(created_at=datetime.now(UTC) + timedelta(days=1))

    for path in (f"/guardrails/{its_id}/{KEYS}", f"/guardrails/{KEYS}"):
        said = mine.ok("GET", f"{path}?limit=1")
        assert (said["total_count"], said["data"][0]["key_name"]) == (3, "0")
        assert len(mine.ok("GET", f"{path}?offset=1")["data"]) == 2
        mine.expect_refusal(400, "GET", f"{path}?limit=0")


# --- With the key ---------------------------------------------------------------------------------


def test_all_that_governs_a_key_comes_with_it(
    mine: Manager, django_assert_num_queries: Any
) -> None:
    key = key_of(mine, creator=mine.admin)
    default = mine.ok("GET", "/workspaces/team")["data"]["default_guardrail_id"]
    members = make_guardrail(
        mine, allowed_providers=["b", "c"], limit_usd=6, reset_interval="weekly"
    )
    own = make_guardrail(mine, allowed_providers=["c", "d"], limit_usd=7, reset_interval="monthly")
    with django_assert_num_queries(1):
        caller = caller_of(key)
    assert (caller.guard, caller.guardrails, caller.budgets) == (None, (), ())

    budget = {"limit_usd": 5, "reset_interval": "daily"}
    mine.ok("PATCH", f"/guardrails/{default}", {"allowed_providers": ["a", "b", "c"], **budget})
    assign(mine, members, mine.admin)
    assign(mine, own, key)
    mine.account.zdr, mine.account.data_collection = True, "deny"
    mine.account.save()
    with django_assert_num_queries(2):
        caller = caller_of(key)

    assert [each.scope for each in caller.guardrails] == ["account", "workspace", "member", "key"]
    assert caller.guard is not None
    assert caller.guard.rules.allowed_providers == frozenset({"c"})
    assert caller.guard.rules.denies_collection
    assert "other" in caller.guard.rules.zdr
    user, number, usd = f"u:{mine.admin.pk}", f"k:{key.pk}", 10**9
    budgets = [(b.scope_id.partition(":")[2], b.window, b.limit_nano) for b in caller.budgets]
    assert budgets == [
        *((user, "day", 5 * usd), (number, "day", 5 * usd)),
        *((user, "week", 6 * usd), (number, "month", 7 * usd)),
    ]


def test_only_the_keys_that_a_member_created_are_the_members(mine: Manager) -> None:
    member, its_id = (
        mine.member("second"),
        make_guardrail(mine, limit_usd=5, reset_interval="daily"),
    )
    makers = (member, mine.admin, None)
    keys = [key_of(mine, str(number), creator=each) for number, each in enumerate(makers)]

    assign(mine, its_id, member)
    assert [len(caller_of(key).budgets) for key in keys] == [1, 0, 0]
    # One guardrail may be both the member's and the key's.
    assign(mine, its_id, keys[0])
    caller = caller_of(keys[0])
    assert [each.scope for each in caller.guardrails] == ["member", "key"]
    assert len({each.scope_id for each in caller.budgets}) == 2
    Membership.objects.filter(user=member).delete()
    assert [each.scope for each in caller_of(keys[0]).guardrails] == ["key"]


def test_a_default_guardrail_governs_its_workspace_alone(mine: Manager) -> None:
    key = key_of(mine)
    elsewhere, _ = create_key(account=mine.account, name="k", workspace=mine.workspace("other"))
    its_id = mine.ok("GET", "/workspaces/team")["data"]["default_guardrail_id"]

    mine.ok("PATCH", f"/guardrails/{its_id}", {"limit_usd": 5, "reset_interval": "daily"})

    assert caller_of(elsewhere).budgets == ()
    (scope,) = caller_of(key).budgets
    assert scope.workspace == str(key.workspace_id).replace("-", "")
    mine.ok("DELETE", f"/guardrails/{its_id}")
    assert caller_of(key).budgets == ()
