"""Who may do what with interns, and which refusal comes first."""

from datetime import UTC, datetime
from typing import Any

import pytest

from accounts.models import ApiKey, Membership, Workspace
from accounts.services.keys import create_key
from accounts.services.organization import admit_member, open_workspace
from gateway.http.errors import DatabaseGone
from interns import access
from interns.models import Intern
from interns.vault.service import read_managed
from tests.interns.farm import Farm, open_farm

pytestmark = pytest.mark.django_db
NOWHERE = "6b1f4a52-0c1d-4f7e-9a53-2f0e8d7c9b41"
LARGE = b'{"x": "' + b"x" * 1_048_576 + b'"}'
READS: list[tuple[str, str, Any]] = [("GET", "/interns", None), ("GET", "/interns/{id}", None)]
WRITES: list[tuple[str, str, Any]] = [
    ("POST", "/interns", {"name": "ok"}),
    ("PATCH", "/interns/{id}", {}),
    ("POST", "/interns/{id}/provision", None),
    ("POST", "/interns/{id}/suspend", None),
    ("DELETE", "/interns/{id}", None),
]
SAID = {"stream": True, "messages": [{"role": "user", "content": "Hi"}]}
CHAT: tuple[str, str, Any] = ("POST", "/interns/{id}/chat/completions", SAID)
ALL = [*READS, *WRITES, CHAT]


def request_to(asked: tuple[str, str, Any], intern_id: str = NOWHERE) -> tuple[str, str, Any]:
    method, path, body = asked
    return method, path.format(id=intern_id), body


@pytest.mark.parametrize("asked", ALL)
def test_host_credentials_and_programme_come_before_everything_of_the_request(
    farm: Farm, settings: Any, asked: tuple[str, str, Any]
) -> None:
    settings.REGIONAL_HOSTS = {"eu.example.com": "europe"}
    method, path, _ = request_to(asked)
    said = farm.expect_refusal(403, None, method, path, key="nope", Host="eu.example.com")
    assert said["message"] == "Forbidden"
    for key in ("", "nope", farm.management_key):
        for sent in (None, LARGE, b"{bad"):
            said = farm.expect_refusal(401, None, method, path, sent, key=key)
            assert said["message"] == "Invalid or missing API key"

    made = farm.new()
    farm.account.interns_enabled = False
    farm.account.save()
    said = farm.expect_refusal(404, "not_found", *request_to(asked, made["id"]))
    assert (said["message"], said["metadata"]["retryable"]) == ("Intern not found", False)
    if method != "GET":
        farm.expect_refusal(404, "not_found", method, path, LARGE)


def test_the_write_switch_leaves_reading(farm: Farm) -> None:
    made = farm.new()
    farm.account.intern_writes_enabled = False
    farm.account.save()
    for asked in WRITES:
        farm.expect_refusal(404, "not_found", *request_to(asked, made["id"]))
    assert farm.get(made["id"]) == made
    assert [each["id"] for each in farm.ok("GET", "/interns")["data"]] == [made["id"]]


@pytest.mark.parametrize("asked", WRITES)
def test_size_media_type_body_and_intern_are_looked_at_in_this_order(
    farm: Farm, asked: tuple[str, str, Any]
) -> None:
    method, path, body = request_to(asked)
    plain: dict[str, Any] = {"Content_Type": "text/plain"}
    said = farm.expect_refusal(413, "payload_too_large", method, path, LARGE, **plain)
    assert said["message"] == "Request body exceeds 1048576 bytes"
    said = farm.expect_refusal(415, "unsupported_media_type", method, path, b"{bad", **plain)
    assert said["message"] == "Request body must be sent as application/json"
    assert said["metadata"]["retryable"] is False
    for wrong in (b"{bad", {"foo": 1}):
        farm.expect_refusal(400, "invalid_body", method, path, wrong)
    if path != "/interns":
        farm.expect_refusal(404, "not_found", method, path, body)


def test_json_may_say_its_charset(farm: Farm) -> None:
    more = {"Content_Type": "Application/JSON; charset=utf-8"}
    farm.ok("POST", "/interns", {"name": "ok"}, status=201, **more)


def test_any_string_that_is_no_intern_is_not_found(farm: Farm) -> None:
    for intern_id in ("none", NOWHERE, "x" * 300, "%00", "ü", "{" + NOWHERE + "}"):
        said = farm.expect_refusal(404, "not_found", "GET", f"/interns/{intern_id}")
        assert said["message"] == "Intern not found"
        farm.expect_refusal(404, "not_found", *request_to(CHAT, intern_id))


def test_interns_of_another_workspace_are_not_there(farm: Farm) -> None:
    made = farm.new()
    team = open_workspace(account=farm.account, slug="team")
    beside = create_key(account=farm.account, name="k", workspace=team, creator=farm.member)[1]
    for asked in (READS[1], *WRITES[1:], CHAT):
        farm.expect_refusal(404, "not_found", *request_to(asked, made["id"]), key=beside)
    assert farm.ok("GET", "/interns", key=beside)["data"] == []


