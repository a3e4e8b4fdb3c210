"""Streams whose caller is watched: who hangs up is noticed while there is nothing to write."""

import contextlib
import socket
import sys
from collections.abc import Callable, Generator, Iterator
from typing import Any

from gevent import GreenletExit

from gateway.database.db import under_gevent

# The kernel doubles this: at most 256 KiB wait for a caller who does not read.
_SEND_BUFFER_BYTES = 131_072


class ClientWatch:
    """Calls `on_gone` from the event loop once the caller's socket is closed.

    Bytes that arrive instead are the next request; then there is nothing more to learn and the
    watch ends. Outside gevent, and on sockets that cannot be peeked at (TLS), it does nothing.
    """

    def __init__(self, client: Any, on_gone: Callable[[], None]) -> None:
        self._client = client
        self._on_gone: Callable[[], None] | None = on_gone
        self._watcher: Any = None
        self._started = False

    def start(self, *, stalled_s: float) -> None:
        """Begin watching; a write that is not taken for `stalled_s` fails from now on."""
        if self._client is None or not under_gevent():
            return
        self._client.settimeout(stalled_s)
        self._started = True
        try:
            self._client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER_BYTES)
        except OSError:
            return
        from gevent import get_hub

        readable = 1
        self._watcher = get_hub().loop.io(self._client.fileno(), readable)
        self._watcher.start(self._look)

    def stop(self) -> None:
        self._end()
        # The callback refers to this watch as well; neither need outlive the other.
        self._on_gone = None
        if self._started:
            # The next request on this connection may be anything.
            self._started = False
            self._client.settimeout(None)

    def cut(self) -> None:
        """End the caller's connection now: it is not read from, or nobody is left to tell."""
        if self._started:
            with contextlib.suppress(OSError):
                self._client.shutdown(socket.SHUT_RDWR)

    def _end(self) -> None:
        watcher, self._watcher = self._watcher, None
        if watcher is not None:
            watcher.stop()
            watcher.close()

    def _look(self) -> None:
        try:
            gone = not self._client.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except (BlockingIOError, ValueError):
            return
        except OSError:
            gone = True
        self._end()
        if gone and self._on_gone is not None:
            self._on_gone()


class WatchedStream:
    """`open()` it, iterate, `close()` it, whatever happens in between. What `_work` yields first is
    empty, and up to there a failure is an ordinary refusal."""

    _watch: ClientWatch
    _work: Generator[bytes, None, None]
    # What a write may take.
    _stalled_s: float
    # Whether the worker stops and nobody can be answered any more.
    _stopping = False

    def open(self) -> None:
        """Return once the stream is committed. Raises what it is refused with."""
        self._watch.start(stalled_s=self._stalled_s)
        try:
            next(self._work, None)
        except BaseException:
            self._watch.stop()
            raise

    def __iter__(self) -> Iterator[bytes]:
        return self._work

    def close(self) -> None:
        """End the stream wherever it stands."""
        if isinstance(sys.exc_info()[1], GreenletExit):
            # A write was cut short: there is no time left to read an upstream to its end.
            self._stopping = True
            self._watch.cut()
        try:
            self._work.close()
        finally:
            self._watch.stop()
