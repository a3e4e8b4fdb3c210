"""gunicorn's gevent worker: connections through our own reader of heads, and workers that are
replaced, or stopped, without a caller losing an answer.

gunicorn on its own tells the old workers to leave before the new ones have loaded. It gives them no
more time than a stop has. Here, on SIGHUP, the old ones accept until the new ones do, and then have
as long as a call may last. Only a stop cuts short what is under way.
"""

import gc
import logging
import mmap
import sys
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from django.conf import settings
from gevent import GreenletExit, sleep
from gevent.pool import Pool
from gevent.server import StreamServer
from gunicorn import util
from gunicorn.glogging import Logger as GunicornLogger
from gunicorn.workers.ggevent import GeventWorker

from gateway.http.refusal_lines import refusal_lines
from gateway.http.request_id import build_request_id, get_request_id
from gateway.server import masters
from gateway.server.connection import Connection, describe_failure, write_failure

if TYPE_CHECKING:
    from gunicorn.arbiter import Arbiter

_LOOK_S = 0.1
# A connection that has asked nothing for so long is between requests rather than about to ask.
_QUIET_S = 1.0
# For answers to callers and settlements of calls once time is up.
_ANSWERING_S = 2.0
# Young objects that make the garbage collector look at them, which takes it some milliseconds.
_YOUNG_MAX = 50_000
# How long a thread has the interpreter while another waits for it.
_TURN_S = 0.001
# More than the ages that can be at work at once: the settings allow 256 workers.
_SLOTS = 1024


class Roster:
    """What a master and its workers know of each other, in memory they share.

    gunicorn numbers workers as it starts them (`age`). Each cell has one writer.
    """

    def __init__(self) -> None:
        self._cells = memoryview(mmap.mmap(-1, 8 * (_SLOTS + 1))).cast("q")

    @property
    def retired_age(self) -> int:
        """Workers up to this age are being replaced."""
        return self._cells[_SLOTS]

    def retire(self, age: int) -> None:
        self._cells[_SLOTS] = age

    def accepts(self, age: int) -> None:
        """Note that the worker of this age takes connections."""
        self._cells[age % _SLOTS] = age

    def has_replaced(self, age: int, *, workers: int) -> bool:
        """Whether the worker is retired and as many newer ones as there shall be are at work."""
        retired = self.retired_age
        if age > retired:
            return False
        return sum(cell > retired for cell in self._cells[:_SLOTS]) >= workers


# Made in the master: this module is imported once, and what is forked later shares the memory.
roster = Roster()


def retire_workers(master: "Arbiter") -> None:
    """gunicorn's `on_reload`: replace every worker.

    Those that are leaving do not count as workers. Else the master would tell them to hurry and
    would not replace a new one that died.
    """
    roster.retire(master.worker_age)
    master.num_workers += len(master.WORKERS)


def forget_worker(master: "Arbiter", worker: Any) -> None:
    """gunicorn's `child_exit`: a retired worker has left."""
    if worker.age <= roster.retired_age:
        master.num_workers -= 1


def share_the_interpreter() -> None:
    """Threads that compute beside the event loop let it go on within milliseconds, even several of
    them. By turns, each that waits for the interpreter has it for this long."""
    sys.setswitchinterval(_TURN_S)


