"""An intern's folder on this machine.

    <GATEWAY_HOME>/interns/<id>/disk/workspace   what its tools see
    <GATEWAY_HOME>/interns/<id>/disk/sessions    its conversations
    <GATEWAY_HOME>/interns/<id>/run/             sockets and facts of the boot that runs

A runtime may have put anything on its disk, so nothing here follows a symbolic link.
"""

import fcntl
import os
import random
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple
from uuid import UUID

from django.conf import settings

from gateway.home import private_folder
from gateway.sandbox import host_users

_COUNTED_MAX: Final = 20_000
PARTS = ("workspace", "sessions")


def interns_folder() -> Path:
    place: Path = settings.GATEWAY_HOME
    return place / "interns"


def intern_folder(intern_id: UUID) -> Path:
    return interns_folder() / str(intern_id)


def disk_folder(intern_id: UUID) -> Path:
    return intern_folder(intern_id) / "disk"


def make_folder(intern_id: UUID) -> Path:
    """The intern's folder, made where there is none. Raises `OSError`."""
    private_folder(interns_folder())
    return private_folder(intern_folder(intern_id))


def make_disk(intern_id: UUID) -> Path:
    """The intern's disk, made where there is none. Raises `OSError`."""
    make_folder(intern_id)
    disk = private_folder(disk_folder(intern_id))
    for part in PARTS:
        private_folder(disk / part)
    return disk


class DiskUse(NamedTuple):
    """What is on a disk; `is_whole` is false where there are more files than were counted."""

    bytes: int
    files: int
    is_whole: bool


def measure_disk(intern_id: UUID) -> DiskUse | None:
    """What the intern's disk holds on this machine; None where it has none here."""
    if not disk_folder(intern_id).is_dir():
        return None
    size = files = 0
    for _, _, names, descriptor in os.fwalk(disk_folder(intern_id), follow_symlinks=False):
        for name in names:
            with suppress(OSError):
                size += os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_size
            files += 1
        if files > _COUNTED_MAX:
            return DiskUse(size, files, False)
    return DiskUse(size, files, True)


def assign_owner(intern_id: UUID) -> int | None:
    """Under a root gateway the intern's own user of the host, who owns all of its disk; else None.

    The owner is the record. Raises `OSError`.
    """
    if not host_users.is_root():
        return None
    users = host_users.list_intern_users()
    run = private_folder(settings.GATEWAY_HOME / "run")
    with (run / "interns-users.lock").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        uid = disk_folder(intern_id).lstat().st_uid
        if uid not in users:
            taken = set()
            for folder in interns_folder().iterdir():
                with suppress(OSError):
                    taken.add((folder / "disk").lstat().st_uid)
            # Not the first: gateways of one machine share the range, each with interns of its own.
            shuffled = random.sample(users, len(users))
            uid = next((each for each in shuffled if each not in taken), 0)
            if not uid:
                raise host_users.NoUser("all users of SANDBOX_UIDS have an intern")
            os.chown(disk_folder(intern_id), uid, uid)
    # An archive that was put back, or a disk of a gateway that gave no users, belongs to root.
    for _, folders, files, descriptor in os.fwalk(disk_folder(intern_id), follow_symlinks=False):
        for name in (*folders, *files):
            if os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_uid != uid:
                os.chown(name, uid, uid, dir_fd=descriptor, follow_symlinks=False)
    return uid


def remove_folder(intern_id: UUID) -> None:
    """Remove everything of the intern. Raises `OSError`."""
    folder = intern_folder(intern_id)
    try:
        shutil.rmtree(folder)
    except FileNotFoundError:
        return
    except PermissionError:
        # A command may have taken its own rights away.
        _grant_rights(folder)
        shutil.rmtree(folder)


def _grant_rights(folder: Path) -> None:
    folder.chmod(0o700)
    for entry in os.scandir(folder):
        if entry.is_dir(follow_symlinks=False):
            _grant_rights(Path(entry.path))
