"""Users of the host that a gateway running as root gives to what it does not trust.

They come from the range SANDBOX_UIDS, need no entry anywhere and own nothing else. The range's
first half is for interns, who keep theirs as owners of their disks; the second half is lent.
"""

import errno
import fcntl
import json
import os
import sys
import zlib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from gateway.home import private_folder
from gateway.live_settings import settings
from gateway.sandbox import unprivileged

_MAPS: Final = ("/proc/self/uid_map", "/proc/self/gid_map")


class NoUser(OSError):
    """There is no such user to be had; `strerror` says why, in one line."""

    def __init__(self, why: str) -> None:
        super().__init__(errno.EAGAIN, why)


def is_root() -> bool:
    """Whether what this process starts would have root's rights."""
    return os.geteuid() == 0


def list_intern_users() -> range:
    """Users that interns may be given."""
    every: range = settings.SANDBOX_UIDS
    return every[: len(every) // 2]


def find_trial_user() -> int | None:
    """The user of a sandbox that is only tried and holds nothing."""
    return settings.SANDBOX_UIDS[-1] if is_root() else None


def explain_missing_users(every: range) -> str:
    """Why a root gateway cannot give these users away, as one line; empty where it can."""
    for place in _MAPS:
        with suppress(FileNotFoundError):
            is_there = False
            for line in Path(place).read_text(encoding="ascii").splitlines():
                # One line of the kernel's map of users has to have all of the range.
                first, _, count = map(int, line.split())
                is_there |= first <= every[0] and every[-1] < first + count
            if not is_there:
                return (
                    f"SANDBOX_UIDS {every[0]}-{every[-1]} is outside of {place}:"
                    " name users that this container has, or do not run the gateway as root"
                )
    return ""


class Lease:
    """A user for one program or sandbox, until it is closed or this process ends."""

    def __init__(self) -> None:
        """Raises `NoUser`."""
        if why := explain_missing_users(settings.SANDBOX_UIDS):
            raise NoUser(why)
        folder = private_folder(Path(settings.GATEWAY_HOME) / "run" / "users")
        # But for the last one, which is for trials.
        lent: range = settings.SANDBOX_UIDS[len(list_intern_users()) : -1]
        # Each home begins elsewhere: gateways of one machine share the range.
        start = zlib.crc32(os.fsencode(folder)) % len(lent)
        for step in range(len(lent)):
            self.uid = lent[(start + step) % len(lent)]
            self._file = (folder / str(self.uid)).open("w")
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self._file.close()
            else:
                return
        raise NoUser("all users of SANDBOX_UIDS are in use")

    def close(self) -> None:
        self._file.close()


def lease() -> Lease | None:
    """One where the gateway is root; None where nothing is to be given up. Raises `NoUser`."""
    return Lease() if is_root() else None


def script_command(script: Sequence[str], packages: Sequence[str], user: Lease | None) -> list[str]:
    """The command of a Python script of ours that reads what anybody sent. `packages` are
    those that it loads late, when it can perhaps no longer read them."""
    if user is None:
        return [sys.executable, "-I", *script]
    wrapper = str(Path(unprivileged.__file__).resolve())
    names = json.dumps(list(packages))
    return [sys.executable, "-I", wrapper, "script", str(user.uid), names, *script]
