"""Archives are kept before anything is removed, read back, forgotten in time, and restored."""

import hashlib
import io
import json
import os
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from django.core.management import call_command

from accounts.models import AuditRecord
from accounts.services.records import SYSTEM
from gateway.commands import Refused
from gateway.environment.interns import archive_storage
from interns.archives import service, store
from interns.models import Intern, Status, WorkspaceArchive
from interns.runtime.disk_archive import pack, unpack
from interns.runtime.driver import ArchiveFailed
from interns.vault.service import delete_intern_vault
from tests.interns.archives.s3 import FakeS3, set_credentials
from tests.interns.vault.team import Team

pytestmark = [pytest.mark.django_db, pytest.mark.both]


class Disk:
    """The part of a driver that reads and writes disks; `fail` is raised when it is read."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.fail: Exception | None = None
        self.reads = 0

    def archive(self, intern_id: uuid.UUID, into: BinaryIO) -> int:
        self.reads += 1
        if self.fail:
            raise self.fail
        return pack(self.folder, into)


@pytest.fixture
def home(tmp_path: Path, settings: Any) -> Path:
    folder = tmp_path / "home"
    _use(settings, folder, "", "")
    return folder


@pytest.fixture
def disk(tmp_path: Path) -> Any:
    folder = tmp_path / "disk"
    folder.mkdir()
    (folder / "notes").write_text("remember")
    (folder / "away").symlink_to("/etc")
    return Disk(folder)


@pytest.fixture
def intern(team: Team) -> Intern:
    return team.intern(booted_at=datetime.now(UTC), status=Status.STOPPED)


def _use(settings: Any, home: Path, place: str, endpoint: str) -> None:
    settings.GATEWAY_HOME = home
    settings.INTERN_ARCHIVE_STORE = place
    kept = {"intern-archives": archive_storage(place, endpoint, home, silence_s=5)}
    settings.STORAGES = {**settings.STORAGES, **kept}


def test_a_disk_is_kept_and_known_by_its_sum(home: Path, disk: Any, intern: Intern) -> None:
    assert not service.has_archive(intern)
    before = datetime.now(UTC)
    row = service.archive_workspace(intern, disk)
    assert service.has_archive(intern)
    # It is not made again.
    assert (service.archive_workspace(intern, disk), disk.reads) == (row, 1)
    path = home / "archives" / f"{intern.pk}.tar"
    assert row.uri == path.as_uri()
    assert row.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert (row.bytes, row.files) == (path.stat().st_size, 1)
    assert (row.intern_id, row.intern_name, row.source) == (intern.pk, "helper", "teardown")
    assert row.expires_at is not None
    assert timedelta(days=30) <= row.expires_at - before < timedelta(days=30, minutes=1)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert list((home / "archives" / "partial").iterdir()) == []


def test_what_a_killed_worker_had_packed_is_forgotten(
    home: Path, disk: Any, intern: Intern
) -> None:
    """It holds what the intern's disk held, and nobody else would ever remove it."""
    assert service.delete_abandoned_spools() == 0
    partial = home / "archives" / "partial"
    partial.mkdir(parents=True)
    (partial / "killed.tar").write_bytes(b"half of a disk")
    (partial / "beginning.tar").touch()
    os.utime(partial / "killed.tar", (0, 0))

    class Slow(Disk):
        def archive(self, intern_id: uuid.UUID, into: BinaryIO) -> int:
            files = super().archive(intern_id, into)
            into.flush()
            os.utime(into.fileno(), (0, 0))
            assert service.delete_abandoned_spools() == 1
            return files

    slow: Any = Slow(disk.folder)
    assert service.find_damage(service.archive_workspace(intern, slow)) == ""
    assert [path.name for path in partial.iterdir()] == ["beginning.tar"]


def test_what_cannot_be_read_or_reads_back_otherwise_is_no_archive(
    home: Path, disk: Any, intern: Intern, monkeypatch: pytest.MonkeyPatch
) -> None:
    for fault in (ArchiveFailed("the disk is gone"), OSError(28, "No space left on device")):
        disk.fail = fault
        with pytest.raises(ArchiveFailed, match=r"the disk is gone|No space left"):
            service.archive_workspace(intern, disk)
    assert [path for path in (home / "archives").rglob("*") if path.is_file()] == []
    disk.fail = None
    with monkeypatch.context() as patch:
        patch.setattr(store, "open_archive", lambda uri: io.BytesIO(b"rotten"))
        with pytest.raises(ArchiveFailed, match="read back"):
            service.archive_workspace(intern, disk)
    assert not service.has_archive(intern)
    # The next try takes the place of what is there.
    assert service.find_damage(service.archive_workspace(intern, disk)) == ""


