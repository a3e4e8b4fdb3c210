"""Which workers of which gunicorn master accept connections, in files below GATEWAY_HOME/run/web:
with a shared socket nobody can ask one master over HTTP."""

import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Final

from gateway.home import home, private_folder

_WORKERS: Final = "workers"


class MasterGone(Exception):
    """The process that was waited for has ended. The text says so."""


def begin_master(workers: int) -> None:
    """In a master that is about to fork that many; what dead masters left is swept."""
    for folder in _root().iterdir():
        if folder.name == str(os.getpid()) or not _is_alive(int(folder.name)):
            shutil.rmtree(folder, ignore_errors=True)
    (private_folder(_root() / str(os.getpid())) / _WORKERS).write_text(str(workers))


def end_master() -> None:
    shutil.rmtree(_root() / str(os.getpid()), ignore_errors=True)


def note_accepting() -> None:
    """In a worker, once it accepts. Its master is its parent."""
    # A master that is ending has taken its folder away.
    with suppress(OSError):
        (_root() / str(os.getppid()) / str(os.getpid())).touch()


def forget_worker(pid: int) -> None:
    """In the master, once that worker has ended."""
    (_root() / str(os.getpid()) / str(pid)).unlink(missing_ok=True)


def count_missing_workers(master: int) -> int:
    """How many workers of that master do not accept yet; 1 while it has not begun to fork.

    Raises `MasterGone`.
    """
    if not _is_alive(master):
        raise MasterGone(f"There is no process {master}.")
    folder = _root() / str(master)
    try:
        wanted = int((folder / _WORKERS).read_text())
        accepting = [each for each in folder.iterdir() if each.name != _WORKERS]
    except (FileNotFoundError, ValueError):
        return 1
    return max(0, wanted - sum(_is_alive(int(each.name)) for each in accepting))


def _root() -> Path:
    return private_folder(home() / "run" / "web")


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
