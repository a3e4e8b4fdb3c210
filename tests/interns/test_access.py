"""Who may do what with interns, and which refusal comes first."""

from typing import Any

import pytest

from accounts.models import ApiKey, Membership, Workspace
from accounts.services.accounts import admit_member, open_workspace
from accounts.services.keys import create_key
from accounts.services.records import SYSTEM
from accounts.services.workspace_members import add_members
from interns.models import Intern
from tests.interns.farm import Farm, open_farm

pytestmark = pytest.mark.django_db
NOWHERE = "6b1f4a52-0c1d-4f7e-9a53-2f0e8d7c9b41"
LARGE = b'{"x": "' + b"x" * 1_048_576 + b'"}'
READS = [("GET", "/interns"), ("GET", "/interns/{id}")]
WRITES = [
    ("POST", "/interns", {"name": "ok"}),
    ("PATCH", "/interns/{id}", {}),
    ("POST", "/interns/{id}/provision", None),
    ("POST", "/interns/{id}/suspend", None),
    ("DELETE", "/interns/{id}", None),
]
ALL = [(*each, None) for each in READS] + WRITES


def every(
    farm: Farm, method: str, path: str, body: Any, intern_id: str = ""
) -> tuple[str, str, Any]:
    wanted = intern_id or farm.new()["id"]
    return method, path.format(id=wanted), body


@pytest.mark.parametrize(("method", "path", "body"), ALL)
def test_credentials_come_before_everything_of_the_request(
    farm: Farm, method: str, path: str, body: Any
) -> None:
    del body
    for key in ("", "nope", farm.management_key):
        for sent in (None, LARGE, b"{bad"):
            said = farm.refused(401, None, *every(farm, method, path, sent, NOWHERE), key=key)
            assert said["message"] == "Invalid or missing API key"


@pytest.mark.parametrize(("method", "path", "body"), ALL)
def test_a_regional_host_comes_first_of_all(
    farm: Farm, settings: Any, method: str, path: str, body: Any
) -> None:
    settings.REGIONAL_HOSTS = {"eu.example.com": "europe"}
    asked = every(farm, method, path, body, NOWHERE)

    said = farm.refused(403, None, *asked, key="nope", Host="eu.example.com")
    assert said["message"] == "Forbidden"


@pytest.mark.parametrize(("method", "path", "body"), ALL)
def test_outside_the_programme_there_are_no_interns(
    farm: Farm, method: str, path: str, body: Any
) -> None:
    asked = every(farm, method, path, body)
    farm.account.interns_enabled = False
    farm.account.save()

    said = farm.refused(404, "not_found", *asked)
    assert (said["message"], said["metadata"]["retryable"]) == ("Intern not found", False)
    if method != "GET":
        farm.refused(404, "not_found", *asked[:2], LARGE)


def test_the_write_switch_leaves_reading(farm: Farm) -> None:
    made = farm.new()
    farm.account.intern_writes_enabled = False
    farm.account.save()

    for method, path, body in WRITES:
        farm.refused(404, "not_found", *every(farm, method, path, body, made["id"]))
    assert farm.get(made["id"]) == made
    assert [each["id"] for each in farm.ok("GET", "/interns")["data"]] == [made["id"]]


@pytest.mark.parametrize(("method", "path", "body"), WRITES)
def test_size_media_type_body_and_intern_are_looked_at_in_this_order(
    farm: Farm, method: str, path: str, body: Any
) -> None:
    asked = every(farm, method, path, body, NOWHERE)[:2]
    plain: dict[str, Any] = {"Content_Type": "text/plain"}

    said = farm.refused(413, "payload_too_large", *asked, LARGE, **plain)
    assert said["message"] == "Request body exceeds 1048576 bytes"
    said = farm.refused(415, "unsupported_media_type", *asked, b"{bad", **plain)
    assert said["message"] == "Request body must be sent as application/json"
    assert said["metadata"]["retryable"] is False
    farm.refused(400, "invalid_body", *asked, b"{bad")
    farm.refused(400, "invalid_body", *asked, {"foo": 1})
    if path != "/interns":
        farm.refused(404, "not_found", *asked, body)


def test_json_may_say_its_charset(farm: Farm) -> None:
    more = {"Content_Type": "Application/JSON; charset=utf-8"}
    farm.ok("POST", "/interns", {"name": "ok"}, status=201, **more)


@pytest.mark.parametrize("intern_id", ["none", NOWHERE, "x" * 300, "%00", "ü", "{" + NOWHERE + "}"])
def test_any_string_that_is_no_intern_is_not_found(farm: Farm, intern_id: str) -> None:
    said = farm.refused(404, "not_found", "GET", f"/interns/{intern_id}")
    assert said["message"] == "Intern not found"