def test_a_key_that_is_nobody_s_owns_no_intern(farm: Farm) -> None:
    asked, key = request_to(WRITES[0]), farm.system_key
    said = farm.expect_refusal(403, "no_acting_user", *asked, key=key)
    assert said["metadata"]["retryable"] is False
    assert said["message"].startswith("This key acts as the organization")


def test_a_creator_who_left_and_a_workspace_that_is_gone_are_forbidden(farm: Farm) -> None:
    made = farm.create_running()
    team = open_workspace(account=farm.account, slug="team")
    key = create_key(account=farm.account, name="k", workspace=team, creator=farm.member)[1]
    Workspace.objects.filter(pk=team.pk).update(deleted_at=datetime.now(UTC))
    farm.expect_refusal(403, None, "GET", "/interns", key=key)
    Membership.objects.filter(user=farm.member).delete()
    for asked in (*READS, CHAT):
        said = farm.expect_refusal(403, None, *request_to(asked, made["id"]))
        assert said["message"] == "Forbidden"


def test_a_silent_database_is_a_fault_that_can_be_retried(
    farm: Farm, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(request: Any) -> Any:
        raise DatabaseGone

    made = farm.new()
    monkeypatch.setattr(access, "authenticate", silent)
    for asked in (*READS, *WRITES):
        said = farm.expect_refusal(500, "internal_error", *request_to(asked, made["id"]))
        assert said["metadata"]["retryable"] is True
        assert said["message"] == "The request could not be completed"
    said = farm.expect_refusal(503, "busy", *request_to(CHAT, made["id"]))
    assert said["metadata"]["retryable"] is True


def test_an_intern_s_own_key_sees_itself_and_changes_nothing(farm: Farm) -> None:
    made, other = farm.create_running(), farm.create_running()
    string = read_managed(Intern.objects.get(pk=made["id"]).pk, "router_api_key")
    assert ApiKey.objects.get(intern_id=made["id"]).workspace == farm.workspace
    assert farm.ok("GET", f"/interns/{made['id']}", key=string)["id"] == made["id"]
    for asked in (READS[0], WRITES[0]):
        farm.expect_refusal(404, "not_found", *request_to(asked), key=string)
    # In a chat it would answer its own questions.
    for asked in (*WRITES[1:], CHAT):
        farm.expect_refusal(404, "not_found", *request_to(asked, other["id"]), key=string)
        farm.expect_refusal(403, None, *request_to(asked, made["id"]), key=string)


def test_management_keys_reach_interns_by_the_scope_alone(farm: Farm) -> None:
    made, other = farm.create_running(), open_farm(farm.script, farm.queue).new()
    team = open_workspace(account=farm.account, slug="team")
    theirs = create_key(account=farm.account, name="k", workspace=team, creator=farm.member)[1]
    beside = farm.ok("POST", "/interns", {"name": "beside"}, status=201, key=theirs)

    def manager(*scopes: str, **more: Any) -> str:
        place: Any = {"account": farm.account, "workspace": None, "name": "m"}
        return create_key(**place, scopes=list(scopes), **more)[1]

    def ids(key: str, query: str = "") -> set[str]:
        return {each["id"] for each in farm.ok("GET", f"/interns{query}", key=key)["data"]}

    for asked in (*READS, *WRITES, CHAT):
        farm.expect_refusal(
            401, None, *request_to(asked, made["id"]), key=manager("read", "keys", "workspaces")
        )
    key, bounded = manager("interns"), manager("interns", managed_workspaces=[str(team.pk)])
    for asked in (WRITES[0], CHAT, ("GET", f"/vault/interns/{made['id']}/secrets", None)):
        assert farm.call(*request_to(asked, made["id"]), key=key)[0] == 401
    assert (ids(key), ids(bounded)) == ({made["id"], beside["id"]}, {beside["id"]})
    assert ids(key, f"?workspace_id={team.pk}") == {beside["id"]}
    assert ids(bounded, f"?workspace_id={farm.workspace.pk}") == set()
    farm.queue.at_once = True
    for asked in (READS[1], *WRITES[1:]):
        farm.expect_refusal(404, "not_found", *request_to(asked, other["id"]), key=key)
        farm.expect_refusal(404, "not_found", *request_to(asked, made["id"]), key=bounded)
        status, said = farm.call(*request_to(asked, made["id"]), key=key)
        assert status in (200, 202, 409), said


def test_a_management_key_does_with_interns_what_its_creator_may(farm: Farm) -> None:
    made = farm.new()
    options: Any = {"account": farm.account, "name": "m", "workspace": None, "scopes": ["interns"]}
    for role, reads, writes in (("admin", 200, 200), ("billing", 200, 403), ("member", 403, 403)):
        person = admit_member(
            account=farm.account,
            username=f"{role}-{made['id']}",
            role=Membership.Role(f"org:{role}"),
        )
        key = create_key(**options, creator=person)[1]
        assert farm.call("GET", "/interns", key=key)[0] == reads
        assert farm.call(*request_to(WRITES[1], made["id"]), key=key)[0] == writes
