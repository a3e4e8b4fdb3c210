"""restore_intern_workspace: an archive's files, in a directory or on another intern's disk."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, Final
from uuid import UUID, uuid4

from django.conf import settings
from django.core.management.base import CommandParser

from gateway.commands import JsonCommand, Refused
from gateway.http.jsonio import JsonObject
from interns.archives import store
from interns.archives.restore_lock import hold_restore
from interns.archives.service import find_damage, latest_archive
from interns.models import Intern, Status, WorkspaceArchive
from interns.runtime.disk_archive import unpack
from interns.runtime.driver import RuntimeFailed, current_driver

_WITHOUT_RUNTIME: Final = (Status.AWAITING_SLACK_INSTALL, Status.FAILED, Status.STOPPED)
_SKIPPED_SHOWN: Final = 20


class Command(JsonCommand):
    help = (
        "Check the archive of a destroyed intern's disk and put its files into a new directory, or "
        "onto the disk of an intern that is not running."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        which = parser.add_mutually_exclusive_group(required=True)
        which.add_argument("--archive", type=UUID, help="id of the archive")
        which.add_argument("--intern", type=UUID, help="id of the intern that it is of")
        place = parser.add_mutually_exclusive_group(required=True)
        place.add_argument("--to", type=Path, help="a directory that is empty or not there yet")
        place.add_argument("--into", type=UUID, help="id of an intern without a runtime")

    def run(self, **options: Any) -> tuple[JsonObject, int]:
        row = _find_archive(options["archive"], options["intern"])
        put = _onto_disk(options["into"]) if options["into"] else _into_folder(options["to"])
        problem = find_damage(row)
        if problem:
            raise Refused(f"The archive {row.pk} is damaged: {problem}")
        try:
            with store.open_archive(row.uri) as file:
                result = put(file)
        except (OSError, ValueError, RuntimeFailed) as error:
            raise Refused(f"It cannot be restored: {error}") from error
        return {"archive_id": str(row.pk), "intern_name": row.intern_name, **result}, 0


def _find_archive(archive_id: UUID | None, intern_id: UUID | None) -> WorkspaceArchive:
    if archive_id is not None:
        found = WorkspaceArchive.objects.filter(pk=archive_id).first()
    else:
        assert intern_id is not None, "one of the two is required"
        found = latest_archive(intern_id)
    if found is None:
        raise Refused("There is no such archive")
    return found


def _into_folder(folder: Path) -> Callable[[BinaryIO], JsonObject]:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise Refused(f"{folder} is not an empty directory")

    def put(file: BinaryIO) -> JsonObject:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        done = unpack(file, folder)
        return {
            "files": done.files,
            "skipped": len(done.skipped),
            "skipped_names": done.skipped[:_SKIPPED_SHOWN],
            "to": str(folder),
        }

    return put


def _onto_disk(intern_id: UUID) -> Callable[[BinaryIO], JsonObject]:
    _find_target(intern_id)

    def put(file: BinaryIO) -> JsonObject:
        with hold_restore(intern_id):
            return {"files": _restore(intern_id, file), "into": str(intern_id)}

    return put


def _find_target(intern_id: UUID) -> Intern:
    row = Intern.objects.filter(pk=intern_id).first()
    if row is None:
        raise Refused("There is no such intern")
    if row.status not in _WITHOUT_RUNTIME or row.lease_id is not None:
        raise Refused(f"The intern is {row.status}: suspend it first")
    if row.booted_at is not None and row.disk_host != settings.INTERN_HOST:
        raise Refused(f"Its disk is on {row.disk_host}: run this command there")
    return row


def _restore(intern_id: UUID, file: BinaryIO) -> int:
    """How many files were put onto the disk. From the claim on, no boot begins on this machine."""
    # As it is by now: reading the archive may have taken minutes.
    row, driver = _find_target(intern_id), current_driver()
    is_partial = row.is_disk_partial or not driver.has_disk(intern_id)
    # As a boot does, it names itself: an archive that is read meanwhile does not hold the disk.
    claim = uuid4()
    at_rest = Intern.objects.filter(
        pk=intern_id,
        status__in=_WITHOUT_RUNTIME,
        lease_id=None,
        boot_id=row.boot_id,
        is_disk_partial=row.is_disk_partial,
    )
    if not at_rest.update(is_disk_partial=is_partial, boot_id=claim):
        raise Refused("The intern was begun to be booted meanwhile: nothing was restored")
    # A boot that was begun and refused meanwhile leaves the disk as it is; one elsewhere does not.
    mine = Intern.objects.filter(pk=intern_id, boot_id=claim)
    if row.is_disk_partial:
        # Nothing is written over files, and an attempt that was killed left some.
        driver.destroy(intern_id)
    try:
        files = driver.restore(intern_id, file)
    except BaseException:
        if is_partial:
            # Else no boot could do anything with what is there. A restored one begins anew.
            driver.destroy(intern_id)
            mine.update(is_disk_partial=latest_archive(intern_id) is not None)
        raise
    # From now on there are files, which its teardown has to keep and no archive holds.
    mine.filter(booted_at__isnull=True).update(
        booted_at=datetime.now(UTC), host=settings.INTERN_HOST, disk_host=settings.INTERN_HOST
    )
    if not mine.update(is_disk_partial=False, boot_id=uuid4()):
        raise Refused("The intern was booted on another machine meanwhile, without these files")
    return files
