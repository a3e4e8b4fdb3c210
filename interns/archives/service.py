"""Archives of interns' disks. A teardown makes one and reads it back before anything is removed; a
stop makes one so that another machine can boot the intern. Operators add some. They are deleted
after `INTERN_ARCHIVE_DAYS`."""

import fcntl
import logging
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet

from accounts.services.records import Actor, command_actor, read_fields, record_row
from gateway.home import private_folder
from interns.archives import store
from interns.archives.store import StoreTimedOut, run_with_limit
from interns.models import Intern, Status, WorkspaceArchive
from interns.runtime.driver import ArchiveFailed, Driver, NoDisk, RuntimeFailed

_record: Final = partial(record_row, "workspace_archive")

log = logging.getLogger("gateway.interns")
_FACTS: Final = ("intern_id", "intern_name", "uri", "sha256", "bytes", "source", "expires_at")
Source = WorkspaceArchive.Source
WITHOUT_RUNTIME: Final = (Status.STOPPED, Status.FAILED)
_BATCH: Final = 100
# A file is made a moment before it is locked.
_LEFT_OVER_S: Final = 60.0


class KeptFile(NamedTuple):
    """A disk in the store, read back and compared."""

    uri: str
    sha256: str
    bytes: int
    files: int


class ArchiveNotExpected(ValueError):
    """The intern's teardown does not wait for an archive."""


def has_archive(intern: Intern) -> bool:
    """Whether its disk is kept as it is."""
    return find_current_archive(intern) is not None


def find_current_archive(intern: Intern) -> WorkspaceArchive | None:
    """The archive that holds the intern's disk as it is, None where there is none.

    After a teardown nothing boots, so its archive is never older than the disk. One that was made
    while the intern was stopped holds the disk until it boots again. A partial disk has nothing
    beyond the archive that is put onto it.
    """
    if intern.is_disk_partial:
        return latest_archive(intern.pk)
    rows = WorkspaceArchive.objects.filter(_holds_boot(intern.boot_id), intern_id=intern.pk)
    return rows.order_by("-created_at").first()


def exclude_archived(interns: QuerySet[Intern]) -> QuerySet[Intern]:
    """Those with a whole disk that no archive holds as it is."""
    current = WorkspaceArchive.objects.filter(
        _holds_boot(OuterRef("boot_id")), intern_id=OuterRef("pk")
    )
    return interns.filter(~Exists(current), is_disk_partial=False)


def _holds_boot(boot_id: UUID | OuterRef | None) -> Q:
    return ~Q(source=Source.STOPPED) | Q(source=Source.STOPPED, boot_id=boot_id)


def archive_workspace(
    intern: Intern, driver: Driver, *, alive: Callable[[], None] = lambda: None
) -> WorkspaceArchive:
    """Keep the disk of an intern that is taken down. What is kept already is not made again, but
    kept as long as if it were new. Raises as `keep_disk` does."""
    existing = find_current_archive(intern)
    if existing is None:
        if intern.is_disk_partial:
            raise NoDisk
        return _insert_row(intern, keep_disk(intern, driver, f"{intern.pk}.tar", alive=alive))
    existing.expires_at = datetime.now(UTC) + timedelta(days=settings.INTERN_ARCHIVE_DAYS)
    existing.save(update_fields=["expires_at"])
    return existing


def archive_stopped(intern: Intern, driver: Driver) -> WorkspaceArchive | None:
    """Keep the disk of an intern that is stopped, without holding it. None where a boot or a
    restore began meanwhile, which makes what was read worthless. Raises as `keep_disk` does.

    A disk changes only under a runtime, and a boot names itself in the row before there is one.
    """
    existing = find_current_archive(intern)
    if existing is not None:
        return existing
    kept = keep_disk(intern, driver, f"{intern.pk}-{intern.boot_id}.tar")
    with transaction.atomic():
        rows = Intern.objects.select_for_update(no_key=True).filter(pk=intern.pk)
        as_read = rows.filter(boot_id=intern.boot_id, status__in=WITHOUT_RUNTIME)
        if as_read.filter(is_disk_partial=False).first() is None:
            row = None
        else:
            row = _insert_row(intern, kept, source=Source.STOPPED)
    if row is None:
        with suppress(*store.read_errors()):
            store.archive_storage().delete(store.parse_name(kept.uri))
        return None
    earlier = WorkspaceArchive.objects.filter(intern_id=intern.pk, source=Source.STOPPED)
    for old in earlier.exclude(pk=row.pk):
        if old.uri != row.uri:
            delete_archive(old, by=command_actor("archive stopped interns"))
    return row


