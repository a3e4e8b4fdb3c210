"""A turn on its way to the caller: from the runtime's events to chunks (management 6.9).

One greenlet carries it; it holds no database connection while it waits. The generator first yields
nothing: up to there a failure is an ordinary refusal. Whatever ends the stream, the run's row and
the runtime hear of it before the process lets go.
"""

import sys
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from django.db import IntegrityError
from gevent import GreenletExit

from gateway.database.db import DATABASE_GONE, Lane, run_queries
from gateway.http.responses import log
from gateway.outbound.exchange import AbortHandle
from interns.chat import runs
from interns.chat.chunks import KEEP_ALIVE, Chunks
from interns.chat.clock import CLOCK, Clock
from interns.chat.refusals import ChatError, told_by
from interns.chat.runs import Held
from interns.runtime.driver import (
    ChatRefused,
    Driver,
    Ended,
    ModelNamed,
    Question,
    RunEvent,
    RunStream,
    Said,
)
from interns.runtime.questions import Asked
from routing.serving.request.watch import ClientWatch

# How often a lease is renewed within its time.
_RENEWALS = 4
# A write has a time limit of its own, and one who reads slowly is not one who has stopped.
_WRITE_BYTES = 65_536
_STOPPING_WAIT_S = 0.5

T = TypeVar("T")
Work = Generator[bytes, None, None]


@dataclass(frozen=True, slots=True)
class Terms:
    """How long things may take, in seconds."""

    turn_s: float
    question_s: float
    keep_alive_s: float
    lease_s: float
    stalled_s: float


class _CallerGone(Exception):
    """Nobody is there to be written to."""


