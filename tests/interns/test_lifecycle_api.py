"""The lifecycle through the API: the way through the statuses, and what each answer says."""

import threading
from typing import Any
from uuid import uuid4

import pytest

from accounts.models import ApiKey
from interns import job_queue, operations
from interns.errors import UpstreamUnavailable
from interns.jobs import teardown
from interns.models import Intern, InternCreation, InternTransition, Vault, WorkspaceArchive
from tests.interns.farm import Farm, carry_out

pytestmark = [pytest.mark.django_db, pytest.mark.both]


def test_a_wrong_method_has_its_reason(farm: Farm) -> None:
    made = farm.new()
    for below in ("", "/suspend", "/chat/completions", "/fetch"):
        path = f"/interns/{made['id']}{below}"
        refused = farm.expect_refusal(405, "method_not_allowed", "PUT", path, {})
        assert refused["message"] == "Method Not Allowed"
        assert refused["metadata"]["retryable"] is False


def test_a_whole_life(farm: Farm) -> None:
    made = farm.new("research", description=None)
    path = f"/interns/{made['id']}"
    unset = ("instructions", "model", "hostname", "progress", "last_failure_message")
    assert made == {
        "id": made["id"],
        "name": "research",
        "description": "",
        "status": "awaiting_slack_install",
        "vault_id": str(Vault.objects.get(intern=made["id"]).pk),
        "attached_vault_id": None,
        "workspace_id": str(farm.workspace.pk),
        **dict.fromkeys(unset),
        **{name: made[name] for name in ("created_at", "updated_at")},
    }

    assert farm.ok("POST", f"{path}/provision", status=202) == {"provisioning": True}
    queued = farm.get(made["id"])
    first = {"step_label": "Preparing credentials", "step_number": 1, "total_steps": 4}
    assert (queued["status"], queued["progress"]) == ("queued", first)
    for method, end in (("POST", "/provision"), ("POST", "/suspend"), ("DELETE", "")):
        refused = farm.expect_refusal(409, "intern_busy", method, f"{path}{end}")
        assert refused["metadata"]["retryable"] is True
    farm.queue.work()
    running = farm.get(made["id"])
    assert (running["status"], running["progress"]) == ("running", None)
    assert running["hostname"] == "research.interns.localhost"

    farm.queue.at_once = True
    assert farm.ok("POST", f"{path}/suspend", {}) == {"suspended": True}
    stopped = farm.get(made["id"])
    assert (stopped["status"], stopped["hostname"]) == ("stopped", running["hostname"])
    assert farm.script.runtimes() == {}
    refused = farm.expect_refusal(409, "invalid_state", "POST", f"{path}/suspend")
    assert refused["metadata"]["retryable"] is False

    farm.ok("POST", f"{path}/provision", {}, status=202)
    assert farm.get(made["id"])["status"] == "running"

    farm.queue.at_once = False
    assert farm.ok("DELETE", path, status=202) == {"deleting": True}
    assert farm.get(made["id"])["status"] == "destroying"
    farm.queue.work()
    farm.expect_refusal(404, "not_found", "GET", path)
    assert farm.rules(made["id"]) == [
        *("T1", "T4", "T8", "T9", "T9", "T9", "T10", "T13"),
        *("T7", "T8", "T9", "T9", "T9", "T10", "T15", "T17"),
    ]


def test_nothing_is_left_of_a_deleted_intern_but_history_and_archive(farm: Farm) -> None:
    made = farm.create_running()
    key = ApiKey.objects.get(intern_id=made["id"])
    assert key.creator == farm.member

    farm.ok("DELETE", f"/interns/{made['id']}", status=202)
    farm.queue.work()

    assert not Intern.objects.exists()
    assert not Vault.objects.filter(intern=made["id"]).exists()
    assert not InternCreation.objects.exists()
    key.refresh_from_db()
    assert key.deleted_at is not None
    state = farm.script.read()
    assert (state["runtimes"], state["disks"]) == ({}, {})
    assert WorkspaceArchive.objects.get(intern_id=made["id"]).bytes > 0
    assert InternTransition.objects.filter(intern_id=made["id"], to_status="").count() == 1


def test_an_operation_that_is_told_too_much_is_refused(farm: Farm) -> None:
    path = f"/interns/{farm.new()['id']}"
    for operation in ("provision", "suspend"):
        asked = ("POST", f"{path}/{operation}")
        refused = farm.expect_refusal(400, "invalid_body", *asked, {"force": True})
        assert refused["message"] == "Invalid request body"
        issues = [{"path": "", "message": 'Unrecognized key: "force"'}]
        assert refused["metadata"] | {"retryable": False, "issues": issues} == refused["metadata"]
        for body in ("[]", "{bad", "1", '"x"', "null"):
            farm.expect_refusal(400, "invalid_body", *asked, body)
    for loss in ({"acknowledge_workspace_loss": 1}, {"acknowledge_workspace_loss": None}, {"x": 1}):
        farm.expect_refusal(400, "invalid_body", "DELETE", path, loss)


def test_a_queue_that_is_down_changes_nothing(farm: Farm) -> None:
    new, running, stopped = farm.new(), farm.create_running(), farm.create_suspended()
    farm.script.fail("start", {"error": "no room"})
    failed = farm.create_running()
    farm.queue.down = True

    for intern, method, end in (
        *((each, "POST", "/provision") for each in (new, stopped, failed)),
        (running, "POST", "/suspend"),
        *((each, "DELETE", "") for each in (running, stopped)),
    ):
        before = farm.row(intern["id"])
        refused = farm.expect_refusal(
            502, "upstream_unavailable", method, f"/interns/{intern['id']}{end}"
        )
        assert refused["metadata"]["retryable"] is True
        assert refused["message"] == "The intern service could not be reached, retry the request"
        after = farm.row(intern["id"])
        same = ("status", "status_since", "progress_step", "last_failure_message", "hostname")
        assert [getattr(after, name) for name in same] == [getattr(before, name) for name in same]
        assert (after.lease_id, after.operation_id, after.lease_kind) == (None, None, "")

    farm.queue.down = False
    farm.ok("POST", f"/interns/{new['id']}/provision", status=202)
    farm.queue.work()
    assert farm.get(new["id"])["status"] == "running"


