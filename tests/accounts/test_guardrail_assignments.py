"""Whom guardrails govern: assigned and taken away through the API, and read with the key."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from accounts.caller import Caller, read_caller
from accounts.models import ApiKey, AuditRecord, GuardrailKey, Membership
from accounts.services.keys import create_key
from routing.catalogue.snapshot import catalogue
from tests.support.management import Manager, manager

pytestmark = [pytest.mark.django_db, pytest.mark.both]
KEYS, MEMBERS = "assignments/keys", "assignments/members"


@pytest.fixture(autouse=True)
def known(db: None) -> Iterator[None]:
    """A catalogue that was read says which providers there are."""
    catalogue.forget()
    catalogue.current()
    yield
    catalogue.forget()


def made(mine: Manager, **said: Any) -> str:
    data = mine.ok("POST", "/guardrails", {"name": "g"} | said, status=201)["data"]
    its_id: str = data["id"]
    return its_id


def key_of(mine: Manager, name: str = "k", **said: Any) -> ApiKey:
    key, _ = create_key(account=mine.account, name=name, workspace=mine.workspace("team"), **said)
    return key


def caller_of(key: ApiKey) -> Caller:
    caller = read_caller(key.hash)
    assert caller is not None
    return caller


def test_keys_come_under_a_guardrail_and_leave_it(mine: Manager) -> None:
    its_id, first, second = made(mine), key_of(mine, "1"), key_of(mine, "2")
    body = {"key_hashes": [first.hash, second.hash, first.hash]}

    assert mine.ok("POST", f"/guardrails/{its_id}/{KEYS}", body) == {"assigned_count": 2}

    said = mine.ok("GET", f"/guardrails/{its_id}/{KEYS}")
    assert said["total_count"] == 2
    assert {each["key_name"] for each in said["data"]} == {"1", "2"}
    one = next(each for each in said["data"] if each["key_name"] == "1")
    assert one == {
        "id": one["id"],
        "guardrail_id": its_id,
        "key_hash": first.hash,
        "key_name": "1",
        "key_label": first.label,
        "assigned_by": mine.admin.public_id,
        "created_at": one["created_at"],
    }
    assert mine.ok("GET", f"/guardrails/{KEYS}") == said
    removal = f"/guardrails/{its_id}/{KEYS}/remove"
    gone = {"key_hashes": [first.hash]}
    assert mine.ok("POST", removal, gone) == {"unassigned_count": 1}
    assert mine.ok("POST", removal, gone) == {"unassigned_count": 0}
    actions = AuditRecord.objects.filter(object_id=its_id).order_by("id")
    assert [each.action for each in actions] == ["created", "keys assigned", "keys unassigned"]


def test_members_come_under_a_guardrail_and_leave_it(mine: Manager) -> None:
    its_id, member = made(mine), mine.member("second")
    body = {"member_user_ids": [member.public_id, mine.admin.public_id]}

    assert mine.ok("POST", f"/guardrails/{its_id}/{MEMBERS}", body) == {"assigned_count": 2}

    said = mine.ok("GET", f"/guardrails/{its_id}/{MEMBERS}")
    assert said["total_count"] == 2
    one = next(each for each in said["data"] if each["user_id"] == member.public_id)
    assert one == {
        "id": one["id"],
        "guardrail_id": its_id,
        "user_id": member.public_id,
        "organization_id": str(mine.account.pk),
        "assigned_by": mine.admin.public_id,
        "created_at": one["created_at"],
    }
    assert mine.ok("GET", f"/guardrails/{MEMBERS}") == said
    removal = f"/guardrails/{its_id}/{MEMBERS}/remove"
    assert mine.ok("POST", removal, body) == {"unassigned_count": 2}
    assert mine.ok("POST", removal, body) == {"unassigned_count": 0}


def test_assigning_replaces(mine: Manager) -> None:
    first, second, key = made(mine), made(mine), key_of(mine)
    body = {"key_hashes": [key.hash]}
    mine.ok("POST", f"/guardrails/{first}/{KEYS}", body)

    assert mine.ok("POST", f"/guardrails/{second}/{KEYS}", body) == {"assigned_count": 1}

    assert mine.ok("GET", f"/guardrails/{first}/{KEYS}")["total_count"] == 0
    assert mine.ok("GET", f"/guardrails/{second}/{KEYS}")["total_count"] == 1
    removal = mine.ok("POST", f"/guardrails/{first}/{KEYS}/remove", body)
    assert removal == {"unassigned_count": 0}
    assert mine.ok("GET", f"/guardrails/{KEYS}")["total_count"] == 1


def test_all_of_them_or_none(mine: Manager) -> None:
    its_id, key = made(mine), key_of(mine)
    other = manager("other")
    theirs = key_of(other, "theirs")
    management = ApiKey.objects.get(account=mine.account, kind="management")
    for stranger in (theirs.hash, management.hash, "0" * 64, "nope", ""):
        body = {"key_hashes": [key.hash, stranger]}
        for path in (KEYS, f"{KEYS}/remove"):
            said = mine.refused(400, "POST", f"/guardrails/{its_id}/{path}", body)
            assert said == "key_hashes.1: Invalid input: no key of this account"
    for stranger in (other.admin.public_id, "nope"):
        body = {"member_user_ids": [mine.admin.public_id, stranger]}
        for path in (MEMBERS, f"{MEMBERS}/remove"):
            said = mine.refused(400, "POST", f"/guardrails/{its_id}/{path}", body)
            assert said == "member_user_ids.1: Invalid input: no member of this account"
    assert mine.ok("GET", f"/guardrails/{KEYS}")["total_count"] == 0
    assert mine.ok("GET", f"/guardrails/{MEMBERS}")["total_count"] == 0


@pytest.mark.parametrize("body", [{}, {"key_hashes": []}, {"key_hashes": "x"}])
def test_at_least_one_is_named(mine: Manager, body: Any) -> None:
    its_id = made(mine)

    for path in (KEYS, f"{KEYS}/remove"):
        said = mine.refused(400, "POST", f"/guardrails/{its_id}/{path}", body)
        assert said.startswith("key_hashes: ")


def test_a_default_guardrail_is_not_assigned(mine: Manager) -> None:
    key = key_of(mine)
    its_id = mine.ok("GET", "/workspaces/team")["data"]["default_guardrail_id"]
    told = "A workspace's default guardrail cannot be assigned: it governs all of its traffic"

    for _ in range(2):
        for path, body in (
            (KEYS, {"key_hashes": [key.hash]}),
            (MEMBERS, {"member_user_ids": [mine.admin.public_id]}),
        ):
            assert mine.refused(400, "POST", f"/guardrails/{its_id}/{path}", body) == told
        mine.ok("PATCH", f"/guardrails/{its_id}", {"description": "d"})
    assert mine.ok("GET", f"/guardrails/{its_id}/{KEYS}")["total_count"] == 0


def test_pages_of_assignments(mine: Manager) -> None:
    its_id = made(mine)
    keys = [key_of(mine, str(number)) for number in range(3)]
    mine.ok("POST", f"/guardrails/{its_id}/{KEYS}", {"key_hashes": [key.hash for key in keys]})
    rows = GuardrailKey.objects.filter(api_key=keys[0])
    rows.update(created_at=datetime.now(UTC) + timedelta(days=1))

    for path in (f"/guardrails/{its_id}/{KEYS}", f"/guardrails/{KEYS}"):
        said = mine.ok("GET", f"{path}?limit=1")
        assert (said["total_count"], said["data"][0]["key_name"]) == (3, "0")
        assert len(mine.ok("GET", f"{path}?offset=1")["data"]) == 2
        mine.refused(400, "GET", f"{path}?limit=0")


def test_deleted_keys_and_guardrails_are_listed_no_more(mine: Manager) -> None:
    its_id, key = made(mine), key_of(mine)
    mine.ok("POST", f"/guardrails/{its_id}/{KEYS}", {"key_hashes": [key.hash]})
    mine.ok("POST", f"/guardrails/{its_id}/{MEMBERS}", {"member_user_ids": [mine.admin.public_id]})

    mine.ok("DELETE", f"/keys/{key.hash}")
    assert mine.ok("GET", f"/guardrails/{its_id}/{KEYS}")["total_count"] == 0
    mine.ok("DELETE", f"/guardrails/{its_id}")

    assert mine.ok("GET", f"/guardrails/{KEYS}")["total_count"] == 0
    assert mine.ok("GET", f"/guardrails/{MEMBERS}")["total_count"] == 0


# --- With the key ---------------------------------------------------------------------------------


def test_a_key_without_guardrails_costs_one_query(
    mine: Manager, django_assert_num_queries: Any
) -> None:
    key = key_of(mine, creator=mine.admin)
    made(mine, description="of nobody")

    with django_assert_num_queries(1):
        caller = caller_of(key)

    assert (caller.guard, caller.guardrails, caller.budgets) == (None, (), ())


def test_all_that_governs_a_key_comes_with_it(
    mine: Manager, django_assert_num_queries: Any
) -> None:
    key = key_of(mine, creator=mine.admin)
    default = mine.ok("GET", "/workspaces/team")["data"]["default_guardrail_id"]
    budget = {"limit_usd": 5, "reset_interval": "daily"}
    mine.ok("PATCH", f"/guardrails/{default}", {"allowed_providers": ["a", "b", "c"], **budget})
    members = made(mine, allowed_providers=["b", "c"], limit_usd=6, reset_interval="weekly")
    own = made(mine, allowed_providers=["c", "d"], limit_usd=7, reset_interval="monthly")
    body = {"member_user_ids": [mine.admin.public_id]}
    mine.ok("POST", f"/guardrails/{members}/{MEMBERS}", body)
    mine.ok("POST", f"/guardrails/{own}/{KEYS}", {"key_hashes": [key.hash]})
    mine.account.zdr, mine.account.data_collection = True, "deny"
    mine.account.save()

    with django_assert_num_queries(2):
        caller = caller_of(key)

    assert [each.scope for each in caller.guardrails] == ["account", "workspace", "member", "key"]
    assert caller.guard is not None
    assert caller.guard.choice.allowed_providers == frozenset({"c"})
    assert caller.guard.choice.denies_collection
    assert "other" in caller.guard.choice.zdr
    user, number = f"u:{mine.admin.pk}", f"k:{key.pk}"
    assert [(each.scope_id.partition(":")[2], each.window) for each in caller.budgets] == [
        (user, "day"),
        (number, "day"),
        (user, "week"),
        (number, "month"),
    ]
    assert [each.limit_nano for each in caller.budgets] == [5 * 10**9] * 2 + [
        6 * 10**9,
        7 * 10**9,
    ]


def test_only_the_keys_that_a_member_created_are_the_members(mine: Manager) -> None:
    member = mine.member("second")
    its_id = made(mine, ignored_providers=["beta"])
    mine.ok("POST", f"/guardrails/{its_id}/{MEMBERS}", {"member_user_ids": [member.public_id]})
    theirs, others, nobodys = (
        key_of(mine, "1", creator=member),
        key_of(mine, "2", creator=mine.admin),
        key_of(mine, "3"),
    )

    assert caller_of(theirs).guard is not None
    assert caller_of(others).guard is None
    assert caller_of(nobodys).guard is None
    Membership.objects.filter(user=member).delete()
    assert caller_of(theirs).guard is None


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


def test_one_guardrail_may_be_both_the_member_s_and_the_key_s(mine: Manager) -> None:
    key = key_of(mine, creator=mine.admin)
    its_id = made(mine, limit_usd=5, reset_interval="daily")
    mine.ok("POST", f"/guardrails/{its_id}/{KEYS}", {"key_hashes": [key.hash]})
    mine.ok("POST", f"/guardrails/{its_id}/{MEMBERS}", {"member_user_ids": [mine.admin.public_id]})

    caller = caller_of(key)

    assert [each.scope for each in caller.guardrails] == ["member", "key"]
    assert len({each.scope_id for each in caller.budgets}) == 2