class TurnStream:
    """One streamed request: `open()` it, iterate, `close()` it, whatever happens in between.

    `start` asks the runtime, and raises `ChatError` where it is told no; it knows what that means
    for the row. From then on the row is this stream's.
    """

    def __init__(
        self,
        held: Held,
        start: Callable[[AbortHandle, float], RunStream],
        *,
        driver: Driver,
        client: Any,
        terms: Terms,
        clock: Clock = CLOCK,
    ) -> None:
        self._held = held
        self._start = start
        self._driver = driver
        self._terms = terms
        self._clock = clock
        self._abort = AbortHandle()
        self._watch = ClientWatch(client, self._caller_left)
        self._chunks = Chunks(
            run_id=held.run_id,
            session_id=held.session_id,
            created=int(clock.now().timestamp()),
        )
        self._deadline = clock.moment() + terms.turn_s
        self._renew_at = clock.moment() + terms.lease_s / _RENEWALS
        self._wrote_at = clock.moment()
        self._stream: RunStream | None = None
        # Of the run: whether its end, or its pause, is in the row and told.
        self._settled = False
        self._gone = self._stopping = False
        self._work = self._serve()

    def open(self) -> None:
        """Return once the runtime has the turn. Raises `ChatError` where it does not take it."""
        self._watch.start(stalled_s=self._terms.stalled_s)
        try:
            next(self._work, None)
        except BaseException:
            self._watch.stop()
            raise

    def __iter__(self) -> Iterator[bytes]:
        return self._work

    def close(self) -> None:
        """End the stream wherever it stands; a run whose caller left is cancelled."""
        if isinstance(sys.exc_info()[1], GreenletExit):
            self._stopping = True
            self._watch.cut()
        try:
            self._work.close()
        finally:
            self._watch.stop()

    # --- The work -------------------------------------------------------------------------------

    def _serve(self) -> Work:
        begun = False
        try:
            self._stream = self._start(self._abort, self._deadline)
            begun = True
            yield b""
            yield self._noted(self._chunks.opening())
            yield from self._carry(self._stream)
        except (_CallerGone, GeneratorExit):
            self._gone = True
        except ChatError as error:
            if not begun:
                self._settled = True
                raise
            yield from self._end_with(error)
        except GreenletExit:
            # The worker is stopping: the caller is told while there is still time.
            self._stopping = True
            if not begun:
                raise
            yield from self._end_with(ChatError("stream_severed"))
        except Exception as error:
            if not begun:
                raise
            log.exception("A turn failed", exc_info=error)
            yield from self._end_with(ChatError("turn_failed", retryable=True))
        finally:
            self._wind_up()

    def _carry(self, stream: RunStream) -> Work:
        """The runtime's events out as chunks, until the last one."""
        while True:
            events = self._read(stream)
            if self._gone:
                raise _CallerGone
            self._renew()
            out = bytearray()
            for event in events:
                if isinstance(event, Question | Ended):
                    yield from self._written(out)
                    yield from self._last(event)
                    return
                out += self._chunk(event)
            if not out and self._clock.moment() >= self._keep_alive_at():
                out += KEEP_ALIVE
            yield from self._written(out)

    def _read(self, stream: RunStream) -> list[RunEvent]:
        now = self._clock.moment()
        if now >= self._deadline:
            raise ChatError("timeout")
        until = min(self._keep_alive_at(), self._renew_at, self._deadline)
        try:
            return stream.read(max(0.0, until - now))
        except ChatRefused as refused:
            if self._gone:
                raise _CallerGone from None
            raise self._why(refused) from refused

    def _chunk(self, event: RunEvent) -> bytes:
        if isinstance(event, ModelNamed):
            self._chunks.model = event.model
        elif isinstance(event, Said) and event.text:
            say = self._chunks.reasoning if event.reasoning else self._chunks.content
            return say(event.text)
        return b""

    def _written(self, out: bytearray) -> Work:
        """Chunks whose size is the model's business, in writes that a slow reader can keep up
        with."""
        for start in range(0, len(out), _WRITE_BYTES):
            yield self._noted(bytes(out[start : start + _WRITE_BYTES]))

    def _noted(self, out: bytes) -> bytes:
        self._wrote_at = self._clock.moment()
        return out

    def _keep_alive_at(self) -> float:
        return self._wrote_at + self._terms.keep_alive_s

    # --- Ends -----------------------------------------------------------------------------------

    def _last(self, event: Question | Ended) -> Work:
        if isinstance(event, Question):
            yield from self._pause(event)
        elif event.reason:
            refused = ChatRefused(event.reason, event.message, retryable=event.retryable)
            yield from self._end_with(told_by(refused), event)
        else:
            self._finish(event)
            yield self._chunks.stop(event.usage)

    def _pause(self, question: Question) -> Work:
        """Settled once the caller has all of it: a question that nobody saw is not waited for."""
        if not self._kept(question):
            raise self._ended_elsewhere()
        if self._gone:
            raise _CallerGone
        yield self._chunks.question(Asked(question.tool_call_id, question.arguments))
        self._settled = True

    def _kept(self, question: Question) -> bool:
        try:
            return self._in_rows(
                lambda: runs.pause(
                    self._held,
                    question,
                    now=self._clock.now(),
                    question_s=self._terms.question_s,
                )
            )
        except IntegrityError as error:
            raise ChatError("turn_failed", "The intern asked under an id used before") from error
        except DATABASE_GONE as error:
            raise ChatError(
                "turn_failed", "A question could not be kept", retryable=True
            ) from error

    def _end_with(self, error: ChatError, ended: Ended | None = None) -> Work:
        """The error's chunks. The intern is free again before its caller can know."""
        usage = None if ended is None else ended.usage
        if ended is not None:
            self._finish(ended)
        else:
            self._cancel(str(error.reason))
        if not self._gone:
            yield self._chunks.error(error.body(), usage)

    def _finish(self, ended: Ended) -> None:
        self._settled = True
        try:
            self._in_rows(lambda: runs.finish(self._held, ended, now=self._clock.now()))
        except DATABASE_GONE as error:
            # The lease will run out.
            log.warning("The end of run %s could not be written: %s", self._held.run_id, error)

    def _why(self, refused: ChatRefused) -> ChatError:
        """The refusal, unless the run was ended from elsewhere: then a lost connection is no
        surprise."""
        if refused.reason == "stream_severed":
            try:
                because = self._in_rows(lambda: runs.ended_because(self._held))
            except DATABASE_GONE:
                because = None
            if because is not None:
                return ChatError("run_ended")
        return told_by(refused)

    def _ended_elsewhere(self) -> ChatError:
        self._settled = True
        return ChatError("run_ended")

    def _renew(self) -> None:
        """Keep the lease. Raises `ChatError` where the run was ended meanwhile."""
        now = self._clock.moment()
        if now < self._renew_at:
            return
        self._renew_at = now + self._terms.lease_s / _RENEWALS
        try:
            is_mine = self._in_rows(
                lambda: runs.renew(self._held, now=self._clock.now(), lease_s=self._terms.lease_s)
            )
        except DATABASE_GONE as error:
            log.warning("The lease of run %s was not renewed: %s", self._held.run_id, error)
        else:
            if not is_mine:
                raise self._ended_elsewhere()

    # --- Hang-ups -------------------------------------------------------------------------------

    def _caller_left(self) -> None:
        """From the event loop: what waits for the runtime ends at once."""
        self._gone = True
        self._abort.abort()

    def _wind_up(self) -> None:
        """Last of all, in every outcome: no run goes on that nobody reads."""
        try:
            if not self._settled:
                self._cancel("client_closed_request")
        finally:
            stream, self._stream = self._stream, None
            if stream is not None:
                stream.close()

    def _cancel(self, because: str) -> None:
        """The runtime first, so that the intern is free once its row says so."""
        if self._settled:
            return
        self._settled = True
        held = self._held
        wait_s = _STOPPING_WAIT_S if self._stopping else 2.0
        self._driver.cancel(held.intern_id, held.run_id, wait_s=wait_s)
        try:
            self._in_rows(lambda: runs.drop(held, because, now=self._clock.now()))
        except DATABASE_GONE as error:
            log.warning("The end of run %s could not be written: %s", held.run_id, error)

    def _in_rows(self, work: Callable[[], T]) -> T:
        return run_queries(Lane.OPERATOR, work)