def test_what_a_worker_took_up_was_told_after_all(
    farm: Farm, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The queue took the message and then said nothing."""
    made = farm.new()

    def publish(lease: Any) -> None:
        carry_out(lease)
        raise UpstreamUnavailable

    monkeypatch.setattr(operations, "publish_operation", publish)
    farm.ok("POST", f"/interns/{made['id']}/provision", status=202)
    assert farm.get(made["id"])["status"] == "running"


def test_a_queue_that_says_nothing_is_given_up(
    farm: Farm, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.INTERN_PUBLISH_SECONDS = 0.05
    frozen = threading.Event()
    monkeypatch.setattr(job_queue._Publishing, "_publish", lambda self: frozen.wait(10))
    made = farm.new()
    farm.expect_refusal(502, "upstream_unavailable", "POST", f"/interns/{made['id']}/provision")
    assert farm.get(made["id"])["status"] == "awaiting_slack_install"
    frozen.set()


def test_a_suspension_that_takes_too_long_goes_on(farm: Farm, settings: Any) -> None:
    settings.INTERN_OPERATION_SECONDS = 0.3
    made = farm.create_running()
    path = f"/interns/{made['id']}"
    refused = farm.expect_refusal(408, "timeout", "POST", f"{path}/suspend")
    assert refused["metadata"]["retryable"] is True
    farm.expect_refusal(409, "intern_busy", "POST", f"{path}/suspend")
    assert farm.get(made["id"])["status"] == "running"
    farm.queue.work()
    assert farm.get(made["id"])["status"] == "stopped"


def test_a_runtime_that_does_not_stop_runs_on(farm: Farm, monkeypatch: pytest.MonkeyPatch) -> None:
    # The pause between tries would only be waited for.
    monkeypatch.setattr(teardown, "_PAUSE_S", 0)
    made = farm.create_running()
    path = f"/interns/{made['id']}/suspend"
    stuck = {"error": "stuck", "code": "runtime_teardown_failed"}
    farm.script.fail("stop", stuck, always=True)
    farm.queue.at_once = True

    farm.expect_refusal(502, "upstream_unavailable", "POST", path)
    assert farm.get(made["id"])["status"] == "running"
    assert farm.row(made["id"]).lease_id is None
    note = InternTransition.objects.filter(intern_id=made["id"]).latest("pk")
    assert (note.rule, note.why) == ("", "the runtime did not stop: stuck")

    # Three tries are made.
    farm.script.fail("stop", stuck, stuck)
    farm.ok("POST", path)
    assert farm.get(made["id"])["status"] == "stopped"


def test_bodies_that_make_no_intern(farm: Farm) -> None:
    for name in ("R", "a", "abcdefghijklmnopqr", "a--b", "1a", "a-", "ab\n", "", None):
        farm.expect_refusal(400, "invalid_body", "POST", "/interns", {"name": name})
    for said in (
        *({"description": "x" * 2001}, {"instructions": "x" * 100_001}, {"model": "a/b"}),
        *({"provision": "yes"}, {"vault_id": "none"}, {"workspace_id": "none"}),
    ):
        refused = farm.expect_refusal(
            400, "invalid_body", "POST", "/interns", {"name": "ok", **said}
        )
        assert refused["metadata"]["issues"], said
    assert farm.expect_refusal(400, "invalid_body", "POST", "/interns", {})["metadata"]["issues"]
    elsewhere = {"name": "ok", "workspace_id": str(uuid4())}
    refused = farm.expect_refusal(400, "invalid_body", "POST", "/interns", elsewhere)
    assert refused["message"] == "workspace_id must match the API key workspace"
    farm.new("ok", workspace_id=str(farm.workspace.pk))


def test_changes_show_at_once_and_wait_for_nobody_but_a_teardown(farm: Farm) -> None:
    made = farm.create_running("research")
    path = f"/interns/{made['id']}"

    assert farm.ok("PATCH", path, {}) == made
    said = {"name": "other", "description": "d", "instructions": "i", "model": "acme/small:free"}
    changed = farm.ok("PATCH", path, said)
    assert changed == made | said | {"updated_at": changed["updated_at"]}
    assert changed["updated_at"] >= made["updated_at"]
    cleared = farm.ok("PATCH", path, {"description": None, "instructions": None, "model": None})
    assert [cleared[name] for name in ("description", "instructions", "model")] == ["", None, None]
    for wrong in ({"name": None}, {"status": "running"}, {"model": "nope"}, {"model": ""}):
        farm.expect_refusal(400, "invalid_body", "PATCH", path, wrong)

    second = farm.new("second", provision=True)
    refused = farm.expect_refusal(409, "name_taken", "PATCH", path, {"name": "second"})
    assert refused["metadata"]["retryable"] is False
    farm.ok("PATCH", f"/interns/{second['id']}", {"description": "in time"})
    farm.queue.work()
    assert farm.get(second["id"])["status"] == "running"
    farm.ok("DELETE", path, status=202)
    refused = farm.expect_refusal(409, "intern_busy", "PATCH", path, {"description": "too late"})
    assert refused["metadata"]["retryable"] is True
