"""What workers do to take an intern down: each step that can go wrong."""

from pathlib import Path
from typing import Any

import pytest

from accounts.models import ApiKey
from interns.jobs import teardown
from interns.models import WorkspaceArchive
from tests.interns.farm import Farm

pytestmark = [pytest.mark.django_db, pytest.mark.both]
LOSS = {"acknowledge_workspace_loss": True}


def deleted(farm: Farm, made: Any, body: Any = None) -> Any:
    """What is told of an intern after its deletion was tried; None if it is gone."""
    farm.queue.at_once = True
    farm.ok("DELETE", f"/interns/{made['id']}", body, status=202)
    status, said = farm.call("GET", f"/interns/{made['id']}")
    if status == 404:
        return None
    assert said["status"] == "destroy_failed"
    return said["last_failure_message"]


def test_a_teardown_without_an_archive_waits_for_a_word(farm: Farm) -> None:
    made = farm.running()
    farm.script.fail("archive", {"error": "disk broken", "code": "workspace_archive_failed"})

    assert deleted(farm, made) == "workspace_archive_failed: disk broken"
    assert farm.rules(made["id"])[-1] == "T18"
    assert list(farm.script.read()["disks"]) == [made["id"]]
    assert ApiKey.objects.living().filter(intern_id=made["id"]).exists()

    for body in (None, {}, {"acknowledge_workspace_loss": False}):
        asked = ("DELETE", f"/interns/{made['id']}", body)
        refused = farm.refused(409, "workspace_archive_failed", *asked)
        assert refused["metadata"]["retryable"] is False
    farm.script.fail("archive", {"error": "still", "code": "workspace_archive_failed"})
    assert deleted(farm, made, LOSS) is None
    assert farm.rules(made["id"])[-3:] == ["T16", "T19", "T17"]
    assert not WorkspaceArchive.objects.exists()


def test_what_the_store_says_is_for_the_log(
    farm: Farm, settings: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings.GATEWAY_HOME = tmp_path
    made = farm.running()
    (tmp_path / "archives").write_text("in the way")
    told = "workspace_archive_failed: the archive could not be kept: File exists"
    assert deleted(farm, made) == told
    assert f"File exists: '{tmp_path / 'archives'}" in caplog.text


def test_a_loss_can_be_acknowledged_from_the_beginning(farm: Farm) -> None:
    made = farm.running()
    farm.script.fail("archive", {"error": "no", "code": "workspace_archive_failed"}, always=True)
    assert deleted(farm, made, LOSS) is None
    assert farm.script.read()["disks"] == {}


@pytest.mark.parametrize("step", ["stop", "destroy"])
def test_a_runtime_that_cannot_be_taken_down(farm: Farm, step: str) -> None:
    made = farm.running()
    farm.script.fail(step, {"error": "stuck", "code": "runtime_teardown_failed"})
    assert deleted(farm, made) == "runtime_teardown_failed: stuck"
    assert farm.rules(made["id"])[-1] == "T20"
    for operation in ("provision", "suspend"):
        farm.refused(409, "invalid_state", "POST", f"/interns/{made['id']}/{operation}")
    assert deleted(farm, made) is None
    assert WorkspaceArchive.objects.count() == 1


def test_a_vault_that_cannot_be_taken_down(farm: Farm, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(intern_id: Any) -> None:
        raise ZeroDivisionError("secret words")

    made = farm.running()
    with monkeypatch.context() as patch:
        patch.setattr(teardown, "delete_intern_vault", broken)
        assert deleted(farm, made) == "vault_teardown_failed: ZeroDivisionError"
    assert deleted(farm, made) is None


def test_where_no_boot_came_so_far_there_is_nothing_to_archive(farm: Farm) -> None:
    """As where the image of its containers cannot be had."""
    assert deleted(farm, farm.new(), {"acknowledge_workspace_loss": False}) is None
    assert farm.script.calls("archive") == []
    farm.queue.at_once = False
    farm.script.fail("start", {"error": "none", "code": "image_unavailable"})
    made = farm.running()
    assert made["status"] == "failed"
    assert deleted(farm, made) is None
    assert not WorkspaceArchive.objects.exists()


def test_a_disk_that_is_lost_is_a_loss(farm: Farm) -> None:
    made = farm.suspended()
    with farm.script.changed() as state:
        del state["disks"][made["id"]]
    assert deleted(farm, made) == "workspace_archive_failed: there is no disk"
