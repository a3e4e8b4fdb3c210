"""Members of workspaces, listed, added and removed through the API."""

import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import IntegrityError, transaction

from accounts.models import ApiKey, AuditRecord, Membership, User, WorkspaceMembership
from accounts.services.keys import create_key
from tests.support.management import Manager, manager

pytestmark = [pytest.mark.django_db, pytest.mark.both]


@pytest.fixture
def mine(db: None) -> Manager:
    made = manager("mine")
    made.workspace("team")
    return made


def ids(*users: User) -> dict[str, list[str]]:
    return {"user_ids": [user.public_id for user in users]}


def add(mine: Manager, *users: User) -> Any:
    return mine.ok("POST", "/workspaces/team/members/add", ids(*users))


def list_members(mine: Manager, query: str = "", workspace: str = "team") -> list[str]:
    said = mine.ok("GET", f"/workspaces/{workspace}/members{query}")
    return [each["user_id"] for each in said["data"]]


def test_members_have_the_role_they_have_in_the_account(mine: Manager) -> None:
    ada = mine.member("ada")

    said = add(mine, ada, mine.admin)

    assert said["added_count"] == 2
    roles = {each["user_id"]: each["role"] for each in said["data"]}
    assert roles == {ada.public_id: "member", mine.admin.public_id: "admin"}
    for each in said["data"]:
        assert each.keys() == {"id", "workspace_id", "user_id", "role", "created_at"}
        assert uuid.UUID(each["id"])
        assert each["workspace_id"] == str(mine.workspace("team").pk)
    assert mine.ok("GET", "/workspaces/team/members") == {"data": said["data"], "total_count": 2}
    # Adding again updates.
    Membership.objects.filter(user=ada).update(role=Membership.Role.ADMIN)
    first = next(each for each in said["data"] if each["user_id"] == ada.public_id)
    assert add(mine, ada) == {"data": [first | {"role": "admin"}], "added_count": 1}
    assert WorkspaceMembership.objects.count() == 2


def test_a_stranger_among_them_keeps_all_out(mine: Manager) -> None:
    ada, stranger = mine.member("ada"), manager("other").admin
    for unknown in (stranger.public_id, "user_of_nobody", ""):
        body = {"user_ids": [ada.public_id, unknown]}
        said = mine.expect_refusal(400, "POST", "/workspaces/team/members/add", body)
        assert said == "user_ids.1: Invalid input: no member of this account"
    assert list_members(mine) == []


def test_a_hundred_take_no_more_queries_than_one_and_are_listed_newest_first(
    mine: Manager,
) -> None:
    people = [mine.member(f"user-{number}") for number in range(100)]
    add(mine, people[0])
    one = mine.queries
    assert add(mine, *people)["added_count"] == 100
    assert mine.queries == one
    now = datetime.now(UTC)
    for days, user in enumerate(people):
        rows = WorkspaceMembership.objects.filter(membership__user=user)
        rows.update(created_at=now + timedelta(days=days))
    newest_first = [user.public_id for user in reversed(people)]

    assert list_members(mine, "?limit=100") == newest_first
    assert list_members(mine, "?offset=1&limit=1") == newest_first[1:2]
    assert mine.ok("GET", "/workspaces/team/members?limit=1")["total_count"] == 100
    mine.expect_refusal(400, "GET", "/workspaces/team/members?limit=0")
    gone = mine.ok("POST", "/workspaces/team/members/remove", ids(*people))
    assert gone == {"removed_count": 100}


def test_everybody_belongs_to_the_default_workspace(mine: Manager) -> None:
    ada = mine.member("ada")
    everybody = {ada.public_id, mine.admin.public_id}
    before = mine.ok("GET", "/workspaces/default/members")

    assert {each["user_id"] for each in before["data"]} == everybody
    added = mine.ok("POST", "/workspaces/default/members/add", ids(ada))
    assert added["added_count"] == 0
    assert added["data"] == [each for each in before["data"] if each["user_id"] == ada.public_id]
    assert mine.ok("GET", "/workspaces/default/members") == before
    assert not WorkspaceMembership.objects.exists()
    said = mine.expect_refusal(400, "POST", "/workspaces/default/members/remove", ids(ada))
    assert said == "Members of the default workspace cannot be removed"


def test_who_is_removed_is_one_no_longer(mine: Manager) -> None:
    ada, ben, cy = (mine.member(name) for name in ("ada", "ben", "cy"))
    add(mine, ada, ben)

    said = mine.ok("POST", "/workspaces/team/members/remove", ids(ada, cy))

    assert said == {"removed_count": 1}
    assert list_members(mine) == [ben.public_id]
    assert mine.ok("POST", "/workspaces/team/members/remove", ids(ada))["removed_count"] == 0
    told = AuditRecord.objects.filter(object_type="workspace").order_by("id")
    assert [(each.action, each.before, each.after is None) for each in told] == [
        ("members added", None, False),
        ("members removed", {"user_ids": [ada.public_id]}, True),
    ]


def test_a_member_with_an_active_key_keeps_all_in(mine: Manager) -> None:
    ada, ben = mine.member("ada"), mine.member("ben")
    add(mine, ada, ben)
    held: dict[str, Any] = {"account": mine.account, "name": "k"}
    key, _ = create_key(**held, workspace=mine.workspace("team"), creator=ben)
    create_key(**held, workspace=mine.workspace("other"), creator=ada)

    said = mine.expect_refusal(400, "POST", "/workspaces/team/members/remove", ids(ada, ben))

    assert said == "user_ids.1: Member still has active API keys in this workspace"
    assert set(list_members(mine)) == {ada.public_id, ben.public_id}
    ApiKey.objects.filter(pk=key.pk).update(expires_at=datetime.now(UTC))
    assert mine.ok("POST", "/workspaces/team/members/remove", ids(ada)) == {"removed_count": 1}
    Membership.objects.filter(user=ben).delete()
    assert list_members(mine) == []


def test_the_database_knows_two_roles_and_one_membership_each(mine: Manager) -> None:
    team, membership = mine.workspace("team"), Membership.objects.get(user=mine.admin)
    place = {"workspace": team, "membership": membership}

    with pytest.raises(IntegrityError), transaction.atomic():
        WorkspaceMembership.objects.create(**place, role="owner")
    WorkspaceMembership.objects.create(**place, role="admin")
    with pytest.raises(IntegrityError), transaction.atomic():
        WorkspaceMembership.objects.create(**place, role="member")
