"""One restore by an operator at a time onto an intern's disk, and no boot meanwhile.

A lock of the machine that has the disk: it goes with the process, however that ends. A lease cannot
do it, because no intern at rest has one.
"""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID

from django.conf import settings

from gateway.home import private_folder
from interns.runtime.driver import ArchiveFailed


@contextmanager
def hold_restore(intern_id: UUID) -> Iterator[None]:
    """Raises `ArchiveFailed` where another restore is under way."""
    private_folder(_lock_path(intern_id).parent.parent)
    private_folder(_lock_path(intern_id).parent)
    with _lock_path(intern_id).open("ab") as file:
        _try_lock(file.fileno(), fcntl.LOCK_EX)
        yield


def refuse_restore(intern_id: UUID) -> None:
    """Raises `ArchiveFailed` while a restore is under way.

    The operation that holds the intern need not ask again: a restore begins on interns at rest
    alone.
    """
    try:
        with _lock_path(intern_id).open("rb") as file:
            _try_lock(file.fileno(), fcntl.LOCK_SH)
    except (FileNotFoundError, NotADirectoryError):
        return


def _try_lock(handle: int, kind: int) -> None:
    try:
        fcntl.flock(handle, kind | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise ArchiveFailed("an operator is restoring an archive onto its disk") from error


def _lock_path(intern_id: UUID) -> Path:
    return Path(settings.GATEWAY_HOME) / "archives" / "restores" / f"{intern_id}.lock"