class RollingWorker(GeventWorker):
    """Accepts until it is replaced or stopped, then sees to the end what is under way.

    Replaced, it has as long as a call may last. Stopped, it has half of the master's
    `graceful_timeout`. Calls still running then are ended, answered and settled in the other half.
    """

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[no-untyped-call]  # gunicorn is untyped.
        self._busy = 0
        self._busy_at = 0.0
        self._stop_by: float | None = None
        self._time_is_up = False
        self._pools: list[Pool] = []

    def handle_exit(self, sig: object, frame: object) -> None:
        if self._stop_by is None:
            self._stop_by = time.monotonic() + max(1, self.cfg.graceful_timeout // 2)
        super().handle_exit(sig, frame)  # type: ignore[no-untyped-call]  # gunicorn is untyped.

    def handle_request(self, *args: object) -> None:
        self._busy += 1
        try:
            super().handle_request(*args)  # type: ignore[no-untyped-call]  # gunicorn is untyped.
        finally:
            self._busy -= 1
            self._busy_at = time.monotonic()
        if self._time_is_up:
            # Whatever the answer's head said: nobody is left to serve another request.
            raise StopIteration

    @property
    def is_crowded(self) -> bool:
        """Whether too many connections are open to keep any for later. Those waiting to be accepted
        would be waiting for idle ones to end."""
        return any(4 * pool.free_count() < self.worker_connections for pool in self._pools)

    def run(self) -> None:
        # What was loaded stays, so the garbage collector need never look at it again. A request
        # leaves no cycles behind, however it ends: one that did would keep its prompt until the
        # next collection. With Python's own threshold of 700 objects the collector would go through
        # everything for every few requests (measured: 140 microseconds of CPU for each). Loading a
        # catalogue freezes it too (`routing.catalogue.snapshot`).
        gc.collect()
        gc.freeze()
        gc.set_threshold(_YOUNG_MAX, 20, 50)
        share_the_interpreter()
        self._pools = [Pool(self.worker_connections) for _ in self.sockets]
        servers = []
        for listener, pool in zip(self.sockets, self._pools, strict=True):
            listener.setblocking(1)
            server = StreamServer(listener, handle=partial(self.handle, listener), spawn=pool)
            # One at a time, so that the workers share what comes.
            server.max_accept = 1
            server.start()
            servers.append(server)
        roster.accepts(self.age)
        masters.note_accepting()
        while self.alive:
            self.notify()  # type: ignore[no-untyped-call]  # gunicorn is untyped.
            sleep(_LOOK_S)
            if roster.has_replaced(self.age, workers=self.cfg.workers):
                # From here on each answer says that its connection ends.
                self.alive = False
        for server in servers:
            server.close()
        self._see_to_the_end()
        self._time_is_up = True
        for pool in self._pools:
            pool.kill(timeout=_ANSWERING_S)

    def _see_to_the_end(self) -> None:
        left_at = time.monotonic()
        # An idle connection ends by itself, and callers who pool connections expect it to stay.
        until = left_at + self.cfg.keepalive + settings.ROUTER_TOTAL_TIMEOUT
        while any(map(len, self._pools)):
            now = time.monotonic()
            is_quiet = not self._busy and now - max(self._busy_at, left_at) > _QUIET_S
            if now > until or (self._stop_by is not None and (is_quiet or now > self._stop_by)):
                return
            self.notify()  # type: ignore[no-untyped-call]  # gunicorn is untyped.
            sleep(_LOOK_S)


class GatewayWorker(RollingWorker):
    """Errors below the application are JSON too, and requests end before the master's patience."""

    def handle(self, listener: Any, client: Any, addr: Any) -> None:
        """Serve a connection to its end."""
        connection = Connection(
            self.cfg,
            client,
            addr,
            header_s=settings.ROUTER_HEADER_TIMEOUT,
            idle_s=self.cfg.keepalive,
            # Some settings are longer than the other, and one socket has one timeout.
            busy_s=max(settings.ROUTER_STALLED_READER_SECONDS, settings.ROUTER_BODY_TIMEOUT),
        )
        try:
            name = listener.getsockname()
            while (request := connection.next_request()) is not None:
                request.proxy_protocol_info = {}
                if self.is_crowded:
                    request.force_close()
                try:
                    self.handle_request(name, request, client, addr)
                except StopIteration:
                    connection.finish()
                    return
                # Also in a worker that is leaving: the next answer tells the caller so.
                if not connection.finish():
                    return
        except GreenletExit:
            self.log.debug("The worker stopped while the connection was idle")
        except OSError as error:
            self.log.debug("The connection ended: %s", error)
        except Exception as error:  # noqa: BLE001 - Whatever it is, the caller gets a JSON answer.
            self._send_failure(client, addr, error, connection.find_request_id())
            connection.linger()
        finally:
            util.close(client)

    def handle_error(self, req: Any, client: Any, addr: Any, exc: BaseException) -> None:
        self._send_failure(client, addr, exc, get_request_id() or build_request_id())

    def _send_failure(self, client: Any, addr: Any, error: BaseException, request_id: str) -> None:
        status, message = describe_failure(error)
        if status == 500:
            self.log.error("Error handling request %s", request_id, exc_info=error)
        else:
            what = f"A connection from {addr[0] if addr else 'a socket'}"
            refusal_lines.write(what, status, message, request_id=request_id)
        try:
            client.sendall(write_failure(status, message, request_id))
        except OSError:
            self.log.debug("The peer was gone before the refusal")


class Logger(GunicornLogger):
    """Leaves format and place to the root logger. The hooks of `gateway/gunicorn.conf.py` report
    births, deaths and reloads, so gunicorn adds what went wrong."""

    def setup(self, cfg: object) -> None:
        level = logging.getLogger("gunicorn").level
        super().setup(cfg)  # type: ignore[no-untyped-call]  # gunicorn is untyped.
        self.error_log.handlers.clear()
        self.error_log.propagate = True
        self.error_log.setLevel(level)
