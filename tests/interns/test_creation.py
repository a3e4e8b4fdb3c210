"""Making an intern once, however often it is asked for, and what stands in the way."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from accounts.caller import read_caller
from accounts.models import ApiKey, Workspace
from accounts.services.accounts import open_workspace
from accounts.services.keys import create_key
from interns.creation import NewIntern, create, forget_old_creations
from interns.errors import InternForbidden
from interns.models import Intern, InternCreation
from tests.interns.farm import Farm, open_farm

pytestmark = [pytest.mark.django_db, pytest.mark.both]
BODY = {"name": "research"}


def test_the_same_request_again_is_a_replay(farm: Farm) -> None:
    made = farm.ok("POST", "/interns", BODY, status=201)

    again = farm.ok("POST", "/interns", b'{ "description": null, "name": "research" }', status=200)
    assert again == made
    refused = farm.refused(409, "name_taken", "POST", "/interns", {**BODY, "description": "x"})
    assert refused["metadata"]["retryable"] is False
    assert Intern.objects.count() == 1


def test_a_replay_shows_the_intern_as_it_is_now(farm: Farm) -> None:
    made = farm.ok("POST", "/interns", BODY, status=201)
    farm.ok("PATCH", f"/interns/{made['id']}", {"name": "renamed"})

    assert farm.ok("POST", "/interns", BODY)["name"] == "renamed"


def test_a_key_names_the_request(farm: Farm) -> None:
    named: dict[str, Any] = {"Idempotency_Key": "k" * 255}
    made = farm.ok("POST", "/interns", BODY, status=201, **named)

    assert farm.ok("POST", "/interns", BODY, **named) == made
    refused = farm.refused(
        409, "idempotency_key_reused", "POST", "/interns", {"name": "other"}, **named
    )
    assert refused["message"] == ("This Idempotency-Key was already used with a different request")
    assert refused["metadata"]["retryable"] is False
    farm.refused(409, "name_taken", "POST", "/interns", BODY, Idempotency_Key="another")


@pytest.mark.parametrize("key", ["", "k" * 256])
def test_keys_that_are_none(farm: Farm, key: str) -> None:
    farm.refused(400, "invalid_body", "POST", "/interns", BODY, Idempotency_Key=key)


def test_a_key_is_its_caller_s_own(farm: Farm) -> None:
    other = open_farm(farm.script, farm.queue)
    named = {"Idempotency_Key": "k"}
    first = farm.ok("POST", "/interns", BODY, status=201, **named)

    second = other.ok("POST", "/interns", {"name": "other"}, status=201, **named)
    assert second["id"] != first["id"]


def test_after_a_day_a_request_is_a_new_one(farm: Farm) -> None:
    farm.ok("POST", "/interns", BODY, status=201)
    past = datetime.now(UTC) - timedelta(seconds=1)
    InternCreation.objects.update(expires_at=past)

    farm.refused(409, "name_taken", "POST", "/interns", BODY)
    assert forget_old_creations(datetime.now(UTC)) == 1
    assert not InternCreation.objects.exists()


def test_a_destroyed_intern_s_request_makes_a_new_one(farm: Farm) -> None:
    farm.queue.at_once = True
    made = farm.ok("POST", "/interns", BODY, status=201)
    farm.ok("DELETE", f"/interns/{made['id']}", status=202)

    assert farm.ok("POST", "/interns", BODY, status=201)["id"] != made["id"]


def test_a_creation_whose_provisioning_could_not_be_told_of_goes_on(farm: Farm) -> None:
    body = {**BODY, "provision": True}
    farm.queue.down = True
    refused = farm.refused(502, "upstream_unavailable", "POST", "/interns", body)
    assert refused["message"] == (
        "The intern was created but setup is not ready yet, retry the request"
    )
    assert refused["metadata"]["retryable"] is True
    made = farm.ok("GET", "/interns")["data"][0]
    assert (made["status"], made["progress"]) == ("awaiting_slack_install", None)

    farm.queue.down = False
    again = farm.ok("POST", "/interns", body, status=201)
    assert (again["id"], again["status"]) == (made["id"], "queued")
    farm.queue.work()
    assert farm.ok("POST", "/interns", body)["status"] == "running"
    assert farm.rules(made["id"])[:3] == ["T2", "T4", "T8"]


def test_a_creation_that_died_before_it_told_anybody_goes_on(farm: Farm) -> None:
    """The commit came, the message did not."""
    body = {**BODY, "provision": True}
    made = farm.ok("POST", "/interns", body, status=201)
    InternCreation.objects.update(finished_at=None, wants_provision=True)
    farm.queue.messages.clear()

    again = farm.ok("POST", "/interns", body, status=201)
    assert again["id"] == made["id"]
    assert farm.queue.work() == 1
    assert farm.get(made["id"])["status"] == "running"
    assert Intern.objects.count() == 1


def test_a_member_has_so_many_interns(farm: Farm, settings: Any) -> None:
    settings.INTERNS_MAX_PER_MEMBER = 2
    first = farm.new()
    farm.new()

    refused = farm.refused(409, "intern_limit_reached", "POST", "/interns", BODY)
    assert refused["metadata"]["retryable"] is False
    farm.ok("POST", "/interns", BODY, status=201, key=farm.admin_key)
    farm.queue.at_once = True
    farm.ok("DELETE", f"/interns/{first['id']}", status=202)
    farm.ok("POST", "/interns", BODY, status=201)


def test_a_name_is_taken_by_its_own_creator_only(farm: Farm) -> None:
    farm.ok("POST", "/interns", BODY, status=201)

    farm.ok("POST", "/interns", BODY, status=201, key=farm.admin_key)


def test_a_vault_of_another_intern_can_be_borrowed(farm: Farm) -> None:
    owner = farm.new()

    made = farm.ok("POST", "/interns", {**BODY, "vault_id": owner["vault_id"]}, status=201)
    assert made["attached_vault_id"] == owner["vault_id"]
    assert made["vault_id"] != owner["vault_id"]


def test_vaults_that_cannot_be_borrowed(farm: Farm) -> None:
    theirs = open_farm(farm.script, farm.queue).new()

    for vault_id in (str(uuid4()), theirs["vault_id"]):
        body = {**BODY, "vault_id": vault_id}
        refused = farm.refused(409, "vault_not_attachable", "POST", "/interns", body)
        assert refused["metadata"]["retryable"] is False
    assert not Intern.objects.filter(workspace=farm.workspace).exists()


def test_slack_can_be_required(farm: Farm, settings: Any) -> None:
    from interns import slack
    from interns.models import InternTransition
    from interns.vault.service import read_managed

    settings.INTERN_REQUIRE_SLACK_INSTALL = True
    waiting, asked = farm.new(provision=True), farm.new()
    assert waiting["status"] == "awaiting_slack_install"
    assert farm.queue.messages == type(farm.queue.messages)()
    refused = farm.refused(
        409, "slack_install_required", "POST", f"/interns/{waiting['id']}/provision"
    )
    assert refused["metadata"]["retryable"] is False

    assert slack.installed(farm.row(waiting["id"]).pk, by="operator", tokens="xoxb-1") is True
    assert slack.installed(farm.row(asked["id"]).pk, by="operator") is False
    assert farm.queue.work() == 1
    assert farm.get(waiting["id"])["status"] == "running"
    assert farm.rules(waiting["id"])[:3] == ["T3", "T5", "T8"]
    assert read_managed(farm.row(waiting["id"]).pk, "slack_tokens") == "xoxb-1"
    assert InternTransition.objects.filter(rule="T5").count() == 2
    farm.ok("POST", f"/interns/{asked['id']}/provision", status=202)


def test_interns_of_a_workspace_that_is_gone_do_not_count(farm: Farm, settings: Any) -> None:
    settings.INTERNS_MAX_PER_MEMBER = 1
    gone = open_workspace(account=farm.account, slug="gone")
    made = farm.new("old")
    Intern.objects.filter(pk=made["id"]).update(workspace=gone)
    farm.refused(409, "intern_limit_reached", "POST", "/interns", BODY)

    Workspace.objects.filter(pk=gone.pk).update(deleted_at=datetime.now(UTC))
    farm.ok("POST", "/interns", BODY, status=201)


def test_a_workspace_that_goes_meanwhile_gets_no_intern(farm: Farm) -> None:
    team = open_workspace(account=farm.account, slug="team")
    key, _ = create_key(account=farm.account, name="k", workspace=team, creator=farm.member)
    caller = read_caller(key.hash)
    assert caller is not None
    Workspace.objects.filter(pk=team.pk).update(deleted_at=datetime.now(UTC))

    with pytest.raises(InternForbidden):
        create(caller, NewIntern("late"), key=None)
    assert not Intern.objects.exists()


def test_a_workspace_with_interns_stays(farm: Farm) -> None:
    """Also one whose interns never ran, and so have no key."""
    team = open_workspace(account=farm.account, slug="team")
    key, string = create_key(account=farm.account, name="k", workspace=team, creator=farm.member)
    made = farm.ok("POST", "/interns", BODY, status=201, key=string)
    path = f"/workspaces/{team.pk}"

    # What is in the way first is said first.
    for disabled in (False, True):
        ApiKey.objects.filter(pk=key.pk).update(disabled=disabled)
        got, said = farm.call("DELETE", path, key=farm.management_key)
        assert got == 400
        assert said["error"]["message"] == "Workspace has interns. Delete the interns first."
    ApiKey.objects.filter(pk=key.pk).update(disabled=False)
    farm.ok("DELETE", f"/interns/{made['id']}", status=202, key=string)
    farm.queue.work()
    got, said = farm.call("DELETE", path, key=farm.management_key)
    assert said["error"]["message"] == "Workspace has active API keys. Delete the keys first."
    ApiKey.objects.filter(pk=key.pk).update(disabled=True)
    assert farm.call("DELETE", path, key=farm.management_key) == (200, {"deleted": True})
