"""One open socket with its reader, waiting for its bytes, and the stack of idle ones per origin."""

import contextlib
import selectors
import socket
import ssl
import struct
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from gevent import get_hub, sleep, spawn
from gevent.hub import Waiter

from gateway.database.db import under_gevent
from gateway.eventloop import find_loop
from gateway.outbound.errors import DeadlineExceeded
from gateway.outbound.exchange import AbortHandle, Exchange
from gateway.outbound.reply_reader import ReplyReader

# A wait of at least this many seconds may end this much late: a fiftieth.
_LONG_S = 2.5
_TICK_S = 0.05
_READ = 1
RECV_BYTES = 64 * 1024
# Up to here one copy is cheaper than a second system call and a second packet.
_JOIN_BYTES_MAX = 64 * 1024
# Lingering is on, for no time: closing is a reset.
_RESET = struct.pack("ii", 1, 0)
_NOTHING_YET = (TimeoutError, BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class Readiness:
    """Whether one socket has bytes, or has ended. For one greenlet at a time; close it before the
    socket.

    A chunk of a stream costs its gateway little but the waiting for it. The socket of gevent first
    tries a read, which raises, and then makes a timeout object for every wait. Here the watcher is
    kept, and long waits share one clock that looks a few times a second (measured: 8 of 60 us a
    chunk).
    """

    __slots__ = ("_has_clock", "_hub", "_watcher")

    def __init__(self, descriptor: int) -> None:
        self._hub: Any = get_hub()
        # Other threads' loops turn only while somebody waits there.
        self._has_clock = self._hub.main_hub
        self._watcher: Any = self._hub.loop.io(descriptor, _READ)

    def wait(self, wait_s: float) -> bool:
        """Wait for it; False when `wait_s` passed."""
        waiter: Any = Waiter(self._hub)
        watcher = self._watcher
        watcher.start(waiter.switch, True)
        try:
            if wait_s >= _LONG_S and self._has_clock:
                return _wait_on_shared_clock(waiter, wait_s)
            timer = self._hub.loop.timer(wait_s)
            timer.start(waiter.switch, False)
            try:
                return bool(waiter.get())
            finally:
                timer.close()
        finally:
            watcher.stop()

    def close(self) -> None:
        self._watcher.close()


# Those who wait long, and until when on the monotonic clock.
_waiting: dict[Any, float] = {}
_clock_runs = False


def _wait_on_shared_clock(waiter: Any, wait_s: float) -> bool:
    global _clock_runs
    _waiting[waiter] = time.monotonic() + wait_s
    if not _clock_runs:
        _clock_runs = True
        spawn(_run_shared_clock)
    try:
        return bool(waiter.get())
    finally:
        del _waiting[waiter]


def _run_shared_clock() -> None:
    global _clock_runs
    try:
        while _waiting:
            sleep(_TICK_S)
            now = time.monotonic()
            for waiter, until in list(_waiting.items()):
                if until <= now:
                    # By way of the hub, as waiters want it.
                    get_hub().loop.run_callback(waiter.switch, False)
    finally:
        _clock_runs = False


class Connection:
    """A socket that belongs to at most one call at a time."""

    __slots__ = (
        "_is_polled",
        "_is_tls",
        "_lock",
        "_owner",
        "_readiness",
        "idle_since",
        "reader",
        "sock",
    )

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._is_tls = isinstance(sock, ssl.SSLSocket)
        self.reader = ReplyReader()
        self.idle_since = 0.0
        self._owner: AbortHandle | None = None
        self._lock = threading.Lock()
        self._readiness = Readiness(sock.fileno()) if under_gevent() else None
        # Where something else does the waiting, the socket itself never does.
        self._is_polled = self._is_tls or self._readiness is not None
        if self._is_polled:
            sock.settimeout(0)

    def own(self, owner: AbortHandle) -> None:
        """Let this call's handle, and no other, cut the connection."""
        self._owner = owner
        owner.connection = self

    def disown(self) -> None:
        """After this no handle of an earlier call can touch the socket."""
        with self._lock:
            self._owner = None

    def cut(self, owner: object) -> None:
        """End both directions now, if ``owner`` still has the connection."""
        with self._lock:
            if self._owner is not owner:
                return
            with contextlib.suppress(OSError):
                # Closed, it says so at once. Else an upstream that was in the midst of more than we
                # took would go on asking, for a minute, whether there is room again.
                self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                # The plain socket's, also for TLS: it takes no part in another thread's read.
                socket.socket.shutdown(self.sock, socket.SHUT_RDWR)

    def send(self, exchange: Exchange) -> None:
        """Send a request whole. Raises OSError; DeadlineExceeded when nobody reads it."""
        head, body = exchange.request.head, exchange.request.body
        if len(body) <= _JOIN_BYTES_MAX:
            self._send(exchange, head + body)
        else:
            self._send(exchange, head)
            self._send(exchange, body)

    def _send(self, exchange: Exchange, data: bytes) -> None:
        sent = self._send_some(exchange, data)
        if sent < len(data):
            rest = memoryview(data)
            while sent < len(data):
                sent += self._send_some(exchange, rest[sent:])

    def _send_some(self, exchange: Exchange, data: bytes | memoryview) -> int:
        wait_s = exchange.left_s(exchange.deadline, DeadlineExceeded)
        if not self._is_polled:
            self.sock.settimeout(wait_s)
        try:
            return self.sock.send(data)
        except ssl.SSLWantReadError:
            wait_for(self.sock, selectors.EVENT_READ, wait_s)
        except ssl.SSLWantWriteError:
            wait_for(self.sock, selectors.EVENT_WRITE, wait_s)
        except BlockingIOError:
            wait_for(self.sock, selectors.EVENT_WRITE, wait_s)
        except _NOTHING_YET:
            pass
        return 0

    def receive(self, wait_s: float) -> bytes | None:
        """Bytes as they come, b"" at end of file, None when ``wait_s`` passed. Raises OSError."""
        if self._is_tls:
            return self._receive_tls(wait_s)
        readiness = self._readiness
        if readiness is None:
            self.sock.settimeout(wait_s)
        elif wait_s > 0:
            # Also when it says no: what came at the last moment counts.
            readiness.wait(wait_s)
        try:
            return self.sock.recv(RECV_BYTES)
        except _NOTHING_YET:
            return None

    def _receive_tls(self, wait_s: float) -> bytes | None:
        """In steps: gevent's own socket would wait anew for each byte of a record that drips."""
        until = time.monotonic() + wait_s
        while True:
            try:
                return self.sock.recv(RECV_BYTES)
            except ssl.SSLWantReadError:
                event = selectors.EVENT_READ
            except ssl.SSLWantWriteError:
                event = selectors.EVENT_WRITE
            left_s = until - time.monotonic()
            if left_s <= 0:
                return None
            if event == selectors.EVENT_READ and self._readiness is not None:
                self._readiness.wait(left_s)
            else:
                wait_for(self.sock, event, left_s)

    def is_stale(self) -> bool:
        """Whether an idle connection was closed, or said something nobody asked for."""
        if not self._is_polled:
            self.sock.settimeout(0)
        try:
            # A TLS socket knows no MSG_PEEK; its read also swallows late session tickets.
            flags = 0 if self._is_tls else socket.MSG_PEEK
            self.sock.recv(1, flags)
        except _NOTHING_YET:
            return False
        except OSError:
            return True
        return True

    def close(self) -> None:
        self.disown()
        if self._readiness is not None:
            self._readiness.close()
        with contextlib.suppress(OSError):
            self.sock.close()


class Pool:
    """Idle connections, the newest first out. No locks: each step on a deque is atomic.

    Each event loop has its own. What waits for a socket belongs to the loop that made it, and pages
    on SQLite run in threads with loops of their own.
    """

    def __init__(
        self, *, size_per_origin: int, idle_keep_s: float, clock: Callable[[], float]
    ) -> None:
        self._size_per_origin = size_per_origin
        self._idle_keep_s = idle_keep_s
        self._clock = clock
        self._next_sweep = clock() + idle_keep_s
        self._idle: dict[tuple[int, str], deque[Connection]] = {}

    def take(self, key: str) -> Connection | None:
        """A connection that looks alive, or None."""
        stack = self._idle.get((find_loop(), key))
        while stack:
            try:
                connection = stack.pop()
            except IndexError:  # Another thread took the last one.
                break
            if not self._has_expired(connection) and not connection.is_stale():
                return connection
            connection.close()
        return None

    def put(self, key: str, connection: Connection) -> None:
        """Keep a connection for the next call, or close it when enough are kept."""
        connection.idle_since = self._clock()
        loop = find_loop()
        stack = self._idle.setdefault((loop, key), deque())
        if len(stack) < self._size_per_origin:
            stack.append(connection)
        else:
            connection.close()
        if connection.idle_since >= self._next_sweep:
            self._next_sweep = connection.idle_since + self._idle_keep_s
            for (of_loop, _), idle in list(self._idle.items()):
                if of_loop == loop:
                    _close_while(idle, self._has_expired)

    def close_all(self) -> None:
        for stack in list(self._idle.values()):
            _close_while(stack, lambda _: True)

    def _has_expired(self, connection: Connection) -> bool:
        return self._clock() - connection.idle_since > self._idle_keep_s


def wait_for(sock: socket.socket, event: int, wait_s: float) -> bool:
    """Whether the socket became ready in time."""
    with selectors.DefaultSelector() as selector:
        selector.register(sock, event)
        return bool(selector.select(wait_s))


def _close_while(stack: deque[Connection], condition: Callable[[Connection], bool]) -> None:
    """Close from the oldest on. A connection another thread takes meanwhile is left alone."""
    with contextlib.suppress(IndexError):
        while condition(stack[0]):
            stack.popleft().close()
