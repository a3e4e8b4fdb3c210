"""An intern's folder on this machine.

    <GATEWAY_HOME>/interns/<id>/disk/workspace   what its tools see
    <GATEWAY_HOME>/interns/<id>/disk/sessions    its conversations
    <GATEWAY_HOME>/interns/<id>/run/             sockets and facts of the boot that runs

A runtime may have put anything on its disk, so nothing here follows a symbolic link.
"""

import os
import shutil
from pathlib import Path
from uuid import UUID

from django.conf import settings

from gateway.home import private_folder

PARTS = ("workspace", "sessions")


def interns_folder() -> Path:
    place: Path = settings.GATEWAY_HOME
    return place / "interns"


def folder_of(intern_id: UUID) -> Path:
    return interns_folder() / str(intern_id)


def disk_of(intern_id: UUID) -> Path:
    return folder_of(intern_id) / "disk"


def make_folder(intern_id: UUID) -> Path:
    """The intern's folder, made where there is none. Raises `OSError`."""
    private_folder(interns_folder())
    return private_folder(folder_of(intern_id))


def make_disk(intern_id: UUID) -> Path:
    """The intern's disk, made where there is none. Raises `OSError`."""
    make_folder(intern_id)
    disk = private_folder(disk_of(intern_id))
    for part in PARTS:
        private_folder(disk / part)
    return disk


def remove_folder(intern_id: UUID) -> None:
    """Remove everything of the intern. Raises `OSError`."""
    folder = folder_of(intern_id)
    try:
        shutil.rmtree(folder)
    except FileNotFoundError:
        return
    except PermissionError:
        # A command may have taken its own rights away.
        _give_rights(folder)
        shutil.rmtree(folder)


def _give_rights(folder: Path) -> None:
    folder.chmod(0o700)
    for entry in os.scandir(folder):
        if entry.is_dir(follow_symlinks=False):
            _give_rights(Path(entry.path))
