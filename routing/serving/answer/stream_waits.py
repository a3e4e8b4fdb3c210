"""What a stream waits for: a reply, and guards that look at what it says. Its caller's connection
is kept alive meanwhile."""

from collections.abc import Callable, Generator
from functools import partial
from typing import Any, TypeVar

from gateway.database.db import under_gevent
from gateway.live_settings import settings
from gateway.outbound.exchange import AbortHandle
from gateway.outbound.reply import Reply
from routing.serving.answer.stream_setup import PendingReply, PendingWork
from routing.serving.attempts.relay import Relay
from routing.serving.request import process
from routing.serving.request.client_watch import WatchedStream
from routing.serving.request.context import Attempt, RequestProgress

T = TypeVar("T")
Work = Generator[bytes, None, T]


class CallerGone(Exception):
    """Ends the work: nobody is there to be written to."""


class WaitingStream(WatchedStream):
    """The part of a stream that waits. Once it is committed the caller reads comments meanwhile."""

    def __init__(self, progress: RequestProgress) -> None:
        self._progress = progress
        self._abort = AbortHandle()
        self._relay: Relay | None = None
        self._reply: Reply | None = None
        self._gone = self._committed = False
        self._wrote_at = 0.0
        # Asked for at every event, which Django's settings make dear.
        self._keep_alive_s = float(settings.ROUTER_KEEPALIVE_SECONDS)
        guard = progress.output_guard
        self._asks_guards = guard is not None and guard.asks_others

    def _await_reply(self, relay: Relay, work: Callable[[], Reply]) -> Work[Reply]:
        """The reply to `work`; once committed, keep the caller's connection alive meanwhile."""
        if not self._committed or not under_gevent():
            return work()
        pending = PendingReply(work)
        try:
            yield from self._keep_alive(relay, pending)
        except GeneratorExit:
            self._on_hang_up()
            if self._stopping:
                self._abort.abort()
            if (late := pending.wait_for_reply()) is not None:
                self._reply, self._relay = late, relay
            raise
        except BaseException:  # Also a greenlet being killed must not leave a call behind.
            self._abort.abort()
            pending.let_go()
            raise
        return pending.result()

    def _let_guard_look(self, relay: Relay, work: Callable[[], bytes]) -> Work[bytes]:
        """What `work` writes, for which external guards may be asked; the caller's connection is
        kept alive meanwhile. What they are asked costs something: it ends also for who leaves."""
        if not (self._asks_guards and self._committed and under_gevent()):
            return work()
        pending = PendingWork(work)
        try:
            yield from self._keep_alive(relay, pending)
        except BaseException as error:
            try:
                if isinstance(error, GeneratorExit):
                    self._on_hang_up()
                    if not self._stopping:
                        pending.wait(None)
            finally:
                # What has ended is not stopped; the worker may stop while it goes on.
                pending.stop()
            raise
        return pending.result()

    def _keep_alive(self, relay: Relay, pending: PendingWork[Any]) -> Work[None]:
        """Comments for a caller who is there, until the work has ended."""
        while not pending.wait(
            None if self._gone else max(0.0, self._keep_alive_at() - process.now())
        ):
            if not self._gone:
                yield relay.writer.keep_alive
                self._wrote_at = process.now()

    def _feed_guarded(
        self, attempt: Attempt, relay: Relay, reply: Reply, piece: bytes
    ) -> Work[bytes]:
        reply.pause_idle()
        began = process.now()
        out = yield from self._let_guard_look(relay, partial(relay.feed_bytes, piece))
        attempt.held_up_s += process.now() - began
        reply.resume_idle()
        return out

    def _keep_alive_at(self) -> float:
        return self._wrote_at + self._keep_alive_s

    def _on_hang_up(self) -> None:
        """From the event loop: the caller is gone."""
        self._gone = True
