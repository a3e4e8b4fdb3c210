"""The SCIM connector as identity providers use it: the field's own tester, and their ways."""

import secrets
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from scim2_client.engines.wsgi import WSGISCIMClient
from scim2_tester import Status, check_server

from accounts.authentication import forget_keys
from accounts.models import AuditRecord, Membership, PersonIdentity, ScimUser, User
from accounts.services.directory.users import create_user
from accounts.services.records import SYSTEM
from gateway.http.jsonio import dumps
from gateway.server.front import FrontDoor
from tests.accounts.office import Office, open_office

pytestmark = [pytest.mark.django_db, pytest.mark.both]
PATCH = {"schemas": ["urn:ietf:params:scim:api:messages:2.0:PatchOp"]}


class Directory(Office):
    """An identity provider with the management key of an account."""

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        forget_keys()
        sent = {"Authorization": f"Bearer {self.key}", **headers}
        data = b"" if body is None else dumps(body)
        kind = "application/scim+json"
        return Client().generic(method, f"/scim/v2{path}", data, content_type=kind, headers=sent)

    def done(self, method: str, path: str, body: Any = None) -> Any:
        answer = self.ask(method, path, body)
        assert 200 <= answer.status_code < 300, answer.content
        return answer.json() if answer.content else None

    def new_user(self, user_name: str, **more: Any) -> Any:
        return self.done("POST", "/Users", {"userName": user_name, "active": True, **more})

    def new_group(self, name: str, *members: Any) -> Any:
        listed = [{"value": each["id"]} for each in members]
        return self.done("POST", "/Groups", {"displayName": name, "members": listed})

    def patch(self, path: str, *operations: dict[str, Any]) -> Any:
        return self.done("PATCH", path, {**PATCH, "Operations": list(operations)})

    def find_names(self, kind: str, condition: str) -> list[str]:
        """Names of the resources that the filter leaves."""
        answer = self.ask("GET", f"/{kind}?filter={condition}")
        assert answer.status_code == 200, answer.content
        name = "userName" if kind == "Users" else "displayName"
        return [each[name] for each in answer.json()["Resources"]]


@pytest.fixture
def directory(db: None) -> Directory:
    made = open_office()
    return Directory(made.account, made.admin, made.key)


# It makes some three hundred requests.
@pytest.mark.timeout(900)
def test_the_fields_own_tester_finds_nothing_wrong(directory: Directory) -> None:
    headers = {"Authorization": f"Bearer {directory.key}"}
    client = WSGISCIMClient(FrontDoor(), base_url="http://localhost/scim/v2", headers=headers)

    results = check_server(client)

    wrong = [
        (each.title, each.resource_type, each.reason)
        for each in results
        if each.status in {Status.ERROR, Status.CRITICAL}
    ]
    assert wrong == []
    assert sum(each.status == Status.SUCCESS for each in results) > 50


def test_who_is_made_is_a_member_and_who_is_switched_off_is_out(directory: Directory) -> None:
    ada = directory.new_user(
        "ada@example.com",
        name={"givenName": "Ada", "familyName": "Lovelace"},
        emails=[{"value": "ada@example.com", "primary": True}],
    )
    members = directory.ok("GET", "/organization/members")["data"]
    (member,) = (each for each in members if each["email"] == "ada@example.com")
    assert (member["first_name"], member["role"]) == ("Ada", "org:member")
    key = directory.new(creator_user_id=member["id"])["key"]
    assert directory.status_of(key) == 200

    # As Entra says it.
    off = {"op": "Replace", "path": "active", "value": "False"}
    assert directory.patch(f"/Users/{ada['id']}", off)["active"] is False

    assert directory.status_of(key) == 401
    assert not User.objects.get(public_id=member["id"]).is_active
    assert not Membership.objects.filter(user__public_id=member["id"]).exists()
    # As Okta says it.
    directory.patch(f"/Users/{ada['id']}", {"op": "replace", "value": {"active": True}})
    assert Membership.objects.filter(user__public_id=member["id"]).exists()
    assert directory.status_of(key) == 401
    actions = AuditRecord.objects.filter(object_type="scim_user").order_by("pk")
    assert [each.action for each in actions] == ["created", "updated", "updated"]
    assert actions[1].after == {"active": False}


def test_who_is_deleted_is_gone_and_the_books_stay(directory: Directory) -> None:
    ada = directory.new_user("ada")
    group = directory.new_group("all", ada)
    assert directory.ask("DELETE", f"/Users/{ada['id']}").status_code == 204
    assert directory.ask("GET", f"/Users/{ada['id']}").status_code == 404
    assert "members" not in directory.done("GET", f"/Groups/{group['id']}")
    assert User.objects.filter(username="ada").exists()
    # Whoever comes with the same name is somebody else.
    again = directory.new_user("ada")
    assert ScimUser.objects.get(pk=again["id"]).user.username.startswith("ada#")