def keep_disk(
    intern: Intern, driver: Driver, name: str, *, alive: Callable[[], None] = lambda: None
) -> KeptFile:
    """Store the intern's disk under a name and read it back, to be sure.

    The runtime is stopped, so every attempt keeps the same bytes, one that was given up and ends
    late too. Takes as long as the disk is large, outside of any transaction, the store at most
    `INTERN_ARCHIVE_SECONDS`; `alive` is called now and then. Raises `ArchiveFailed`, and then
    nothing was removed.
    """
    try:
        with _make_spool() as (file, path):
            files = driver.archive(intern.pk, file)
            file.flush()
            file.seek(0)
            sha256, size = store.compute_digest(file, alive)
            file.seek(0)
            store_it = partial(_store_and_read_back, name, file, path)
            uri, *found = run_with_limit(store_it, settings.INTERN_ARCHIVE_SECONDS, alive)
    except StoreTimedOut as error:
        raise ArchiveFailed(f"the archive could not be kept: {error}") from error
    except store.store_errors() as error:
        # Its own words may name places of this machine, and are for the log.
        why = getattr(error, "strerror", None) or "the store failed"
        raise ArchiveFailed(f"the archive could not be kept: {why}") from error
    if found != [sha256, size]:
        raise ArchiveFailed("the archive read back is not what was written")
    return KeptFile(uri, sha256, size, files)


def restore_workspace(
    intern: Intern, driver: Driver, *, alive: Callable[[], None] = lambda: None
) -> WorkspaceArchive:
    """Put the newest archive of the intern on its disk here, in place of what is there; it has no
    runtime here. `alive` is called now and then. Raises `ArchiveFailed`."""
    row = latest_archive(intern.pk)
    if row is None:
        why = f"its disk is on {intern.disk_host}, and no archive of it is kept"
        if intern.disk_host == settings.INTERN_HOST:
            why = "its disk is gone, and no archive of it is kept"
        raise ArchiveFailed(why)
    try:
        with _make_spool() as (file, _):
            fetch = partial(store.fetch_archive, row.uri, file)
            found = run_with_limit(fetch, settings.INTERN_ARCHIVE_SECONDS, alive)
            if found != (row.sha256, row.bytes):
                raise ArchiveFailed("the archive's bytes are not those that were kept")
            # What a former stay left here is older, and nothing is written over files.
            driver.destroy(intern.pk)
            file.seek(0)
            _restore_or_destroy(intern.pk, driver, file)
    except StoreTimedOut as error:
        raise ArchiveFailed(f"the archive could not be fetched: {error}") from error
    except store.read_errors() as error:
        why = getattr(error, "strerror", None) or "the store failed"
        raise ArchiveFailed(f"the archive could not be fetched: {why}") from error
    return row


def _restore_or_destroy(intern_id: UUID, driver: Driver, file: BinaryIO) -> None:
    """The next boot would take a disk that was filled in part for a whole one."""
    try:
        driver.restore(intern_id, file)
    except Exception:
        try:
            driver.destroy(intern_id)
        except RuntimeFailed as error:
            log.error("Intern %s: what was restored in part stays: %s", intern_id, error)
        raise


def add_archive(*, intern: Intern, uri: str, sha256: str, size: int, by: Actor) -> WorkspaceArchive:
    """Note an archive that an operator made; teardown goes on as if it had made it.

    Raises `ArchiveNotExpected` for an intern whose disk may still change.
    """
    if intern.status != Status.DESTROY_FAILED:
        raise ArchiveNotExpected("only an intern whose teardown failed takes an archive by hand")
    with transaction.atomic():
        row = _insert_row(intern, KeptFile(uri, sha256, size, 0), source=Source.OPERATOR)
        _record(by, "created", row, None, read_fields(row, _FACTS))
    return row


