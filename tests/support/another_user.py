"""Commands as a user of the machine who is not the one that runs the tests."""

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from gateway.sandbox.isolation import bind
from tests.support.manage import PROJECT

# Nobody's, not of the range that a root gateway gives away, and another one in each test process.
USER = 1_800_000_000 + os.getpid()


def with_python() -> list[str]:
    """Words before a command: every user finds Python and the project wherever they are, below
    root's own folder say."""
    words = [str(shutil.which("bwrap")), "--die-with-parent", "--dev-bind", "/", "/"]
    hidden = set()
    for place in {Path(sys.base_prefix), Path(sys.prefix).resolve(), PROJECT}:
        closed = [each for each in place.parents if not each.stat().st_mode & 0o001]
        if closed and closed[-1] not in hidden:
            hidden.add(closed[-1])
            words += ["--perms", "0755", "--tmpfs", str(closed[-1])]
        words += bind(place, place) if closed else []
    return words


def as_user() -> list[str]:
    """Words before a command that make it `USER`'s."""
    return [*with_python(), "setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups"]


def processes_of(uid: int) -> Iterator[int]:
    """Every living process of that user."""
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and entry.stat().st_uid == uid:
                yield int(entry.name)
        except FileNotFoundError:
            continue
