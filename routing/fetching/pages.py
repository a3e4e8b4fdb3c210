"""HTML pages as text, taken apart in processes of their own.

A page can be made to keep whoever reads it busy for a long time, or to find a weakness in a parser.
So each process has little to lose: an empty environment, bounded memory, a moment per page.
"""

import os
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from gateway.http.jsonio import dumps
from gateway.sandbox import host_users
from routing.fetching import reader
from routing.fetching.charsets import decode

# As many at once; others wait for theirs.
READERS_MAX: Final = 2
# Memory that a page took is given back by ending the process now and then.
PAGES_PER_READER: Final = 50
_CHAR_BYTES_MAX: Final = 4
_LENGTH: Final = struct.Struct("!I")
# What it loads late.
_PACKAGES: Final = ("trafilatura", "htmldate", "courlan", "justext")
_SCRIPT: Final = str(Path(reader.__file__).resolve())


class Page(NamedTuple):
    """What a page says; `is_cut` whether there is more of it."""

    title: str
    text: str
    is_cut: bool = False


class Unreadable(Exception):
    """Nothing could be made of the page in the time there was."""


def read_page(
    page: bytes, *, charset: str | None, url: str, timeout_s: float, chars_max: int
) -> Page:
    """Title and text of an HTML page, of the text as much as is asked for. Raises `Unreadable`."""
    until = time.monotonic() + timeout_s
    with _readers.lend(until) as taken:
        return taken.read(page, charset, url, until, chars_max)


class _Reader:
    """One process. Whatever goes wrong, it is killed, and the next page gets another."""

    def __init__(self) -> None:
        self.pages = 0
        self._pid = os.getpid()
        self._user = host_users.lease()
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                number = theirs.fileno()
                script = [_SCRIPT, str(number)]
                self._process = subprocess.Popen(  # noqa: S603 - Our own interpreter and script.
                    host_users.script_command(script, _PACKAGES, self._user),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    pass_fds=(number,),
                    env={"LANG": "C.UTF-8"},
                    cwd="/",
                    start_new_session=True,
                )
        except BaseException:
            ours.close()
            raise
        self._line = ours

    @property
    def is_ours(self) -> bool:
        """Whether this process began it: a forked child must not speak over its parent's line."""
        return self._pid == os.getpid()

    def read(
        self, page: bytes, charset: str | None, url: str, until: float, chars_max: int
    ) -> Page:
        self.pages += 1
        seconds = max(0.1, until - time.monotonic())
        asked = {"charset": charset, "url": url, "seconds": seconds, "chars": chars_max}
        head = dumps(asked)
        try:
            self._send(_LENGTH.pack(len(head)) + head, until)
            self._send(_LENGTH.pack(len(page)), until)
            self._send(page, until)
            title = self._receive_text(reader.TITLE_CHARS_MAX, until)
            # One character more than is wanted says that there are more.
            text = self._receive_text(chars_max + 1, until)
        except OSError:
            raise Unreadable from None
        return Page(title, text[:chars_max], is_cut=len(text) > chars_max)

    def end(self) -> None:
        self._line.close()
        if self.is_ours:
            self._process.kill()
            self._process.wait()
            if self._user:
                self._user.close()

    def _send(self, data: bytes, until: float) -> None:
        self._line.settimeout(_remaining_s(until))
        self._line.sendall(data)

    def _receive_text(self, chars_max: int, until: float) -> str:
        """A text, which has no other form: reading JSON would hold up everybody else."""
        (size,) = _LENGTH.unpack(self._receive(_LENGTH.size, until))
        if size > chars_max * _CHAR_BYTES_MAX:
            raise Unreadable
        return decode(self._receive(size, until))

    def _receive(self, size: int, until: float) -> bytes:
        parts, left = [], size
        while left:
            self._line.settimeout(_remaining_s(until))
            part = self._line.recv(min(left, 1_048_576))
            if not part:
                raise Unreadable
            parts.append(part)
            left -= len(part)
        return b"".join(parts)


class _Readers:
    def __init__(self) -> None:
        self._idle: list[_Reader] = []
        self._free = threading.Semaphore(READERS_MAX)

    @contextmanager
    def lend(self, until: float) -> Iterator[_Reader]:
        """A reader for one page."""
        if not self._free.acquire(timeout=_remaining_s(until)):
            raise Unreadable
        try:
            taken = self._take_reader()
            try:
                yield taken
            except BaseException:  # Also a greenlet being killed leaves one in the midst of a page.
                taken.end()
                raise
            if taken.pages < PAGES_PER_READER:
                self._idle.append(taken)
            else:
                taken.end()
        finally:
            self._free.release()

    def end_idle(self) -> None:
        while self._idle:
            self._idle.pop().end()

    def _take_reader(self) -> _Reader:
        while self._idle:
            taken = self._idle.pop()
            if taken.is_ours:
                return taken
            taken.end()
        return _Reader()


def _remaining_s(until: float) -> float:
    return max(0.001, until - time.monotonic())


_readers = _Readers()


def end_readers() -> None:
    """End those that wait for a page."""
    _readers.end_idle()
