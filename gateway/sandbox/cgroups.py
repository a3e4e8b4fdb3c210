"""Bounds for a sandbox as a whole, where this process was given a part of the cgroup v2 tree.

The part is what systemd marks as delegated (`Delegate=yes`, with or without `DelegateSubgroup=`),
or the folder that SANDBOX_CGROUP names. Elsewhere a sandbox has the bounds of its processes alone.
"""

import errno
import logging
import os
import secrets
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from gateway.live_settings import settings

log = logging.getLogger("gateway.sandbox")

CONTROLLERS: Final = ("memory", "pids", "cpu")
_TREE: Final = Path("/sys/fs/cgroup")
_MARKS: Final = ("user.delegate", "trusted.delegate")
# A group cannot have both processes and controllers for its children, so ours go into this one.
_OURS, _SANDBOXES = "gateway", "sandboxes"
_PERIOD_US: Final = 100_000
# While the processes here are moved they may start others.
_ROUNDS: Final = 10
# Longer than a sandbox takes from its folder to its first process.
_UNUSED_S: Final = 60.0


@dataclass(frozen=True)
class Bounds:
    """What a sandbox may use as a whole; its folders in memory count as memory."""

    memory_bytes: int
    processes: int
    cpus: float

    def files(self) -> list[tuple[str, str]]:
        """Files of a group, in this order, and what is written into them."""
        return [
            ("memory.max", str(self.memory_bytes)),
            ("memory.swap.max", "0"),
            ("memory.oom.group", "1"),
            ("pids.max", str(self.processes)),
            ("cpu.max", f"{max(1000, round(self.cpus * _PERIOD_US))} {_PERIOD_US}"),
        ]


def new_group(bounds: Bounds) -> Path | None:
    """A folder of the tree for one sandbox, whose first process enters it; None where there is no
    delegated tree. Groups that sandboxes left empty are removed."""
    above = sandboxes()
    if above is None:
        return None
    try:
        # Only a group without processes can be removed, and what is old has had its first one.
        unused_since = time.time() - _UNUSED_S
        for old in above.iterdir():
            with suppress(OSError):
                if old.is_dir() and old.stat().st_mtime < unused_since:
                    old.rmdir()
        group = above / secrets.token_hex(8)
        group.mkdir()
        has = (above / "cgroup.subtree_control").read_text(encoding="ascii").split()
        for name, value in bounds.files():
            # Without swap there is no file for its bound.
            if name.partition(".")[0] in has and (group / name).exists():
                (group / name).write_text(value, encoding="ascii")
    except OSError as error:
        log.warning("A sandbox begins without bounds of its cgroup: %s", error)
        return None
    return group


@cache
def sandboxes() -> Path | None:
    """Where groups of sandboxes are made, with all controllers that there are."""
    given = settings.SANDBOX_CGROUP
    if given == "off":
        return None
    top = (
        _find_delegated_group(Path("/proc/self/cgroup"), _TREE) if given == "auto" else Path(given)
    )
    if top is None:
        return None
    try:
        return prepare_group(top)
    except OSError as error:
        log.warning("Sandboxes have no bounds by cgroup: %s", error)
        return None


def prepare_group(top: Path) -> Path:
    """The folder for sandboxes in a delegated one, made ready. Raises `OSError`."""
    if not (top / "cgroup.type").exists():
        # The root of the whole tree has none, and every process of the machine.
        raise OSError(errno.EINVAL, "no delegated group of cgroup v2", str(top))
    for name in (_OURS, _SANDBOXES):
        (top / name).mkdir(exist_ok=True)
    # All of them belong to this gateway, which this part of the tree was given to.
    for _ in range(_ROUNDS):
        for pid in (top / "cgroup.procs").read_text(encoding="ascii").split():
            with suppress(ProcessLookupError):
                (top / _OURS / "cgroup.procs").write_text(pid, encoding="ascii")
    for folder in (top, top / _SANDBOXES):
        there = (folder / "cgroup.controllers").read_text(encoding="ascii").split()
        wanted = [f"+{name}" for name in CONTROLLERS if name in there]
        (folder / "cgroup.subtree_control").write_text(" ".join(wanted), encoding="ascii")
    log.info("Sandboxes are bounded as a whole below %s", top)
    return top / _SANDBOXES


def _find_delegated_group(own: Path, tree: Path) -> Path | None:
    """The nearest group with the mark of delegation: this process's own or the one above."""
    with suppress(OSError):
        for line in own.read_text(encoding="ascii").splitlines():
            if line.startswith("0::/"):
                group = tree / line.removeprefix("0::/")
                return next((each for each in (group, group.parent) if _is_marked(each)), None)
    return None


def _is_marked(group: Path) -> bool:
    for name in _MARKS:
        with suppress(OSError):
            if os.getxattr(group, name) == b"1":
                return True
    return False