def test_a_directory_has_back_whom_it_deleted_but_changes_nobody_of_others(
    directory: Directory,
) -> None:
    def make_again(name: str, then: Callable[[User], object]) -> tuple[User, User]:
        """The person deleted, and who is there once the directory has the same id again."""
        made = directory.new_user(name, externalId=name)
        person = ScimUser.objects.get(pk=made["id"]).user
        assert directory.ask("DELETE", f"/Users/{made['id']}").status_code == 204
        then(person)
        again = directory.new_user(name, externalId=name, emails=[{"value": "new@example.com"}])
        person.refresh_from_db()
        return person, ScimUser.objects.get(pk=again["id"]).user

    other = open_office("other").account
    ada, same = make_again("ada", lambda person: None)
    assert (same, same.is_active, same.email) == (ada, True, "new@example.com")
    for then in (
        lambda person: Membership.objects.create(account=other, user=person),
        lambda person: User.objects.filter(pk=person.pk).update(is_staff=True),
    ):
        person, same = make_again(secrets.token_hex(4), then)
        assert (same, same.is_active, same.email) == (person, False, "")


def test_whom_an_operator_switched_off_no_directory_switches_on(directory: Directory) -> None:
    made = directory.new_user("ada", externalId="E1")
    User.objects.filter(username="ada").update(is_active=False)
    assert directory.ask("DELETE", f"/Users/{made['id']}").status_code == 204

    directory.new_user("ada", externalId="E1")

    assert not User.objects.get(username="ada").is_active


def test_a_directory_meets_its_own_members_and_nobody_elses(directory: Directory) -> None:
    own, guest = directory.member("bob"), directory.member("guest")
    # Some providers let people choose their address.
    PersonIdentity.objects.create(user=guest, issuer="https://id.example.com", subject="s-1")
    User.objects.filter(pk=guest.pk).update(email="carol@example.com")
    stranger = open_office("other")
    User.objects.filter(pk=stranger.admin.pk).update(email="boss@example.com")

    directory.new_user("BOB", name={"givenName": "Robert"})
    directory.new_user(stranger.admin.username, emails=[{"value": "x@example.com"}])
    directory.new_user("carol@example.com")

    assert ScimUser.objects.get(user_name="BOB").user == own
    own.refresh_from_db()
    assert own.first_name == ""
    assert not guest.scim_users.exists()
    assert not stranger.admin.scim_users.exists()
    stranger.admin.refresh_from_db()
    assert stranger.admin.email == "boss@example.com"
    theirs = Directory(stranger.account, stranger.admin, stranger.key)
    mine = ScimUser.objects.get(user_name="BOB").pk
    assert theirs.ask("DELETE", f"/Users/{mine}").status_code == 404
    assert theirs.done("GET", "/Users")["totalResults"] == 0


def test_groups_of_the_directory_open_workspaces(directory: Directory) -> None:
    ada, bob = directory.new_user("ada"), directory.new_user("bob")
    group = directory.new_group("team", ada)
    body = {"scim_group_id": group["id"], "workspace_id": str(directory.workspace("team").pk)}
    headers = {"Authorization": f"Bearer {directory.key}"}
    made = Client().post(
        "/api/v1/scim/group-mappings",
        dumps(body | {"role": "member"}),
        content_type="application/json",
        headers=headers,
    )
    assert made.status_code == 201

    def names() -> list[str]:
        rows = directory.workspace("team").memberships.order_by("membership__user__username")
        return list(rows.values_list("membership__user__username", flat=True))

    path = f"/Groups/{group['id']}"
    assert names() == ["ada"]
    directory.patch(path, {"op": "add", "path": "members", "value": [{"value": bob["id"]}]})
    assert names() == ["ada", "bob"]
    directory.patch(path, {"op": "remove", "path": f'members[value eq "{ada["id"]}"]'})
    assert names() == ["bob"]
    # As Entra says it.
    directory.patch(path, {"op": "Remove", "path": "members", "value": [{"value": bob["id"]}]})
    assert names() == []
    directory.patch(path, {"op": "replace", "value": {"id": group["id"], "displayName": "crew"}})
    assert directory.done("GET", path)["displayName"] == "crew"


def test_filters(directory: Directory) -> None:
    ada = directory.new_user(
        "ada", externalId="E1", name={"givenName": "Ada"}, emails=[{"value": "a@x.org"}]
    )
    directory.new_user("bob", active=False)
    directory.new_group("one", ada)

    for condition, names in {
        'userName eq "ADA"': ["ada"],
        'externalId eq "e1"': [],
        'externalId eq "E1"': ["ada"],
        'urn:ietf:params:scim:schemas:core:2.0:User:userName sw "b"': ["bob"],
        "active eq false": ["bob"],
        'emails.value eq "a@x.org"': ["ada"],
        'emails[type eq "work"].value eq "A@x.org"': ["ada"],
        'emails[value sw "a@" and type eq "work"] or userName eq "bob"': ["ada", "bob"],
        f'id eq "{ada["id"]}"': ["ada"],
        'name.givenName co "d"': ["ada"],
        "externalId pr": ["ada"],
        'not (userName eq "ada") and active eq false': ["bob"],
        'userName eq "ada" or userName eq "bob"': ["ada", "bob"],
        'meta.created gt "2020-01-01T00:00:00Z"': ["ada", "bob"],
        'userName eq "a\\"b"': [],
    }.items():
        assert directory.find_names("Users", condition) == names, condition
    assert directory.find_names("Groups", f'members.value eq "{ada["id"]}"') == ["one"]
    assert directory.find_names("Groups", f'id eq "{directory.account.pk}"') == []
    for odd in (
        "userName eq",
        'title eq "x"',
        "(" * 50,
        'active eq "x"',
        'emails[type eq "w"]',
        'emails[type eq "w" or value eq "x"]',
        'id eq "x"',
        'emails[type eq "w"].value',
    ):
        refused = directory.ask("GET", f"/Users?filter={odd}")
        assert (refused.status_code, refused.json()["scimType"]) == (400, "invalidFilter"), odd
    assert directory.ask("GET", '/Groups?filter=members.value eq "x"').status_code == 400


