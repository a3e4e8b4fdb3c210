"""One TCP connection: bytes in, requests out, and an honest record of who closed it."""

import asyncio
import socket
import struct
import sys
import traceback
from collections.abc import Callable, Coroutine
from time import monotonic
from typing import Any, Literal, cast

from routing.simulator.http.request import BadRequest, Request, RequestReader

# SO_LINGER on with zero seconds: closing sends RST in place of FIN.
RESET_ON_CLOSE = struct.pack("ii", 1, 0)

Closer = Literal["client", "server"]


class Lifeline:
    """When a connection closed and by whom. Log entries keep this, not the connection."""

    __slots__ = ("closed_at", "closed_by")

    def __init__(self) -> None:
        self.closed_at: float | None = None
        self.closed_by: Closer | None = None


class Connection(asyncio.Protocol):
    """Serves one request at a time; what the client sends meanwhile waits in the reader."""

    def __init__(
        self,
        *,
        serve: Callable[["Connection", Request], None],
        refuse: Callable[["Connection", BadRequest], None],
        closed: Callable[[], None],
        living: set["Connection"],
    ) -> None:
        self._serve = serve
        self._refuse = refuse
        self._closed = closed
        self._living = living
        self._reader = RequestReader()
        self._busy = False
        self._task: asyncio.Task[None] | None = None
        self._room = asyncio.Event()
        self._room.set()
        self.lifeline = Lifeline()
        self.on_lost: Callable[[], None] | None = None
        self.dies_on_reuse = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # asyncio has already set TCP_NODELAY, so every write leaves at once.
        self.transport = cast(asyncio.Transport, transport)
        self._living.add(self)

    def data_received(self, data: bytes) -> None:
        self._reader.feed(data)
        if not self._busy:
            self._next_request()

    def eof_received(self) -> None:
        self._lost("client")

    def connection_lost(self, exc: Exception | None) -> None:
        self._living.discard(self)
        self._lost("client")

    def pause_writing(self) -> None:
        self._room.clear()

    def resume_writing(self) -> None:
        self._room.set()

    async def drain(self) -> None:
        """Wait until the client has taken most of what was written; always lets others run."""
        await asyncio.sleep(0)
        await self._room.wait()

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Answer the current request in a task that ends when the client leaves."""
        self._task = asyncio.get_running_loop().create_task(work)
        self._task.add_done_callback(self._task_done)

    def release(self, *, keep: bool) -> None:
        """The current request is answered; go on with the next one, or close."""
        self._busy = False
        self.on_lost = None
        if keep and not self.transport.is_closing():
            asyncio.get_running_loop().call_soon(self._next_request)
        else:
            self.close()

    def close(self) -> None:
        """Close in order (FIN) once everything written has left."""
        self._lost("server")
        self.transport.close()

    def reset(self) -> None:
        """Close with RST, dropping whatever has not left yet."""
        self._lost("server")
        handle = cast(socket.socket, self.transport.get_extra_info("socket"))
        handle.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
        self.transport.abort()

    def _next_request(self) -> None:
        if self._busy or self.transport.is_closing():
            return
        try:
            request = self._reader.next()
            if request is None:
                if self._reader.wants_continue():
                    self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                return
        except BadRequest as refusal:
            self._busy = True
            self._refuse(self, refusal)
            return
        self._busy = True
        self._serve(self, request)

    def _lost(self, by: Closer) -> None:
        if self.lifeline.closed_by is not None:
            return
        self.lifeline.closed_by = by
        self.lifeline.closed_at = monotonic()
        self._room.set()
        if by == "client" and self._task is not None:
            self._task.cancel()
        if self.on_lost is not None:
            self.on_lost()
        self._closed()

    def _task_done(self, task: asyncio.Task[None]) -> None:
        # The next request's task may have started already.
        if self._task is task:
            self._task = None
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            traceback.print_exception(error, file=sys.stderr)
            self.reset()
