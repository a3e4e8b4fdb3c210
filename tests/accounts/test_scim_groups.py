"""Members, settings, groups of a directory and their mappings, through the API."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client

from accounts.models import (
    Account,
    AuditRecord,
    Membership,
    ScimGroup,
    User,
    WorkspaceMembership,
)
from accounts.services.directory.groups import _add_memberships, fill_groups
from accounts.services.directory.jobs import run_waiting_jobs
from accounts.services.records import SYSTEM
from tests.accounts.office import Office, open_office

pytestmark = [pytest.mark.django_db, pytest.mark.both]
MAPPINGS = "/scim/group-mappings"


class Directory(Office):
    """A manager whose account has a team and people."""

    def fill(self, **groups: list[User]) -> None:
        names = {name: [each.username for each in people] for name, people in groups.items()}
        fill_groups(account=self.account, groups=names, by=SYSTEM)

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """The status and JSON of a request whose queries are counted elsewhere."""
        found: Any = Client().generic(
            method,
            f"/api/v1{path}",
            "" if body is None else json.dumps(body),
            content_type="application/json",
            headers={"Authorization": f"Bearer {self.key}"},
        )
        return found.status_code, found.json()

    def map(self, group: str, role: str = "member", slug: str = "team") -> Any:
        """The id of a mapping of the group to the workspace."""
        body = {
            "scim_group_id": str(ScimGroup.objects.get(display_name=group).pk),
            "workspace_id": str(self.workspace(slug).pk),
            "role": role,
        }
        status, said = self.ask("POST", MAPPINGS, body)
        assert status == 201, said
        return said["data"]["id"]

    def roles(self, slug: str = "team") -> dict[str, str]:
        rows = WorkspaceMembership.objects.filter(workspace=self.workspace(slug))
        return dict(rows.values_list("membership__user__username", "role"))


@pytest.fixture
def mine(db: None) -> Directory:
    made = open_office()
    directory = Directory(made.account, made.admin, made.key)
    directory.workspace("team")
    return directory


def test_members_of_the_organization(mine: Directory) -> None:
    ada = mine.member("ada")
    User.objects.filter(pk=ada.pk).update(first_name="Ada", email="ada@example.com")

    said = mine.ok("GET", "/organization/members?limit=1")
    assert said["total_count"] == 2
    assert said["data"] == [
        {
            "id": ada.public_id,
            "email": "ada@example.com",
            "first_name": "Ada",
            "last_name": "",
            "role": "org:member",
        }
    ]
    Account.objects.filter(pk=mine.account.pk).update(is_personal=True)
    assert mine.expect_refusal(404, "GET", "/organization/members")


def test_settings_of_the_organization(mine: Directory) -> None:
    path, flag = "/organization/settings", "is_filtered_model_catalog_enabled"
    assert mine.ok("GET", path)["data"] == {"id": str(mine.account.pk), flag: False}
    assert mine.ok("PATCH", path, {flag: True})["data"][flag] is True
    assert mine.ok("GET", path)["data"][flag] is True
    assert AuditRecord.objects.get(object_type="account").after == {flag: True}
    assert flag in mine.expect_refusal(400, "PATCH", path, {})


def test_groups_are_listed_by_exact_name(mine: Directory) -> None:
    mine.fill(Eng=[], Engineers=[])

    assert mine.ok("GET", "/scim/groups")["total_count"] == 2
    (group,) = mine.ok("GET", "/scim/groups?display_name=Eng")["data"]
    assert group.keys() == {
        *("id", "organization_id", "display_name", "external_id", "created_at", "updated_at"),
    }
    assert (group["display_name"], group["organization_id"]) == ("Eng", str(mine.account.pk))
    assert mine.ok("GET", "/scim/groups?external_id=Eng")["data"] == []


def test_the_highest_role_wins(mine: Directory) -> None:
    ada, bob = mine.member("ada"), mine.member("bob")
    mine.fill(all=[ada, bob], leads=[ada])

    mine.map("all")
    lead = mine.map("leads", role="admin")
    assert mine.roles() == {"ada": "admin", "bob": "member"}
    assert mine.ask("PATCH", f"{MAPPINGS}/{lead}", {"role": "member"})[0] == 200
    assert mine.roles() == {"ada": "member", "bob": "member"}
    mine.fill(all=[bob], leads=[])
    assert mine.roles() == {"bob": "member"}


def test_the_same_mapping_again_succeeds_and_another_role_conflicts(mine: Directory) -> None:
    mine.fill(all=[])
    first = mine.map("all")

    assert mine.map("all") == first
    body = {
        "scim_group_id": mine.ok("GET", f"{MAPPINGS}/{first}")["data"]["scim_group_id"],
        "workspace_id": str(mine.workspace("team").pk),
        "role": "admin",
    }
    assert mine.ask("POST", MAPPINGS, body)[0] == 409
    default = mine.account.workspaces.get(is_default=True)
    status, said = mine.ask("POST", MAPPINGS, body | {"workspace_id": str(default.pk)})
    assert (status, "default workspace" in said["error"]["message"]) == (400, True)


def test_deleting_a_mapping_keeps_members_or_not(mine: Directory) -> None:
    ada, bob, eve = (mine.member(name) for name in ("ada", "bob", "eve"))
    mine.ok("POST", "/workspaces/team/members/add", {"user_ids": [bob.public_id]})
    mine.fill(all=[ada, bob], leads=[eve])
    everybody, leads = mine.map("all", role="admin"), mine.map("leads", role="admin")
    assert mine.roles() == {"ada": "admin", "bob": "admin", "eve": "admin"}
    assert "keep_members" in mine.expect_refusal(400, "DELETE", f"{MAPPINGS}/{leads}")

    assert mine.ask("DELETE", f"{MAPPINGS}/{leads}?keep_members=true")[0] == 200
    assert mine.ask("DELETE", f"{MAPPINGS}/{everybody}?keep_members=false")[0] == 200

    assert mine.roles() == {"bob": "member", "eve": "admin"}
    assert mine.ok("GET", MAPPINGS) == {"data": [], "total_count": 0}


def test_who_is_there_by_a_group_is_not_removed_by_hand(mine: Directory) -> None:
    ada = mine.member("ada")
    mine.fill(all=[ada])
    mine.map("all", role="admin")
    body = {"user_ids": [ada.public_id]}

    path = "/workspaces/team/members"
    assert "directory group" in mine.expect_refusal(400, "POST", f"{path}/remove", body)
    assert mine.ok("POST", f"{path}/add", body)["data"][0]["role"] == "admin"
    mine.fill()
    assert mine.roles() == {"ada": "member"}
    assert mine.ok("POST", f"{path}/remove", body) == {"removed_count": 1}


def test_who_leaves_a_group_loses_the_keys_of_its_workspace(mine: Directory) -> None:
    ada = mine.member("ada")
    mine.fill(all=[ada, mine.admin])
    mine.map("all")
    whose = {"creator_user_id": ada.public_id}
    team = str(mine.workspace("team").pk)
    there = mine.new(**whose, workspace_id=team)["key"]
    elsewhere = mine.new(**whose)["key"]
    of_admin = mine.new(creator_user_id=mine.admin.public_id, workspace_id=team)["key"]

    mine.fill(all=[])

    assert [mine.status_of(each) for each in (there, elsewhere, of_admin)] == [401, 200, 200]


def test_a_sync_job_removes_deleted_groups(mine: Directory) -> None:
    mine.fill(one=[], two=[])
    mine.fill(two=[])
    job = mine.ok("POST", "/scim/sync-jobs", {}, status=202)["data"]
    assert (job["status"], job["synced_groups"], job["started_at"]) == ("queued", None, None)

    assert run_waiting_jobs() == 1
    assert run_waiting_jobs() == 0

    done = mine.ok("GET", f"/scim/sync-jobs/{job['id']}")["data"]
    assert (done["status"], done["synced_groups"], done["deleted_groups"]) == ("succeeded", 1, 1)
    assert done["error_message"] is None
    assert datetime.fromisoformat(done["finished_at"]) <= datetime.now(UTC)
    assert ScimGroup.everything.count() == 1


def test_a_command_fills_groups(mine: Directory, tmp_path: Path) -> None:
    ada = mine.member("ada")
    User.objects.filter(pk=ada.pk).update(email="Ada@Example.com")
    file = tmp_path / "groups.json"
    file.write_text(json.dumps({"all": ["ada@example.com", mine.admin.public_id]}))
    options = {"account": mine.account.name, "file": file}

    call_command("fill_scim_groups", **options)
    assert ScimGroup.objects.get().members.count() == 2
    file.write_text(json.dumps({"all": ["nobody"]}))
    with pytest.raises(Exception, match="nobody is no member"):
        call_command("fill_scim_groups", **options)
    assert Membership.objects.filter(account=mine.account).count() == 2


def test_an_address_takes_nobody_elses_name(mine: Directory) -> None:
    people = [mine.member(name) for name in ("ada", "bob", "eve")]
    User.objects.filter(username__in=["ada", "eve"]).update(email="bob")

    mine.fill(all=[people[1]])

    assert [each.user for each in ScimGroup.objects.get().members.all()] == [people[1]]


@pytest.mark.parametrize(("of_group", "role"), [("admin", "admin"), ("member", "member")])
def test_who_is_added_by_hand_meanwhile_is_there_once(
    mine: Directory, of_group: str, role: str
) -> None:
    """What `apply_groups` is about to write when somebody else was faster."""
    bob = mine.member("bob")
    membership = Membership.objects.get(user=bob)
    place = {"workspace": mine.workspace("team"), "membership": membership}
    WorkspaceMembership.objects.create(**place, role="member", own_role="member")

    _add_memberships([WorkspaceMembership(**place, role=of_group)])

    row = WorkspaceMembership.objects.get(**place)
    assert (row.role, row.own_role) == (role, "member")
