"""A program of ours beside the process that serves. Both speak in frames, and it ends when its
owner lets go of it.

Nothing here waits inside of C: the socket is the event loop's own, and starting one does not copy
the memory of the process. Frames have four bytes of length before them.
"""

import os
import signal
import socket
import struct
import sys
import threading
import time
import weakref
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from gateway.database.db import under_gevent
from gateway.sandbox.host_users import Lease
from gateway.sandbox.unprivileged import INFO, LIFE, first_process

_LENGTH: Final = struct.Struct(">I")
_SENT_AT_ONCE: Final = 262_144
_NOTICE_S: Final = 0.5
_POLL_S: Final = 0.005
_AT_ONCE: Final = 65_536
# Ignored by Python, which a program would inherit.
_DEFAULT_SIGNALS: Final = (signal.SIGPIPE, signal.SIGXFSZ)


class WorkerEnded(Exception):
    """The program is gone, or said what is no frame."""


class WorkerTimeout(Exception):
    """Nothing came in time."""


class _Resources(NamedTuple):
    """What a program's owner has of it: the socket, two pipes of a sandbox, and its user."""

    socket: socket.socket
    info: int
    life: int
    user: Lease | None

    def close(self) -> None:
        self.socket.close()
        os.close(self.info)
        os.close(self.life)
        if self.user is not None:
            self.user.close()


class SubprocessWorker:
    """One program under way, which may be a sandbox (`isolation.bounded`). Raises `OSError` where
    it cannot be started. `user` is the one it runs as, and is given back when the program ends."""

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        user: Lease | None = None,
    ) -> None:
        reap_ended()
        ours, theirs = socket.socketpair()
        # Under gevent both are made such that reading never waits, which its own loop would.
        os.set_blocking(theirs.fileno(), True)
        info, info_theirs = os.pipe()
        life_theirs, life = os.pipe()
        os.set_blocking(info, False)
        files = {0: theirs.fileno(), 1: theirs.fileno(), 4: info_theirs, 5: life_theirs}
        words = [word.replace(INFO, "4").replace(LIFE, "5") for word in command]
        resources = _Resources(ours, info, life, user)
        try:
            pid = _spawn(words, dict(environment), files)
        except BaseException:
            resources.close()
            raise
        finally:
            theirs.close()
            os.close(info_theirs)
            os.close(life_theirs)
        self._socket = ours
        self._pid = pid
        # What the program is known by for good: its number may be another's once it is gone.
        handle = None
        if sys.platform == "linux":
            with suppress(OSError):
                handle = os.pidfd_open(pid)
        self._end = weakref.finalize(self, _end, pid, handle, resources)

    def send(self, frame: bytes, deadline: float) -> None:
        """Raises `WorkerEnded` and `WorkerTimeout`; `deadline` is monotonic."""
        self.send_pieces([frame], len(frame), deadline)

    def send_pieces(self, pieces: Iterable[bytes], length: int, deadline: float) -> None:
        """Send a frame that comes in pieces, `length` bytes in all."""
        try:
            self._send(_LENGTH.pack(length), deadline)
            for piece in pieces:
                view = memoryview(piece)
                for start in range(0, len(view), _SENT_AT_ONCE):
                    self._send(view[start : start + _SENT_AT_ONCE], deadline)
        except TimeoutError:
            raise WorkerTimeout from None
        except OSError as error:
            raise WorkerEnded from error

    def receive(self, bytes_max: int, deadline: float) -> bytes:
        """The next frame. Raises `WorkerEnded` and `WorkerTimeout`."""
        try:
            (length,) = _LENGTH.unpack(self._read(_LENGTH.size, deadline))
            if length > bytes_max:
                raise WorkerEnded(f"a frame of {length} bytes")
            return bytes(self._read(length, deadline))
        except TimeoutError:
            raise WorkerTimeout from None
        except OSError as error:
            raise WorkerEnded from error

    def close(self) -> None:
        """End it, and wait a moment until it is gone."""
        if not self._end.alive:
            return
        self._end()
        until = time.monotonic() + _NOTICE_S
        while not _is_reaped(self._pid) and time.monotonic() < until:
            time.sleep(_POLL_S)

    def _send(self, data: bytes | memoryview, deadline: float) -> None:
        self._socket.settimeout(_remaining_s(deadline))
        self._socket.sendall(data)

    def _read(self, length: int, deadline: float) -> bytearray:
        data = bytearray()
        while len(data) < length:
            self._socket.settimeout(_remaining_s(deadline))
            piece = self._socket.recv(min(_AT_ONCE, length - len(data)))
            if not piece:
                raise WorkerEnded
            data += piece
        return data


def _remaining_s(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


# --- Starting -------------------------------------------------------------------------------------


def _spawn(command: list[str], environment: dict[str, str], files: dict[int, int]) -> int:
    """Under gevent all runs in one thread. Elsewhere a thread of its own starts all programs: they
    end with the thread that started them, and those that ask come and go."""
    if under_gevent():
        return _spawn_here(command, environment, files)
    return _starting_thread().submit(_spawn_here, command, environment, files).result()


def _spawn_here(command: list[str], environment: dict[str, str], files: dict[int, int]) -> int:
    return os.posix_spawn(
        command[0],
        command,
        environment,
        file_actions=[
            *((os.POSIX_SPAWN_CLOSE, each) for each in _list_inheritable_files()),
            *((os.POSIX_SPAWN_DUP2, ours, theirs) for theirs, ours in files.items()),
            (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
        ],
        # A group of its own: what a terminal tells ours is not for it.
        setpgroup=0,
        setsigdef=_DEFAULT_SIGNALS,
        setsigmask=(),
    )


@cache
def _list_inheritable_files() -> tuple[int, ...]:
    """What is open for everybody that is started, as servers' own sockets are; all that is opened
    later is not, so one look is enough."""
    found = []
    for number in (int(place.name) for place in Path("/dev/fd").iterdir()):
        with suppress(OSError):
            if number > 2 and os.get_inheritable(number):
                found.append(number)
    return tuple(found)


@cache
def _starting_thread() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, thread_name_prefix="subprocess-starter")


# --- Ending ---------------------------------------------------------------------------------------

# Ended but perhaps still to be waited for.
_ended: set[int] = set()
_ended_lock = threading.Lock()


def _end(pid: int, handle: int | None, resources: _Resources) -> None:
    """Never waits: it may be called while garbage is collected."""
    # Of a sandbox. Nothing inside can keep its first process from this.
    inner = first_process(resources.info, pid)
    if inner is not None:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(inner, signal.SIGKILL)
        os.close(inner)
    resources.close()
    with suppress(ProcessLookupError):
        if handle is None:
            os.kill(pid, signal.SIGKILL)
        else:
            signal.pidfd_send_signal(handle, signal.SIGKILL)
    if handle is not None:
        os.close(handle)
    _ended.add(pid)


def reap_ended() -> None:
    """Let go of the numbers of programs that have ended."""
    for pid in list(_ended):
        _is_reaped(pid)


def _is_reaped(pid: int) -> bool:
    """Whether it is gone, and nothing is left to be waited for."""
    with _ended_lock:
        if pid not in _ended:
            return True
        try:
            gone, _ = os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:
            # Somebody else waits for all children, as the event loop may.
            gone = pid
        if gone:
            _ended.discard(pid)
        return bool(gone)