def test_pages_and_parts_of_resources(directory: Directory) -> None:
    for name in ("a", "b", "c"):
        directory.new_user(name, name={"givenName": name, "familyName": "X"})

    page = directory.done("GET", "/Users?startIndex=2&count=1&attributes=name.givenName")
    assert (page["totalResults"], page["startIndex"], page["itemsPerPage"]) == (3, 2, 1)
    (row,) = page["Resources"]
    assert row.keys() == {"schemas", "id", "name"}
    assert row["name"] == {"givenName": "b"}
    assert directory.done("GET", "/Users?count=0")["Resources"] == []
    searched = directory.done("POST", "/Users/.search", {"filter": 'userName eq "c"', "count": 5})
    assert [each["userName"] for each in searched["Resources"]] == ["c"]
    assert directory.ask("GET", "/Users?count=x").status_code == 400


def test_a_version_that_is_no_longer_true_changes_nothing(directory: Directory) -> None:
    ada = directory.new_user("ada")
    path, version = f"/Users/{ada['id']}", ada["meta"]["version"]
    assert directory.ask("GET", path)["ETag"] == version
    assert directory.ask("GET", path, **{"If-None-Match": version}).status_code == 304

    body = {"userName": "ada2", "active": True}
    assert directory.ask("PUT", path, body, **{"If-Match": version}).status_code == 200
    assert directory.ask("PUT", path, body, **{"If-Match": version}).status_code == 412
    assert directory.done("GET", path)["meta"]["version"] != version


def test_a_directory_that_writes_a_person_leaves_what_is_noted_of_a_provider(
    directory: Directory,
) -> None:
    noted = {"provider": "acme", "left_by_provider": "acme"}
    fields = {"user_name": "ada", "external_id": None, "active": False, "attributes": noted}
    row = create_user(account_id=directory.account.pk, fields=fields, by=SYSTEM)
    path = f"/Users/{row.pk}"

    def read_attributes() -> Any:
        row.refresh_from_db()
        return row.attributes

    assert not noted.keys() & directory.done("GET", path).keys()
    directory.done("PUT", path, {"userName": "ada", "displayName": "Ada"})
    assert read_attributes() == {"displayName": "Ada", **noted}
    directory.patch(path, {"op": "replace", "value": {"displayName": "Ada L."}})
    assert read_attributes() == {"displayName": "Ada L.", **noted}
    # Some write back all that they read.
    directory.done("PUT", path, directory.done("GET", path))
    assert read_attributes() == {"displayName": "Ada L.", **noted}
    directory.done("PUT", path, {"userName": "ada", "active": True})
    assert read_attributes() == {"provider": "acme"}
    row.attributes, row.active = {"displayName": "Ada L.", **noted}, False
    row.save(update_fields=["attributes", "active"])
    # Switched off by the directory, the person does not come back with the next claims.
    directory.patch(path, {"op": "replace", "path": "active", "value": False})
    assert read_attributes() == {"displayName": "Ada L.", "provider": "acme"}


def test_refusals_are_scims_own(directory: Directory) -> None:
    directory.new_user("ada")
    taken = directory.ask("POST", "/Users", {"userName": "Ada", "active": True})
    assert taken.status_code == 409
    assert taken["Content-Type"] == "application/scim+json"
    assert taken.json() == {
        "schemas": ["urn:ietf:params:scim:api:messages:2.0:Error"],
        "status": "409",
        "scimType": "uniqueness",
        "detail": "This userName is taken",
    }
    assert directory.ask("POST", "/Users", {"active": True}).json()["scimType"] == "invalidValue"
    assert directory.ask("PATCH", "/Users/x", PATCH).json()["scimType"] == "invalidSyntax"
    unknown = {"displayName": "g", "members": [{"value": str(directory.account.pk)}]}
    assert directory.ask("POST", "/Groups", unknown).json()["scimType"] == "invalidValue"
    for key, status in (("", 401), (directory.new()["key"], 403)):
        answer = directory.ask("GET", "/Users", Authorization=f"Bearer {key}")
        assert (answer.status_code, answer.json()["status"]) == (status, str(status))
    assert directory.ask("GET", "/Nothing").status_code == 404
    assert directory.ask("TRACE", "/Users").status_code == 405
