"""The files that metrics of all processes stand in, below `GATEWAY_HOME/run/metrics`.

Each process writes numbers into files of its own, which it maps into memory. The process that
answers a scrape reads those of all. What a dead process counted is added to a file of the dead, or
totals would fall with every worker that goes.
"""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Final

import prometheus_client.values
from prometheus_client.mmap_dict import MmapedDict
from prometheus_client.values import MultiProcessValue

from gateway.live_settings import settings

_VARIABLE: Final = "PROMETHEUS_MULTIPROC_DIR"
_DEAD: Final = "dead"
_FIRST_BYTES: Final = 65_536
# More than any one number takes with its labels.
_ENTRY_BYTES: Final = 8_192
_LOOK_EVERY_S: Final = 5.0
OTHER: Final = "other"
VALUES_MAX: Final = 200


class AllocatedDict(MmapedDict):
    """A file of numbers whose blocks are there before they are mapped. The library's own has holes,
    and to write into a hole while the disk is full kills the process."""

    def __init__(self, filename: str, read_mode: bool = False) -> None:
        if not read_mode:
            with open(filename, "ab") as file:  # noqa: PTH123 - The library's own argument is a text.
                if file.tell() == 0:
                    os.posix_fallocate(file.fileno(), 0, _FIRST_BYTES)
        super().__init__(filename, read_mode)  # type: ignore[no-untyped-call]  # The library's files are untyped.

    def _init_value(self, key: str) -> None:
        while self._used + _ENTRY_BYTES > os.fstat(self._f.fileno()).st_size:
            os.posix_fallocate(self._f.fileno(), 0, 2 * os.fstat(self._f.fileno()).st_size)
        super()._init_value(key)  # type: ignore[no-untyped-call]  # As above.


def is_enabled() -> bool:
    """Whether anybody can read metrics; where nobody can, nothing is measured."""
    return bool(settings.METRICS_BIND or settings.METRICS_TOKEN)


@cache
def folder() -> Path:
    """That of the files, made at the first call."""
    path: Path = settings.GATEWAY_HOME / "run" / "metrics"
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    return path


@cache
def use_files() -> None:
    """Have the library write into files. Call before the first of its metrics is made."""
    os.environ[_VARIABLE] = str(folder())
    # It has no argument for it.
    setattr(prometheus_client.values, "MmapedDict", AllocatedDict)  # noqa: B010 - The module does not export it.
    prometheus_client.values.ValueClass = MultiProcessValue(_identify_process)  # type: ignore[no-untyped-call]  # As above.


_own: tuple[int, str] = (0, "")


def _identify_process() -> str:
    """The number and the start of this process: a number alone may be somebody else's later. Asked
    with every value that is written."""
    global _own
    pid = os.getpid()
    if pid != _own[0]:
        _own = (pid, f"{pid}-{_read_start(pid)}")
    return _own[1]


def _read_start(pid: int) -> str:
    """When a process began, in ticks since the machine did; "" where there is none. A system
    without `/proc` has "0" for all that live."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[19]
    except OSError:
        if Path("/proc/self").exists():
            return ""
    try:
        os.kill(pid, 0)
    except OSError:
        return ""
    return "0"


@contextmanager
def lock_folder(*, shared: bool = False, wait: bool = True) -> Iterator[bool]:
    """The lock on all files: `shared` to read them, else to move numbers between them. False where
    somebody has it and it is not waited for."""
    with (folder() / "lock").open("a") as file:
        how = (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB)
        try:
            fcntl.flock(file, how)
        except BlockingIOError:
            yield False
        else:
            yield True


def _is_alive(path: Path) -> bool:
    """Whether the process lives whose file that is; the dead's is nobody's."""
    pid, _, start = path.stem.rpartition("_")[2].partition("-")
    return pid != _DEAD and _read_start(int(pid)) == start


_looked_at = 0.0


def list_files() -> list[str]:
    return [str(path) for path in folder().glob("*.db")]


def sweep_dead_processes(*, at_once: bool = False) -> None:
    """Remove the files of processes that are gone, at most every five seconds. Does nothing while
    somebody else reads the files or does the same."""
    global _looked_at
    is_early = time.monotonic() - _looked_at < _LOOK_EVERY_S
    if not is_enabled() or (is_early and not at_once):
        return
    _looked_at = time.monotonic()
    with lock_folder(wait=False) as is_ours:
        if is_ours:
            for path in sorted(folder().glob("*.db")):
                kind, _, process = path.stem.rpartition("_")
                if process != _DEAD and not _is_alive(path):
                    _bury(path, kind)


def begin_anew() -> None:
    """Remove what former runs counted and the values of labels that they met, which would take the
    place of today's. Does nothing while a process lives that counts; call before the first does."""
    if not is_enabled():
        return
    with lock_folder() as _:
        numbers = list(folder().glob("*.db"))
        if not any(_is_alive(path) for path in numbers):
            for path in (*numbers, *folder().glob("*.values")):
                path.unlink(missing_ok=True)


def leave() -> None:
    """Remove this process's files; call it last, when it counts no more."""
    with lock_folder() as _:
        for path in folder().glob(f"*_{_identify_process()}.db"):
            _bury(path, path.stem.rpartition("_")[0])


def _bury(path: Path, kind: str) -> None:
    """Add the numbers of a file to those of the dead, and remove it. `kind` is `counter`,
    `histogram`, or `gauge_` with how its numbers go together."""
    if not kind.startswith("gauge_live"):
        # A process that was killed while it made the file has left something unreadable.
        with suppress(RuntimeError, ValueError, IndexError, UnicodeDecodeError):
            numbers = list(MmapedDict.read_all_values_from_file(str(path)))  # type: ignore[no-untyped-call]  # As above.
            dead = AllocatedDict(str(folder() / f"{kind}_{_DEAD}.db"))
            try:
                for key, value, at, _ in numbers:
                    old, old_at = dead.read_value(key)  # type: ignore[no-untyped-call]  # As above.
                    if not kind.startswith("gauge_"):
                        dead.write_value(key, old + value, 0.0)  # type: ignore[no-untyped-call]  # As above.
                    elif at >= old_at:
                        dead.write_value(key, value, at)  # type: ignore[no-untyped-call]  # As above.
            finally:
                dead.close()  # type: ignore[no-untyped-call]  # As above.
    path.unlink(missing_ok=True)


class LabelValues:
    """Values of a label that grow with what a gateway serves. Each of them makes series of its own.
    So only the first 200 over all processes are kept apart, in a file that these share; all others
    are `other`."""

    def __init__(self, label: str, *, most: int = VALUES_MAX) -> None:
        self._label = label
        self._most = most
        self._values: set[str] = set()

    def limit(self, value: str) -> str:
        """The value, or `other` where there are too many."""
        if value in self._values:
            return value
        if len(self._values) >= self._most:
            return OTHER
        with (folder() / f"{self._label}.values").open("a+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            self._values = set(file.read().split("\n")) - {""}
            if value not in self._values and len(self._values) < self._most and "\n" not in value:
                file.write(f"{value}\n")
                self._values.add(value)
        return value if value in self._values else OTHER