def test_interns_of_others_are_not_there(farm: Farm) -> None:
    made, other = farm.new(), open_farm(farm.script, farm.queue)
    team = open_workspace(account=farm.account, slug="team")
    beside = create_key(account=farm.account, name="k", workspace=team, creator=farm.member)[1]

    for key in (other.key, other.admin_key, beside):
        for method, path, body in [*WRITES[1:], ("GET", "/interns/{id}", None)]:
            asked = every(farm, method, path, body, made["id"])
            farm.refused(404, "not_found", *asked, key=key)
        assert farm.ok("GET", "/interns", key=key)["data"] == []


@pytest.mark.parametrize(("method", "path", "body"), WRITES[1:])
def test_only_the_creator_and_admins_change_an_intern(
    farm: Farm, method: str, path: str, body: Any
) -> None:
    made = farm.running()
    stranger = admit_member(
        account=farm.account, username=f"s-{made['name']}", role=Membership.Role.MEMBER
    )
    theirs = create_key(account=farm.account, name="k", workspace=farm.workspace, creator=stranger)[
        1
    ]
    asked = every(farm, method, path, body, made["id"])

    for key in (theirs, farm.system_key):
        assert farm.ok("GET", f"/interns/{made['id']}", key=key)["id"] == made["id"]
        said = farm.refused(403, None, *asked, key=key)
        assert said["message"] == "Forbidden"
    farm.queue.at_once = True
    status, said = farm.call(*asked, key=farm.admin_key)
    assert status in (200, 202, 409), said


def test_a_workspace_s_admin_changes_its_interns(farm: Farm) -> None:
    team = open_workspace(account=farm.account, slug="team")
    keys = {}
    for name in ("maker", "admin"):
        user = admit_member(
            account=farm.account, username=f"{name}-{team.pk.hex[:6]}", role=Membership.Role.MEMBER
        )
        add_members(
            account_id=farm.account.pk, reference="team", by=SYSTEM, user_ids=[user.public_id]
        )
        keys[name] = create_key(account=farm.account, name="k", workspace=team, creator=user)[1]
        if name == "admin":
            user.memberships.get().workspace_memberships.update(role="admin")
    made = farm.ok("POST", "/interns", {"name": "theirs"}, status=201, key=keys["maker"])

    farm.ok("PATCH", f"/interns/{made['id']}", {"description": "d"}, key=keys["admin"])


def test_a_key_that_is_nobody_s_owns_no_intern(farm: Farm) -> None:
    said = farm.refused(
        403, "no_acting_user", "POST", "/interns", {"name": "ok"}, key=farm.system_key
    )
    assert said["metadata"]["retryable"] is False
    assert said["message"].startswith("This key acts as the organization")


def test_a_creator_who_left_is_forbidden(farm: Farm) -> None:
    made = farm.new()
    Membership.objects.filter(user=farm.member).delete()

    for method, path in READS:
        said = farm.refused(403, None, method, path.format(id=made["id"]))
        assert said["message"] == "Forbidden"


def test_a_key_whose_workspace_is_gone_is_forbidden(farm: Farm) -> None:
    from datetime import UTC, datetime

    team = open_workspace(account=farm.account, slug="team")
    key = create_key(account=farm.account, name="k", workspace=team, creator=farm.member)[1]
    Workspace.objects.filter(pk=team.pk).update(deleted_at=datetime.now(UTC))

    farm.refused(403, None, "GET", "/interns", key=key)


@pytest.mark.parametrize(("method", "path", "body"), ALL)
def test_a_silent_database_is_a_fault_that_can_be_retried(
    farm: Farm, monkeypatch: pytest.MonkeyPatch, method: str, path: str, body: Any
) -> None:
    from gateway.http.errors import DatabaseGone
    from interns import access

    def silent(request: Any) -> Any:
        raise DatabaseGone

    asked = every(farm, method, path, body)
    monkeypatch.setattr(access, "known_caller", silent)
    said = farm.refused(500, "internal_error", *asked)
    assert said["metadata"]["retryable"] is True
    assert said["message"] == "The request could not be completed"


def test_an_intern_s_own_key_sees_itself_and_changes_nothing(farm: Farm) -> None:
    from interns.vault.service import read_managed

    made, other = farm.running(), farm.new()
    string = read_managed(Intern.objects.get(pk=made["id"]).pk, "router_api_key")
    assert string is not None
    assert ApiKey.objects.get(intern_id=made["id"]).workspace == farm.workspace

    assert farm.ok("GET", f"/interns/{made['id']}", key=string)["id"] == made["id"]
    farm.refused(404, "not_found", "GET", "/interns", key=string)
    farm.refused(404, "not_found", "POST", "/interns", {"name": "ok"}, key=string)
    for method, path, body in WRITES[1:]:
        farm.refused(404, "not_found", *every(farm, method, path, body, other["id"]), key=string)
        farm.refused(403, None, *every(farm, method, path, body, made["id"]), key=string)
