"""Archives of interns that stopped on this machine, so that any other can boot them, and the end of
what destroyed interns left here."""

import fcntl
import logging
from pathlib import Path
from uuid import UUID

from django.conf import settings

from gateway.database.db import release_connection
from gateway.home import private_folder
from interns import hosts
from interns.archives.service import (
    WITHOUT_RUNTIME,
    archive_stopped,
    delete_abandoned_spools,
    exclude_archived,
)
from interns.machine import MoveRule
from interns.models import Intern, InternTransition
from interns.runtime import disk
from interns.runtime.driver import Driver, NoDisk, RuntimeFailed

log = logging.getLogger("gateway.interns")


def list_unarchived(host: str) -> list[Intern]:
    """Interns that are stopped, and whose disk is only on that machine."""
    rows = Intern.objects.filter(
        disk_host=host, status__in=WITHOUT_RUNTIME, booted_at__isnull=False, boot_id__isnull=False
    )
    return list(exclude_archived(rows).select_related("workspace").order_by("status_since"))


def archive_disks(driver: Driver) -> int:
    """Archive one disk after the other until none is left; how many were. One process of this
    machine does it at a time, the others leave it to that one."""
    if hosts.is_impostor() or not hosts.keeps_archives():
        return 0
    folder = private_folder(Path(settings.GATEWAY_HOME) / "archives")
    with (folder / "archiving.lock").open("w") as turn:
        try:
            fcntl.flock(turn, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return 0
        delete_abandoned_spools()
        return _archive_all(driver)


def _archive_all(driver: Driver) -> int:
    """Also those that stop meanwhile: their own messages found the turn taken."""
    tried: set[tuple[UUID, UUID | None]] = set()
    done = 0
    while True:
        found = list_unarchived(settings.INTERN_HOST)
        fresh = [each for each in found if (each.pk, each.boot_id) not in tried]
        if not fresh:
            return done
        for intern in fresh:
            tried.add((intern.pk, intern.boot_id))
            done += _archive(intern, driver)


def _archive(intern: Intern, driver: Driver) -> bool:
    release_connection()
    try:
        # One that failed may have left something running.
        driver.stop(intern.pk, boot_id=intern.boot_id)
        row = archive_stopped(intern, driver)
    except NoDisk:
        return False
    except RuntimeFailed as failure:
        log.error("The disk of intern %s is not archived: %s", intern.pk, failure)
        return False
    return row is not None


def remove_destroyed(driver: Driver) -> int:
    """Remove disks of interns that were destroyed while they lived on another machine; how many.
    One without any history row is not touched: the database may be another one than it was."""
    count = 0
    root = disk.interns_folder()
    for name in [each.name for each in root.iterdir()] if root.is_dir() else []:
        try:
            intern_id = UUID(name)
        except ValueError:
            continue
        if Intern.objects.filter(pk=intern_id).exists():
            continue
        if InternTransition.objects.filter(intern_id=intern_id, rule=MoveRule.GONE).exists():
            try:
                driver.destroy(intern_id)
            except RuntimeFailed as failure:
                log.error("What is left of intern %s is not removed: %s", intern_id, failure)
            else:
                count += 1
    return count
