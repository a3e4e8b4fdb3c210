"""The answer of an upstream, read piece by piece within its limits."""

import io
import math
from collections.abc import Callable
from types import TracebackType
from typing import Self, TypeVar

from gateway.eventloop import yield_control
from gateway.outbound.connection import Connection
from gateway.outbound.errors import (
    Aborted,
    BodyTooLarge,
    DeadlineExceeded,
    IdleTimeout,
    MalformedReply,
    OutboundError,
)
from gateway.outbound.exchange import WAIT_S_MAX, Exchange
from gateway.outbound.reply_reader import Inflater, WireFault

# A fast upstream never lets a read block, so the other greenlets get their turn after this much.
# That is some 20 ms of work in chunks of one byte each.
_YIELD_EVERY_BYTES = 256 * 1024

T = TypeVar("T")


class Reply:
    """One answer. Its owner reads it and then closes it; only ``abort`` may come from elsewhere.

    ``status`` is the HTTP status, ``headers`` has lower-case names (repeated ones joined by ", ").
    ``sent_at`` and ``head_at`` are moments of the door's clock. ``reused`` says that the connection
    is a pooled one, ``retried_fresh`` that a pooled one had died and was replaced.
    """

    __slots__ = (
        "_body_bytes",
        "_busy_bytes",
        "_connection",
        "_ended",
        "_exchange",
        "_failure",
        "_give_back",
        "_idle_since",
        "_inflater",
        "_paused_at",
        "_reader",
        "head_at",
        "headers",
        "retried_fresh",
        "reused",
        "sent_at",
        "status",
    )

    def __init__(
        self,
        exchange: Exchange,
        connection: Connection,
        give_back: Callable[[Connection], None],
        *,
        sent_at: float,
        reused: bool,
        retried_fresh: bool,
    ) -> None:
        reader = connection.reader
        self.status: int = reader.status
        self.headers: dict[str, str] = reader.headers
        self.sent_at = sent_at
        self.head_at = exchange.clock()
        self.reused = reused
        self.retried_fresh = retried_fresh
        self._exchange = exchange
        self._connection: Connection | None = connection
        self._reader = reader
        self._give_back = give_back
        self._idle_since = self.head_at
        self._paused_at: float | None = None
        self._body_bytes = 0
        self._busy_bytes = 0
        self._ended = False
        self._inflater: Inflater | None = None
        exchange.phase = "body"
        # What the head alone rules out. The caller still sees the status; reading raises this.
        self._failure: OutboundError | None = None
        try:
            self._inflater = Inflater.for_encoding(self.headers.get("content-encoding"))
        except WireFault as fault:
            self._failure = exchange.build_error(MalformedReply, str(fault))
        else:
            announced_bytes = reader.content_length or 0
            if announced_bytes > exchange.limits.body_bytes_max and not reader.done:
                self._failure = self._too_large()

    def read_some(self, wait_s: float | None = None) -> bytes | None:
        """Decoded body bytes as they come; b"" is the clean end.

        None means that ``wait_s`` passed without any: a moment for a keep-alive, which does not
        move the idle clock. Raises IdleTimeout, DeadlineExceeded, Disconnected, MalformedReply,
        BodyTooLarge, Aborted; once one was raised, each later read raises it again.
        """
        tick_at = math.inf if wait_s is None else self._exchange.clock() + wait_s
        return b"" if self._ended else self._read_guarded(self._read_piece, tick_at)

    def read_all(self) -> bytes:
        """The rest of the decoded body. Raises what ``read_some`` raises."""
        if self._inflater is not None and not self._ended:
            return self._read_guarded(self._inflate_all, math.inf)
        first = self.read_some()
        second = first and self.read_some()
        if not first or not second:
            return first or b""
        # A BytesIO hands its buffer over without a copy, and holds many small pieces cheaply.
        body = io.BytesIO(first)
        body.seek(0, io.SEEK_END)
        body.write(second)
        while piece := self.read_some():
            body.write(piece)
        return body.getvalue()

    def pause_idle(self) -> None:
        """Stop the idle clock: the caller's own client is not taking what is there."""
        if self._paused_at is None:
            self._paused_at = self._exchange.clock()

    def resume_idle(self) -> None:
        """Let the idle clock go on from where it stood."""
        if self._paused_at is not None:
            self._idle_since += self._exchange.clock() - self._paused_at
            self._paused_at = None

    def abort(self) -> None:
        """End the call at once, from any greenlet or thread. A blocked read raises Aborted."""
        self._exchange.abort_handle.abort()

    def close(self) -> None:
        """Let the connection go: kept when the answer was whole, else closed. Idempotent."""
        connection = self._connection
        if connection is None:
            return
        self._connection = None
        connection.disown()
        reusable = self._reader.reusable and self._failure is None
        if not self._ended and self._failure is None:
            self._failure = self._exchange.build_error(Aborted, "the reply was closed")
        if reusable and not self._exchange.abort_handle.aborted:
            self._give_back(connection)
        else:
            connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _read_guarded(self, work: Callable[[float], T], tick_at: float) -> T:
        """Read on; whatever goes wrong ends the reply and closes its connection."""
        if self._failure is not None:
            raise self._failure
        try:
            return work(tick_at)
        except WireFault as fault:
            self._failure = self._exchange.build_error(MalformedReply, str(fault))
            self.close()
            raise self._failure from fault
        except OutboundError as error:
            self._failure = error
            self.close()
            raise
        except BaseException:  # A killed greenlet leaves the connection in no state to go on.
            self._failure = self._exchange.build_error(Aborted, "the read was interrupted")
            self.close()
            raise

    def _read_piece(self, tick_at: float) -> bytes | None:
        inflater = self._inflater
        while True:
            if inflater is None:
                piece = self._reader.take()
            else:
                piece = inflater.step()
                if not piece:
                    inflater.give(self._reader.take())
                    piece = inflater.step()
            if piece:
                self._count(len(piece))
                return piece
            if self._reader.done:
                self._finish()
                return b""
            if not self._receive_more(tick_at):
                return None

    def _count(self, body_bytes: int) -> None:
        self._body_bytes += body_bytes
        if self._body_bytes > self._exchange.limits.body_bytes_max:
            raise self._too_large()
        self._yield_if_busy(body_bytes)

    def _yield_if_busy(self, handled_bytes: int) -> None:
        self._busy_bytes += handled_bytes
        if self._busy_bytes >= _YIELD_EVERY_BYTES:
            self._busy_bytes = 0
            yield_control()

    def _finish(self) -> None:
        if self._inflater is not None:
            self._inflater.finish()
        self._ended = True

    def _inflate_all(self, tick_at: float) -> bytes:
        """Collect the encoded body, measure what it decodes to, then decode it into memory."""
        encoded = io.BytesIO()
        encoded.write(self._reader.take())
        while not self._reader.done:
            self._receive_more(tick_at)
            encoded.write(self._reader.take())
        inflater = self._inflater
        assert inflater is not None
        for piece in inflater.copy().steps(encoded.getvalue()):
            self._count(len(piece))
        body = io.BytesIO()
        for piece in inflater.steps(encoded.getvalue()):
            body.write(piece)
        self._finish()
        return body.getvalue()

    def _receive_more(self, tick_at: float) -> bool:
        """Wait for bytes and feed them to the reader. False when ``tick_at`` came first."""
        exchange = self._exchange
        idle_until = math.inf
        if self._paused_at is None:
            idle_until = self._idle_since + exchange.limits.idle_s
        now = exchange.clock()
        if now >= exchange.deadline:
            raise exchange.build_error(DeadlineExceeded, "the call's deadline passed")
        # A limit that passed while the owner was away still gets one look at what has arrived.
        wait_s = min(idle_until - now, exchange.deadline - now, tick_at - now, WAIT_S_MAX)
        assert self._connection is not None
        try:
            data = self._connection.receive(max(0.0, wait_s))
        except OSError as error:
            raise exchange.build_loss_error(
                "the connection broke before the end of the answer"
            ) from error
        exchange.check_not_aborted()
        if data is None:
            now = exchange.clock()
            if now >= min(idle_until, exchange.deadline):
                raise exchange.build_late_error(idle_until, IdleTimeout)
            # Timers may fire a little early; then the wait just goes on.
            return now < tick_at
        if not data:
            if not self._reader.end_of_file():
                raise exchange.build_loss_error("the connection ended before the end of the answer")
            return True
        exchange.bytes_received += len(data)
        self._reader.feed_bytes(data)
        if self._reader.pieces:
            self._idle_since = exchange.clock()
        if self._reader.body_bytes > exchange.limits.body_bytes_max:
            raise self._too_large()
        self._yield_if_busy(len(data))
        return True

    def _too_large(self) -> OutboundError:
        bound = self._exchange.limits.body_bytes_max
        return self._exchange.build_error(BodyTooLarge, f"the body is over {bound} bytes")