def delete_expired_archives(now: datetime) -> int:
    """Remove archives whose time is over, those of interns that are still there excepted; how many.
    What the store does not let go of is tried again the next time."""
    living = Intern.objects.values("pk")
    over = WorkspaceArchive.objects.filter(expires_at__lte=now).exclude(intern_id__in=living)
    done = 0
    for row in over.order_by("expires_at")[:_BATCH]:
        done += delete_archive(row, by=command_actor("forget_archives"))
    return done


def delete_archive(row: WorkspaceArchive, *, by: Actor) -> bool:
    """Remove one from the store, where it is in the store, and its row."""
    try:
        store.archive_storage().delete(store.parse_name(row.uri))
    except store.UnknownPlace:
        pass  # An operator's own file is the operator's to remove.
    except store.store_errors() as error:
        log.warning("The archive %s cannot be removed: %s", row.pk, _error_text(error))
        return False
    with transaction.atomic():
        _record(by, "deleted", row, read_fields(row, _FACTS), None)
        WorkspaceArchive.objects.filter(pk=row.pk).delete()
    return True


def find_damage(row: WorkspaceArchive, alive: Callable[[], None] = lambda: None) -> str:
    """What is wrong with what is kept; "" where nothing is."""
    try:
        with store.open_archive(row.uri) as kept:
            found = store.compute_digest(kept, alive)
    except store.read_errors() as error:
        return f"it cannot be read: {_error_text(error)}"
    return "" if found == (row.sha256, row.bytes) else "its bytes are not those that were kept"


@contextmanager
def _make_spool() -> Iterator[tuple[BinaryIO, str]]:
    """A file beside where local archives lie, so that moving there is no second copy."""
    private_folder(_spool_folder().parent)
    handle, path = tempfile.mkstemp(dir=private_folder(_spool_folder()), suffix=".tar")
    try:
        with os.fdopen(handle, "w+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield file, path
    finally:
        with suppress(FileNotFoundError):
            Path(path).unlink()


def delete_abandoned_spools() -> int:
    """Remove what workers that were killed had packed so far: nobody holds its lock. How many."""
    count = 0
    for path in _spool_folder().glob("*.tar"):
        # One that cannot be locked is in use, or has just been moved to where it is kept.
        with suppress(OSError), path.open("rb") as file:
            if time.time() - os.fstat(file.fileno()).st_mtime < _LEFT_OVER_S:
                continue
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()
            count += 1
    return count


def _spool_folder() -> Path:
    return Path(settings.GATEWAY_HOME) / "archives" / "partial"


def _store_and_read_back(name: str, file: BinaryIO, path: str) -> tuple[str, str, int]:
    """Store the file and read it back: its URI, the SHA-256 of what is there, and its bytes."""
    uri = store.save_archive(name, file, path)
    with store.open_archive(uri) as kept:
        return uri, *store.compute_digest(kept)


def _insert_row(
    intern: Intern, kept: KeptFile, *, source: str = Source.TEARDOWN
) -> WorkspaceArchive:
    now = datetime.now(UTC)
    return WorkspaceArchive.objects.create(
        intern_id=intern.pk,
        intern_name=intern.name,
        account_id=intern.workspace.account_id,
        workspace_id=intern.workspace_id,
        uri=kept.uri,
        sha256=kept.sha256,
        bytes=kept.bytes,
        files=kept.files,
        source=source,
        boot_id=intern.boot_id if source == Source.STOPPED else None,
        created_at=now,
        expires_at=now + timedelta(days=settings.INTERN_ARCHIVE_DAYS),
    )


def _error_text(error: Exception) -> str:
    """Its sentence, without more than a failure message may hold."""
    return (str(error) or type(error).__name__)[:300]


def latest_archive(intern_id: UUID) -> WorkspaceArchive | None:
    """The newest of that intern."""
    return WorkspaceArchive.objects.filter(intern_id=intern_id).order_by("-created_at").first()
