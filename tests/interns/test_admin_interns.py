"""The pages of interns: how they are, what happened to them, and what an operator does."""

from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client
from django.utils import timezone

from accounts.models import ApiKey, AuditRecord
from accounts.services.organization import open_workspace
from interns import leases
from interns.models import Intern, InternTransition, LeaseKind
from tests.interns.farm import Farm
from tests.support.admin_pages import operator, page

pytestmark = [pytest.mark.django_db, pytest.mark.both]


def act(client: Client, action: str, *intern_ids: str) -> str:
    """What is said after an action on these interns."""
    data = {"action": action, "_selected_action": list(intern_ids)}
    response = client.post(page(Intern), data, follow=True)
    assert response.status_code == 200
    return "\n".join(map(str, response.context["messages"]))


def read_page(client: Client, *place: str, **query: str) -> str:
    return client.get(page(Intern, *place), query).content.decode()


def test_the_list_tells_how_interns_are(farm: Farm, admin_client: Client) -> None:
    farm.script.fail("start", {"error": "<b>no room</b>"})
    farm.create_running("broken")
    healthy, isolated = farm.create_running("healthy"), farm.create_running("isolated")
    waiting = farm.new("waiting")
    farm.ok("POST", f"/interns/{waiting['id']}/provision", status=202)

    text = read_page(admin_client)
    assert "runtime_start_failed: &lt;b&gt;no room" in text
    assert "1 of 4: Preparing credentials" in text
    assert "provision until" in text
    assert "healthy.interns.localhost" in text
    assert "No isolation" not in text
    for status, count in {"failed": 1, "running": 2, "queued": 1, "stopped": 0}.items():
        assert f'<a href="?status__exact={status}">{count}</a>' in text
    failed = read_page(admin_client, status__exact="failed")
    assert "broken" in failed
    assert "healthy.interns" not in failed

    farm.age(waiting["id"])
    Intern.objects.filter(pk=healthy["id"]).update(runtime={"isolation": "none"})
    Intern.objects.filter(pk=isolated["id"]).update(runtime={"isolation": "bubblewrap"})
    text = read_page(admin_client)
    assert "Waiting for a worker, none has taken it up" in text
    assert "No isolation: interns run as plain processes" in text
    assert "(1 of those that run)" in text


def test_a_page_shows_history_facts_log_and_spend(farm: Farm, admin_client: Client) -> None:
    made = farm.create_suspended("research")
    text = read_page(admin_client, "change", made["id"])
    for word in ("T10", "running → stopped", "&lt;b&gt;ready&lt;/b&gt;", "booted", "<td>pid</td>"):
        assert word in text, word
    assert ApiKey.objects.get(intern_id=made["id"]).label in text
    assert "All time" in text or "Requests" in text
    facts = {"pid": 1, "begun_at": 1_790_000_000.5}
    Intern.objects.filter(pk=made["id"]).update(runtime=facts)
    text = read_page(admin_client, "change", made["id"])
    assert "<td>begun_at</td><td>2026-09-21 14:13:20</td>" in text
    assert "Is disk partial" in text


def test_settings_change_through_the_page_with_a_record(farm: Farm, admin_client: Client) -> None:
    made = farm.create_running("research")
    path = page(Intern, "change", made["id"])
    key = ApiKey.objects.get(intern_id=made["id"])
    # The budget is shown as the key has it.
    limit = {"limit": 2.5, "limit_reset": "daily"}
    farm.ok("PATCH", f"/keys/{key.hash}", limit, key=farm.management_key)
    form = admin_client.get(path).context["adminform"].form
    assert (form.initial["budget_usd"], form.initial["budget_reset"]) == ("2.5", "daily")

    said = {"description": "d", "instructions": "", "model": "acme/small"}
    said |= {"budget_usd": "1.50", "budget_reset": "daily"}
    assert admin_client.post(path, said).status_code == 302
    row = farm.row(made["id"])
    assert (row.description, row.model, row.instructions) == ("d", "acme/small", None)
    assert (row.budget_nano, row.budget_reset) == (1_500_000_000, "daily")
    key.refresh_from_db()
    assert (key.limit_nano, key.limit_reset) == (1_500_000_000, "daily")
    record = AuditRecord.objects.get(object_type="intern")
    assert record.after is not None
    assert record.after["budget_nano"] == 1_500_000_000
    assert b"1.5" in admin_client.get(path).content

    for wrong in ({"model": "nope"}, {"budget_usd": "-1"}, {"budget_usd": ""}):
        assert admin_client.post(path, {**said, **wrong}).status_code == 200, wrong
    none = {**said, "budget_usd": "", "budget_reset": ""}
    assert admin_client.post(path, none).status_code == 302
    key.refresh_from_db()
    assert (key.limit_nano, key.limit_reset) == (None, None)