def test_in_a_store_that_speaks_s3(
    tmp_path: Path, settings: Any, disk: Any, intern: Intern, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_credentials(monkeypatch)
    with FakeS3() as s3:
        _use(settings, tmp_path / "home", "s3://bucket/some/prefix", s3.url)
        s3.refuse = True
        with pytest.raises(ArchiveFailed):
            service.archive_workspace(intern, disk)
        s3.refuse = False
        row = service.archive_workspace(intern, disk)
        assert row.uri == f"s3://bucket/some/prefix/{intern.pk}.tar"
        [(name, data)] = s3.objects.items()
        assert name == f"bucket/some/prefix/{intern.pk}.tar"
        assert hashlib.sha256(data).hexdigest() == row.sha256
        assert service.find_damage(row) == ""
        target = tmp_path / "back"
        target.mkdir()
        with store.open_archive(row.uri) as file:
            assert unpack(file, target).files == 1
        s3.objects[name] = data[:-1] + b"x"
        assert "not those" in service.find_damage(row)
        assert service.delete_archive(row, by=SYSTEM)
        assert s3.objects == {}


# --- Retention -----------------------------------------------------------------------------------


def test_archives_are_kept_for_their_days(home: Path, disk: Any, intern: Intern) -> None:
    row = service.archive_workspace(intern, disk)
    path = home / "archives" / f"{intern.pk}.tar"
    assert row.expires_at is not None
    later = row.expires_at + timedelta(seconds=1)
    # Its intern is still there: a teardown that failed may need it.
    assert service.delete_expired_archives(later) == 0
    _delete_intern(intern)
    assert service.delete_expired_archives(row.expires_at - timedelta(seconds=1)) == 0
    assert path.exists()
    assert [service.delete_expired_archives(later), service.delete_expired_archives(later)] == [
        1,
        0,
    ]
    assert not path.exists()
    assert not WorkspaceArchive.objects.exists()
    assert AuditRecord.objects.get(object_type="workspace_archive").action == "deleted"


def test_a_file_that_is_gone_already_is_no_trouble(home: Path, disk: Any, intern: Intern) -> None:
    row = service.archive_workspace(intern, disk)
    (home / "archives" / f"{intern.pk}.tar").unlink()
    assert "cannot be read" in service.find_damage(row)
    assert service.delete_archive(row, by=SYSTEM)


def test_an_archive_by_hand_counts_and_stays_the_operator_s(
    home: Path, tmp_path: Path, intern: Intern
) -> None:
    file = tmp_path / "mine.tar"
    file.write_bytes(b"x")
    facts: dict[str, Any] = {"uri": file.as_uri(), "sha256": "0" * 64, "size": 1, "by": SYSTEM}
    with pytest.raises(service.ArchiveNotExpected):
        service.add_archive(intern=intern, **facts)
    Intern.objects.filter(pk=intern.pk).update(
        status=Status.DESTROY_FAILED, last_failure_message="workspace_archive_failed: x"
    )
    intern.refresh_from_db()
    row = service.add_archive(intern=intern, **facts)
    assert service.has_archive(intern)
    assert row.source == "operator"
    assert service.delete_archive(row, by=SYSTEM)
    assert file.exists()


# --- Restoring -----------------------------------------------------------------------------------


def _delete_intern(intern: Intern) -> None:
    delete_intern_vault(intern.pk)
    Intern.objects.filter(pk=intern.pk).delete()


def restore(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    call_command("restore_intern_workspace", *arguments, "--json")
    return json.loads(capsys.readouterr().out)


def test_a_disk_comes_back_into_a_directory(
    home: Path, disk: Any, intern: Intern, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    row = service.archive_workspace(intern, disk)
    _delete_intern(intern)
    target = tmp_path / "back"
    said = restore(capsys, "--intern", str(intern.pk), "--to", str(target))
    which = {"archive_id": str(row.pk), "intern_name": "helper", "to": str(target)}
    assert said == which | {"files": 1, "skipped": 1, "skipped_names": ["away"]}
    assert (target / "notes").read_text() == "remember"
    again = tmp_path / "again"
    again.mkdir()
    assert restore(capsys, "--archive", str(row.pk), "--to", str(again))["files"] == 1


def test_refusals_of_the_command(home: Path, disk: Any, intern: Intern, tmp_path: Path) -> None:
    with pytest.raises(Refused, match="no such archive"):
        call_command("restore_intern_workspace", "--intern", str(intern.pk), "--to", "x")
    row = service.archive_workspace(intern, disk)
    restore = ("restore_intern_workspace", "--archive", str(row.pk))
    with pytest.raises(Refused, match="not an empty directory"):
        call_command(*restore, "--to", str(tmp_path))
    with pytest.raises(Refused, match="no such intern"):
        call_command(*restore, "--into", str(uuid.uuid4()))
    Intern.objects.filter(pk=intern.pk).update(status=Status.RUNNING)
    with pytest.raises(Refused, match="suspend it first"):
        call_command(*restore, "--into", str(intern.pk))
    path = home / "archives" / f"{intern.pk}.tar"
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(Refused, match="damaged"):
        call_command(*restore, "--to", str(tmp_path / "nowhere"))
    assert not (tmp_path / "nowhere").exists()


def test_onto_the_disk_of_another_intern(
    home: Path,
    disk: Any,
    intern: Intern,
    settings: Any,
    capsys: pytest.CaptureFixture[str],
    team: Team,
) -> None:
    settings.INTERN_RUNTIME = "process"
    row = service.archive_workspace(intern, disk)
    heir = team.intern("heir")
    said = restore(capsys, "--archive", str(row.pk), "--into", str(heir.pk))
    assert said["files"] == 1
    heir.refresh_from_db()
    assert heir.booted_at is not None
    found = list((home / "interns" / str(heir.pk)).rglob("notes"))
    assert [path.read_text() for path in found] == ["remember"]
