"""The command puts an archive onto a disk that nobody boots meanwhile."""

from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from django.core.management import call_command

from gateway.commands import Refused
from interns.archives import service
from interns.management.commands import restore_intern_workspace as command
from interns.models import Intern, WorkspaceArchive
from interns.runtime.driver import current_driver
from tests.interns.farm import Farm

pytestmark = [pytest.mark.django_db, pytest.mark.both]


@pytest.fixture
def archive(farm: Farm, settings: Any, tmp_path: Path) -> WorkspaceArchive:
    settings.GATEWAY_HOME = tmp_path / "home"
    donor = Intern.objects.get(pk=farm.create_suspended()["id"])
    return service.archive_workspace(donor, current_driver())


def restore(archive: WorkspaceArchive, heir: Any) -> None:
    call_command("restore_intern_workspace", "--archive", str(archive.pk), "--into", heir["id"])


def boot(farm: Farm, heir: Any) -> Any:
    farm.ok("POST", f"/interns/{heir['id']}/provision", status=202)
    farm.queue.work()
    return farm.get(heir["id"])


def test_who_was_booted_while_the_archive_was_read_keeps_the_disk(
    farm: Farm, archive: WorkspaceArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    heir = farm.create_suspended()
    service.archive_workspace(Intern.objects.get(pk=heir["id"]), current_driver())
    Intern.objects.filter(pk=heir["id"]).update(is_disk_partial=True)

    def read_long(row: WorkspaceArchive) -> str:
        assert boot(farm, heir)["status"] == "running"
        return ""

    # The intern boots at the one moment between the two looks at it.
    monkeypatch.setattr(command, "find_damage", read_long)
    with pytest.raises(Refused, match="is running"):
        restore(archive, heir)
    assert farm.get(heir["id"])["status"] == "running"
    assert heir["id"] in farm.script.read()["disks"]
    assert not Intern.objects.get(pk=heir["id"]).is_disk_partial


def test_nobody_boots_a_disk_that_is_being_filled(
    farm: Farm, archive: WorkspaceArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    heir = farm.create_suspended()
    driver: Any = current_driver()
    fill, before = driver.restore, Intern.objects.get(pk=heir["id"])

    def fill_slowly(intern_id: UUID, file: Any) -> int:
        # Who reads the disk meanwhile has no archive of it.
        assert service.archive_stopped(before, driver) is None
        service.archive_stopped(Intern.objects.get(pk=heir["id"]), driver)
        assert "an operator" in boot(farm, heir)["last_failure_message"]
        with pytest.raises(Refused, match="an operator"):
            restore(archive, heir)
        return int(fill(intern_id, file))

    # What comes in between comes while the disk is filled.
    monkeypatch.setattr(type(driver), "restore", lambda self, *given: fill_slowly(*given))
    restore(archive, heir)
    assert not service.has_archive(Intern.objects.get(pk=heir["id"]))
    assert boot(farm, heir)["status"] == "running"


def test_nobody_takes_a_disk_away_that_is_being_filled(
    farm: Farm, archive: WorkspaceArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    heir = farm.create_suspended()
    driver: Any = current_driver()
    fill = driver.restore

    def delete() -> None:
        farm.ok("DELETE", f"/interns/{heir['id']}", status=202)
        farm.queue.work()

    def fill_slowly(intern_id: UUID, file: Any) -> int:
        delete()
        assert "an operator" in farm.get(heir["id"])["last_failure_message"]
        return int(fill(intern_id, file))

    # The deletion comes while the disk is filled.
    monkeypatch.setattr(type(driver), "restore", lambda self, *given: fill_slowly(*given))
    restore(archive, heir)
    assert heir["id"] in farm.script.read()["disks"]
    delete()
    farm.get(heir["id"], status=404)


def test_a_restore_that_fails_keeps_nobody_from_booting(
    farm: Farm, archive: WorkspaceArchive
) -> None:
    heir = farm.new()
    farm.script.fail("restore", {"error": "broke off"})
    with pytest.raises(Refused, match="broke off"):
        restore(archive, heir)
    assert boot(farm, heir)["status"] == "running"


def test_a_disk_that_is_there_in_part_is_not_archived(
    farm: Farm, archive: WorkspaceArchive
) -> None:
    made = farm.create_suspended()
    Intern.objects.filter(pk=made["id"]).update(is_disk_partial=True)
    assert service.archive_stopped(farm.row(made["id"]), current_driver()) is None