def test_the_page_of_an_intern_s_key_moves_it_nowhere(farm: Farm, admin_client: Client) -> None:
    key = ApiKey.objects.get(intern_id=farm.create_running("research")["id"])
    elsewhere = open_workspace(account=farm.account, slug="else")
    said = {"name": "k", "workspace": str(elsewhere.pk), "creator": str(farm.member.pk)}
    assert admin_client.post(page(ApiKey, "change", key.pk), said).status_code == 302
    key.refresh_from_db()
    assert (key.name, key.workspace_id) == ("k", farm.workspace.pk)


def test_a_whole_life_by_actions(farm: Farm, admin_client: Client, settings: Any) -> None:
    made = farm.new("research")
    farm.queue.down = True
    unreachable = "research: The intern service could not be reached, retry the request"
    assert unreachable in act(admin_client, "provision", made["id"])
    farm.queue.down = False
    farm.queue.at_once = True

    assert "research is being provisioned." in act(admin_client, "provision", made["id"])
    assert farm.get(made["id"])["status"] == "running"
    leases.take(farm.row(made["id"]), LeaseKind.SUSPEND, by="test", now=timezone.now())
    assert "research was released." in act(admin_client, "release_lease", made["id"])
    assert farm.row(made["id"]).lease_id is None
    assert "Nothing holds this intern" in act(admin_client, "release_lease", made["id"])
    assert "does not allow" not in act(admin_client, "suspend", made["id"])
    assert farm.get(made["id"])["status"] == "stopped"
    text = act(admin_client, "suspend", made["id"])
    assert "research: The intern is not in a state that allows this operation" in text
    assert "research is being deleted." in act(admin_client, "delete_interns", made["id"])
    farm.get(made["id"], status=404)
    who = InternTransition.objects.filter(intern_id=made["id"], rule__in=["T4", "T15"])
    assert {row.by for row in who} == {"operator admin"}
    assert LogEntry.objects.filter(object_repr="research").count() == 4

    settings.INTERN_REQUIRE_SLACK_INSTALL = True
    farm.queue.at_once = False
    waiting = farm.new("slack", provision=True)
    assert "slack has Slack installed." in act(admin_client, "install_slack", waiting["id"])
    assert farm.get(waiting["id"])["status"] == "queued"


def test_a_loss_is_acknowledged_by_an_action(farm: Farm, admin_client: Client) -> None:
    made = farm.create_running("research")
    farm.script.fail("archive", {"error": "no", "code": "workspace_archive_failed"}, always=True)
    farm.queue.at_once = True
    act(admin_client, "delete_interns", made["id"])
    assert farm.get(made["id"])["status"] == "destroy_failed"
    assert "acknowledge the loss" in act(admin_client, "delete_interns", made["id"])
    act(admin_client, "delete_without_archive", made["id"])
    farm.get(made["id"], status=404)


def test_a_settings_page_of_an_intern_that_goes_says_so(farm: Farm, admin_client: Client) -> None:
    made = farm.create_running("research")
    farm.ok("DELETE", f"/interns/{made['id']}", status=202)
    said = {"description": "d", "budget_reset": ""}
    response = admin_client.post(page(Intern, "change", made["id"]), said, follow=True)
    assert b"Another operation holds this intern" in response.content
    assert farm.row(made["id"]).description == ""


def test_who_may_only_look_does_nothing(farm: Farm) -> None:
    made = farm.new("research")
    client = Client()
    client.force_login(operator(permissions="view_intern"))
    assert client.get(page(Intern, "change", made["id"])).status_code == 200
    act(client, "provision", made["id"])
    assert farm.get(made["id"])["status"] == "awaiting_slack_install"
    for place in (("add",), ("delete", made["id"])):
        assert client.get(page(Intern, *place)).status_code == 403
