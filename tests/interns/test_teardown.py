"""What workers do to take an intern down: each step that can go wrong."""

from pathlib import Path
from typing import Any

import pytest

from accounts.models import ApiKey
from interns.models import WorkspaceArchive
from tests.interns.farm import Farm

pytestmark = [pytest.mark.django_db, pytest.mark.both]
STUCK = {"error": "stuck", "code": "runtime_teardown_failed"}


def test_a_teardown_without_an_archive_waits_for_a_word(farm: Farm) -> None:
    made = farm.running()
    path = f"/interns/{made['id']}"
    farm.script.fail("archive", {"error": "disk broken", "code": "workspace_archive_failed"})
    farm.queue.at_once = True

    farm.ok("DELETE", path, status=202)
    failed = farm.get(made["id"])
    assert failed["status"] == "destroy_failed"
    assert failed["last_failure_message"] == "workspace_archive_failed: disk broken"
    assert farm.rules(made["id"])[-1] == "T18"
    assert list(farm.script.read()["disks"]) == [made["id"]]
    assert ApiKey.objects.living().filter(intern_id=made["id"]).exists()

    for body in (None, {}, {"acknowledge_workspace_loss": False}):
        refused = farm.refused(409, "workspace_archive_failed", "DELETE", path, body)
        assert refused["metadata"]["retryable"] is False
    farm.script.fail("archive", {"error": "still", "code": "workspace_archive_failed"})
    farm.ok("DELETE", path, {"acknowledge_workspace_loss": True}, status=202)
    farm.get(made["id"], status=404)
    assert farm.rules(made["id"])[-3:] == ["T16", "T19", "T17"]
    assert not WorkspaceArchive.objects.exists()


def test_what_the_store_says_is_for_the_log(
    farm: Farm, settings: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings.GATEWAY_HOME = tmp_path
    made = farm.running()
    (tmp_path / "archives").write_text("in the way")
    farm.queue.at_once = True

    farm.ok("DELETE", f"/interns/{made['id']}", status=202)
    said = farm.get(made["id"])["last_failure_message"]
    assert said == "workspace_archive_failed: the archive could not be kept: File exists"
    assert f"File exists: '{tmp_path / 'archives'}" in caplog.text


def test_a_loss_can_be_acknowledged_from_the_beginning(farm: Farm) -> None:
    made = farm.running()
    farm.script.fail("archive", {"error": "no", "code": "workspace_archive_failed"}, always=True)
    farm.queue.at_once = True

    farm.ok("DELETE", f"/interns/{made['id']}", {"acknowledge_workspace_loss": True}, status=202)
    farm.get(made["id"], status=404)
    assert farm.script.read()["disks"] == {}


@pytest.mark.parametrize("step", ["stop", "destroy"])
def test_a_runtime_that_cannot_be_taken_down(farm: Farm, step: str) -> None:
    made = farm.running()
    farm.script.fail(step, STUCK)
    farm.queue.at_once = True

    farm.ok("DELETE", f"/interns/{made['id']}", status=202)
    failed = farm.get(made["id"])
    assert failed["last_failure_message"] == "runtime_teardown_failed: stuck"
    assert farm.rules(made["id"])[-1] == "T20"
    farm.refused(409, "invalid_state", "POST", f"/interns/{made['id']}/provision")
    farm.refused(409, "invalid_state", "POST", f"/interns/{made['id']}/suspend")
    farm.ok("DELETE", f"/interns/{made['id']}", status=202)
    farm.get(made["id"], status=404)
    assert WorkspaceArchive.objects.count() == 1


def test_a_vault_that_cannot_be_taken_down(farm: Farm, monkeypatch: pytest.MonkeyPatch) -> None:
    from interns.jobs import teardown

    def broken(intern_id: Any) -> None:
        raise ZeroDivisionError("secret words")

    made = farm.running()
    farm.queue.at_once = True
    with monkeypatch.context() as patch:
        patch.setattr(teardown, "delete_intern_vault", broken)
        farm.ok("DELETE", f"/interns/{made['id']}", status=202)
    failed = farm.get(made["id"])
    assert failed["last_failure_message"] == "vault_teardown_failed: ZeroDivisionError"
    farm.ok("DELETE", f"/interns/{made['id']}", status=202)
    farm.get(made["id"], status=404)


def test_where_no_boot_came_so_far_there_is_nothing_to_archive(farm: Farm) -> None:
    """As where the image of its containers cannot be had."""
    made = farm.new()
    farm.script.fail("start", {"error": "none", "code": "image_unavailable"})
    farm.ok("POST", f"/interns/{made['id']}/provision", status=202)
    farm.queue.work()
    assert farm.get(made["id"])["status"] == "failed"

    farm.ok("DELETE", f"/interns/{made['id']}", status=202)
    farm.queue.work()
    farm.get(made["id"], status=404)
    assert not WorkspaceArchive.objects.exists()


def test_a_disk_that_is_lost_is_a_loss(farm: Farm) -> None:
    made = farm.suspended()
    with farm.script.changed() as state:
        del state["disks"][made["id"]]

    farm.ok("DELETE", f"/interns/{made['id']}", status=202)
    farm.queue.work()
    failed = farm.get(made["id"])
    assert failed["status"] == "destroy_failed"
    assert failed["last_failure_message"] == "workspace_archive_failed: there is no disk"
