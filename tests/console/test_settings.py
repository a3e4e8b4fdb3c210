"""Settings: policy, logging, destinations, alerts and the audit trail."""

import re

import pytest
from django.urls import reverse

from accounts.models import Account, AuditRecord, Channel
from routing.destinations.models import Destination
from tests.console.people import Team, make_team

pytestmark = [pytest.mark.django_db, pytest.mark.both]


def test_an_admin_sets_the_policy_of_the_account_and_it_is_recorded(team: Team) -> None:
    form = {"name": "acme", "data_collection": "deny", "zdr": "on"}

    assert team.client("admin").post(reverse("console:settings"), form).status_code == 302

    account = Account.objects.get(pk=team.account.pk)
    assert (account.data_collection, account.zdr) == ("deny", True)
    text = team.client("admin").get(reverse("console:audit")).text
    assert "account updated" in text
    assert "data collection: allow → deny" in text
    wrong = team.client("admin").post(
        reverse("console:settings"), form | {"ignored_providers": "nobody"}
    )
    assert (wrong.status_code, "No provider has this name" in wrong.text) == (400, True)
    make_team("theirs")
    taken = team.client("admin").post(reverse("console:settings"), form | {"name": "theirs"})
    assert taken.status_code == 400


def test_the_audit_trail_is_the_account_s_own_and_goes_on(team: Team) -> None:
    strangers, client, path = make_team("theirs"), team.client("admin"), reverse("console:audit")
    for number in range(60):
        AuditRecord.objects.create(
            at=team.account.created_at,
            account=team.account,
            command="test",
            action=f"a{number}",
            object_type="thing",
            object_id="x",
        )

    text = client.get(path, {"kind": "thing"}).text

    assert ("thing a59" in text, "thing a9<" in text) == (True, False)
    assert str(strangers.keys["own"].pk) not in re.findall(r"<code>(\d+)</code>", text)
    (cursor,) = re.findall(r"cursor=(\d+)", text)
    later = client.get(path, {"kind": "thing", "cursor": cursor}).text
    assert ("thing a9<" in later, "thing a59" in later) == (True, False)
    rows = client.get(path, {"csv": "1", "kind": "thing"}).text
    assert rows.count("thing a") == 60


DESTINATION = {
    "name": "hook",
    "url": "https://example.com/in",
    "method": "POST",
    "sampling_rate": "1",
}


def test_a_lead_adds_a_destination_of_the_workspace_alone(team: Team) -> None:
    led, default = (team.account.workspaces.get(slug=slug) for slug in ("led", "default"))
    client, path = team.client("lead"), reverse("console:new_destination", args=["webhook"])

    assert client.post(path, DESTINATION | {"workspace": str(default.pk)}).status_code == 400
    assert client.post(path, DESTINATION | {"workspace": str(led.pk)}).status_code == 302
    row = Destination.objects.get()
    assert (row.workspace, row.name, row.config["url"]) == (led, "hook", DESTINATION["url"])
    assert "hook" in client.get(reverse("console:destinations")).text
    change = reverse("console:change_destination", args=[row.pk])
    assert client.post(change, {"to": "disabled"}).status_code == 302
    row.refresh_from_db()
    assert not row.enabled
    strangers = make_team("theirs")
    for other in (team.client("member"), strangers.client("admin")):
        assert other.post(change, {"to": "deleted"}).status_code == 404
    assert client.post(change, {"to": "deleted"}).status_code == 302
    assert not Destination.objects.exists()


@pytest.mark.parametrize("role", ["lead", "admin"])
def test_prompts_go_to_destinations_of_who_may_read_them_alone(team: Team, role: str) -> None:
    led, client = team.led, team.client(role)
    path = reverse("console:new_destination", args=["webhook"])

    # The box "Without prompts and answers" is empty.
    client.post(path, DESTINATION | {"workspace": str(led.pk)})

    row = Destination.objects.get()
    assert row.privacy_mode == (role == "lead")
    Destination.objects.update(privacy_mode=False, enabled=False)
    client.post(reverse("console:change_destination", args=[row.pk]), {"to": "enabled"})
    row.refresh_from_db()
    assert (row.enabled, row.privacy_mode) == (True, role == "lead")


def test_a_destination_that_leads_inside_is_refused_in_words(team: Team) -> None:
    path = reverse("console:new_destination", args=["otel-collector"])
    led = team.led
    form = {"name": "x", "endpoint": "http://10.0.0.1", "workspace": str(led.pk)}

    answer = team.client("admin").post(path, form | {"sampling_rate": "1"})

    assert (answer.status_code, Destination.objects.exists()) == (400, False)
    assert 'class="errors" role="alert"' in answer.text


def test_every_type_of_destination_has_a_form(team: Team) -> None:
    client = team.client("admin")
    text = client.get(reverse("console:destinations")).text
    types = re.findall(r"destinations/new/([a-z0-9-]+)", text)
    assert len(types) == 9
    for name in types:
        assert client.get(reverse("console:new_destination", args=[name])).status_code == 200
    assert client.get(reverse("console:new_destination", args=["none"])).status_code == 404


def test_a_webhook_shows_its_secret_once_and_is_the_account_s(team: Team) -> None:
    client, path = team.client("admin"), reverse("console:new_channel")
    form = {"name": "on call", "type": "webhook", "url": "https://example.com/hook"}

    answer = client.post(path, form | {"kinds": ["budget.threshold"]})

    assert re.search(r"whsec_\S+<", answer.text)
    row = Channel.objects.get()
    assert (row.account, row.kinds, row.workspace) == (team.account, ["budget.threshold"], None)
    listed = client.get(reverse("console:alerts")).text
    assert ("on call" in listed, "whsec_" in listed) == (True, False)
    # The whole account's channel is no lead's, and only a workspace's is for a lead to make.
    change = reverse("console:change_channel", args=[row.pk])
    assert team.client("lead").post(change, {"to": "deleted"}).status_code == 404
    assert team.client("lead").post(path, form).status_code == 400
    assert make_team("theirs").client("admin").post(change, {"to": "deleted"}).status_code == 404
    assert client.post(change, {"to": "tested"}).status_code == 302
    assert "Test message" in client.get(reverse("console:alerts")).text
    assert client.post(change, {"to": "deleted"}).status_code == 302
    assert not Channel.objects.exists()


def test_a_change_is_told_in_full(team: Team) -> None:
    models = [f"acme/model-{number}" for number in range(40)]
    row = AuditRecord.objects.create(
        at=team.account.created_at,
        account=team.account,
        command="test",
        action="updated",
        object_type="guardrail",
        object_id="x",
        before={"allowed_models": None, "limit_nano": 5_000_000_000},
        after={"allowed_models": models, "limit_nano": None},
    )
    client = team.client("admin")
    path = reverse("console:change", args=[row.pk])

    listed = client.get(reverse("console:audit"))
    assert (path in listed.text, models[-1] in listed.text) == (True, False)
    page = client.get(path).text
    assert (models[-1] in page, "$5.00" in page, "guardrail updated" in page) == (True, True, True)
    file = client.get(reverse("console:audit"), {"csv": "1"}).text
    assert (models[-1] in file, "limit: $5.00 → none" in file) == (True, True)

    assert team.client("lead").get(path).status_code == 404
    assert make_team("theirs").client("admin").get(path).status_code == 404
