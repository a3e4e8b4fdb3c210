"""Making an intern once, however often it is asked for, and what stands in the way."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from accounts.caller import read_caller
from accounts.models import ApiKey, Workspace
from accounts.services.keys import create_key
from accounts.services.organization import open_workspace
from interns import slack
from interns.creation import NewIntern, create_intern, delete_expired_creations
from interns.errors import InternForbidden
from interns.models import Intern, InternCreation, InternTransition
from interns.vault.service import read_managed
from tests.interns.farm import Farm, open_farm

pytestmark = [pytest.mark.django_db, pytest.mark.both]
BODY = {"name": "research"}


def made_by(farm: Farm, body: Any = BODY, **more: Any) -> Any:
    return farm.ok("POST", "/interns", body, status=201, **more)


def expect_no_intern(farm: Farm, status: int, reason: str, body: Any = BODY, **more: Any) -> Any:
    """The message of a refusal that is worth another try only where it is no conflict."""
    refused = farm.expect_refusal(status, reason, "POST", "/interns", body, **more)
    assert refused["metadata"]["retryable"] is (status == 502)
    return refused["message"]


def test_the_same_request_again_is_a_replay(farm: Farm) -> None:
    made = made_by(farm)
    again = farm.ok("POST", "/interns", b'{ "description": null, "name": "research" }', status=200)
    assert again == made
    expect_no_intern(farm, 409, "name_taken", {**BODY, "description": "x"})
    assert Intern.objects.count() == 1
    # It shows the intern as it is now.
    farm.ok("PATCH", f"/interns/{made['id']}", {"name": "renamed"})
    assert farm.ok("POST", "/interns", BODY)["name"] == "renamed"


def test_a_key_names_the_request(farm: Farm) -> None:
    named: dict[str, Any] = {"Idempotency_Key": "k" * 255}
    made = made_by(farm, **named)
    assert farm.ok("POST", "/interns", BODY, **named) == made
    said = expect_no_intern(farm, 409, "idempotency_key_reused", {"name": "other"}, **named)
    assert said == "This Idempotency-Key was already used with a different request"
    expect_no_intern(farm, 409, "name_taken", Idempotency_Key="another")
    for key in ("", "k" * 256):
        expect_no_intern(farm, 400, "invalid_body", Idempotency_Key=key)
    # It is its caller's own.
    other = open_farm(farm.script, farm.queue)
    assert made_by(other, {"name": "other"}, **named)["id"] != made["id"]


def test_after_a_day_a_request_is_a_new_one(farm: Farm) -> None:
    made_by(farm)
    past = datetime.now(UTC) - timedelta(seconds=1)
    InternCreation.objects.update(expires_at=past)
    expect_no_intern(farm, 409, "name_taken")
    assert delete_expired_creations(datetime.now(UTC)) == 1
    assert not InternCreation.objects.exists()


def test_a_creation_whose_provisioning_could_not_be_told_of_goes_on(farm: Farm) -> None:
    body = {**BODY, "provision": True}
    farm.queue.down = True
    said = expect_no_intern(farm, 502, "upstream_unavailable", body)
    assert said == "The intern was created but setup is not ready yet, retry the request"
    made = farm.ok("GET", "/interns")["data"][0]
    assert (made["status"], made["progress"]) == ("awaiting_slack_install", None)
    farm.queue.down = False
    again = made_by(farm, body)
    assert (again["id"], again["status"]) == (made["id"], "queued")
    farm.queue.work()
    assert farm.ok("POST", "/interns", body)["status"] == "running"
    assert farm.rules(made["id"])[:3] == ["T2", "T4", "T8"]


def test_a_creation_that_died_before_it_told_anybody_goes_on(farm: Farm) -> None:
    """The commit came, the message did not."""
    body = {**BODY, "provision": True}
    made = made_by(farm, body)
    assert made["status"] == "queued"
    InternCreation.objects.update(finished_at=None, wants_provision=True)
    farm.queue.messages.clear()
    assert made_by(farm, body)["id"] == made["id"]
    assert farm.queue.work() == 1
    assert farm.get(made["id"])["status"] == "running"
    assert farm.rules(made["id"])[:2] == ["T2", "T8"]
    assert Intern.objects.count() == 1


def test_a_member_has_so_many_interns_in_workspaces_that_are_there(
    farm: Farm, settings: Any
) -> None:
    settings.INTERNS_MAX_PER_MEMBER = 2
    first, second = farm.new(), farm.new()

    expect_no_intern(farm, 409, "intern_limit_reached")
    # A name is its creator's own as well.
    made_by(farm, key=farm.admin_key)
    farm.queue.at_once = True
    farm.ok("DELETE", f"/interns/{first['id']}", status=202)
    again = made_by(farm)
    farm.ok("DELETE", f"/interns/{again['id']}", status=202)
    # The request of one that was destroyed makes a new one.
    assert made_by(farm)["id"] != again["id"]

    gone = open_workspace(account=farm.account, slug="gone")
    Intern.objects.filter(pk=second["id"]).update(workspace=gone)
    expect_no_intern(farm, 409, "intern_limit_reached", {"name": "another"})
    Workspace.objects.filter(pk=gone.pk).update(deleted_at=datetime.now(UTC))
    made_by(farm, {"name": "another"})


def test_only_a_vault_of_another_intern_here_can_be_borrowed(farm: Farm) -> None:
    theirs = open_farm(farm.script, farm.queue).new()
    for vault_id in (str(uuid4()), theirs["vault_id"]):
        expect_no_intern(farm, 409, "vault_not_attachable", {**BODY, "vault_id": vault_id})
    assert not Intern.objects.filter(workspace=farm.workspace).exists()
    owner = farm.new()
    made = made_by(farm, {**BODY, "vault_id": owner["vault_id"]})
    assert made["attached_vault_id"] == owner["vault_id"]
    assert made["vault_id"] != owner["vault_id"]


def test_slack_can_be_required(farm: Farm, settings: Any) -> None:
    settings.INTERN_REQUIRE_SLACK_INSTALL = True
    waiting, asked = farm.new(provision=True), farm.new()
    assert waiting["status"] == "awaiting_slack_install"
    assert not farm.queue.messages
    asking = ("POST", f"/interns/{waiting['id']}/provision")
    refused = farm.expect_refusal(409, "slack_install_required", *asking)
    assert refused["metadata"]["retryable"] is False

    assert slack.record_install(farm.row(waiting["id"]).pk, by="operator", tokens="xoxb-1") is True
    assert slack.record_install(farm.row(asked["id"]).pk, by="operator") is False
    assert farm.queue.work() == 1
    assert farm.get(waiting["id"])["status"] == "running"
    assert farm.rules(waiting["id"])[:3] == ["T3", "T5", "T8"]
    assert read_managed(farm.row(waiting["id"]).pk, "slack_tokens") == "xoxb-1"
    assert InternTransition.objects.filter(rule="T5").count() == 2
    farm.ok("POST", f"/interns/{asked['id']}/provision", status=202)


def test_a_workspace_with_interns_stays_and_one_that_goes_gets_none(farm: Farm) -> None:
    """Also one whose interns never ran, and so have no key."""
    team = open_workspace(account=farm.account, slug="team")
    key, string = create_key(account=farm.account, name="k", workspace=team, creator=farm.member)
    caller = read_caller(key.hash)
    assert caller is not None
    made = made_by(farm, key=string)
    asked = {"method": "DELETE", "path": f"/workspaces/{team.pk}", "key": farm.management_key}

    # What is in the way first is said first.
    for disabled in (False, True):
        ApiKey.objects.filter(pk=key.pk).update(disabled=disabled)
        got, said = farm.call(**asked)
        assert got == 400
        assert said["error"]["message"] == "Workspace has interns. Delete the interns first."
    ApiKey.objects.filter(pk=key.pk).update(disabled=False)
    farm.ok("DELETE", f"/interns/{made['id']}", status=202, key=string)
    farm.queue.work()
    got, said = farm.call(**asked)
    assert said["error"]["message"] == "Workspace has active API keys. Delete the keys first."
    ApiKey.objects.filter(pk=key.pk).update(disabled=True)
    assert farm.call(**asked) == (200, {"deleted": True})
    # As for a caller who came in before.
    with pytest.raises(InternForbidden):
        create_intern(caller, NewIntern("late"), key=None)
    assert not Intern.objects.exists()
