"""A turn on its way to the caller: from the runtime's events to chunks.

One greenlet carries it; it holds no database connection while it waits. The generator first yields
nothing: up to there a failure is an ordinary refusal. Whatever ends the stream, the run's row and
the runtime hear of it before the process lets go.
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import TypeVar

from django.db import IntegrityError
from gevent import GreenletExit

from gateway.database.db import DATABASE_GONE, Lane, run_queries
from gateway.http.responses import log
from gateway.outbound.exchange import AbortHandle
from gateway.tracing.open_span import OpenSpan
from interns.chat import runs
from interns.chat.chunks import KEEP_ALIVE, ChunkWriter
from interns.chat.clock import CLOCK, Clock
from interns.chat.errors import ChatError, convert_refusal
from interns.chat.runs import RunLease
from interns.runtime.driver import (
    Agents,
    ChatRefused,
    EndEvent,
    InternUsage,
    ModelNameEvent,
    QuestionEvent,
    RunEvent,
    RunStream,
    TextEvent,
)
from interns.runtime.questions import AskedQuestion
from interns.spans import end_turn
from routing.serving.request.client_watch import ClientWatch, WatchedStream

# How often a lease is renewed within its time.
_RENEWALS = 4
# A write has a time limit of its own, and one who reads slowly is not one who has stopped.
_WRITE_BYTES = 65_536
_STOPPING_WAIT_S = 0.5

T = TypeVar("T")
Work = Generator[bytes, None, None]


@dataclass(frozen=True, slots=True)
class TurnLimits:
    """How long things may take, in seconds."""

    turn_s: float
    question_s: float
    keep_alive_s: float
    lease_s: float
    stalled_s: float


class _CallerGone(Exception):
    """Nobody is there to be written to."""


class TurnStream(WatchedStream):
    """One streamed request. A run whose caller left is cancelled.

    `start` asks the runtime, and raises `ChatError` where it refuses; it knows what that means for
    the row. From then on the row is this stream's.
    """

    def __init__(
        self,
        lease: RunLease,
        start: Callable[[AbortHandle, float], RunStream],
        *,
        driver: Agents,
        client: object,
        limits: TurnLimits,
        clock: Clock = CLOCK,
        span: OpenSpan | None = None,
    ) -> None:
        self._lease = lease
        self._span = span
        # How it ended, in a word, and what it used.
        self._outcome = "completed"
        self._usage: InternUsage | None = None
        self._start = start
        self._driver = driver
        self._limits = limits
        self._clock = clock
        self._abort = AbortHandle()
        self._watch = ClientWatch(client, self._on_hang_up)
        self._chunks = ChunkWriter(
            run_id=lease.run_id,
            session_id=lease.session_id,
            created=int(clock.now().timestamp()),
        )
        self._deadline = clock.moment() + limits.turn_s
        self._renew_at = clock.moment() + limits.lease_s / _RENEWALS
        self._wrote_at = clock.moment()
        self._stream: RunStream | None = None
        # Of the run: whether its end, or its pause, is in the row and sent.
        self._settled = False
        self._caller_gone = False
        self._work = self._serve()
        self._stalled_s = limits.stalled_s

    # --- The work -------------------------------------------------------------------------------

    def _serve(self) -> Work:
        begun = False
        try:
            self._stream = self._start(self._abort, self._deadline)
            begun = True
            yield b""
            yield self._note_write(self._chunks.write_opening())
            yield from self._relay_events(self._stream)
        except (_CallerGone, GeneratorExit):
            self._caller_gone = True
        except ChatError as error:
            if not begun:
                self._settled, self._outcome = True, str(error.reason)
                raise
            yield from self._end_with(error)
        except GreenletExit:
            # The worker is stopping: the caller hears it while there is still time.
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
            self._clean_up()

    def _relay_events(self, stream: RunStream) -> Work:
        """The runtime's events out as chunks, until the last one."""
        while True:
            events = self._read(stream)
            if self._caller_gone:
                raise _CallerGone
            self._renew()
            out = bytearray()
            for event in events:
                if isinstance(event, QuestionEvent | EndEvent):
                    yield from self._split_writes(out)
                    yield from self._handle_last(event)
                    return
                out += self._format_event(event)
            if not out and self._clock.moment() >= self._next_keep_alive():
                out += KEEP_ALIVE
            yield from self._split_writes(out)

    def _read(self, stream: RunStream) -> list[RunEvent]:
        now = self._clock.moment()
        if now >= self._deadline:
            raise ChatError("timeout")
        until = min(self._next_keep_alive(), self._renew_at, self._deadline)
        try:
            return stream.read(max(0.0, until - now))
        except ChatRefused as refused:
            if self._caller_gone:
                raise _CallerGone from None
            raise self._explain_refusal(refused) from refused

    def _format_event(self, event: RunEvent) -> bytes:
        if isinstance(event, ModelNameEvent):
            self._chunks.model = event.model
        elif isinstance(event, TextEvent) and event.text:
            say = self._chunks.write_reasoning if event.reasoning else self._chunks.write_content
            return say(event.text)
        return b""

    def _split_writes(self, out: bytearray) -> Work:
        """Chunks whose size is the model's business, in writes that a slow reader can keep up
        with."""
        for start in range(0, len(out), _WRITE_BYTES):
            yield self._note_write(bytes(out[start : start + _WRITE_BYTES]))

    def _note_write(self, out: bytes) -> bytes:
        self._wrote_at = self._clock.moment()
        return out

    def _next_keep_alive(self) -> float:
        return self._wrote_at + self._limits.keep_alive_s

    # --- Ends -----------------------------------------------------------------------------------

    def _handle_last(self, event: QuestionEvent | EndEvent) -> Work:
        if isinstance(event, QuestionEvent):
            yield from self._pause(event)
        elif event.reason:
            refused = ChatRefused(event.reason, event.message, retryable=event.retryable)
            yield from self._end_with(convert_refusal(refused), event)
        else:
            self._finish(event)
            yield self._chunks.write_stop(event.usage)

    def _pause(self, question: QuestionEvent) -> Work:
        """Settled once the caller has all of it: a question that nobody saw is not waited for."""
        if not self._store_question(question):
            raise self._build_ended_error()
        if self._caller_gone:
            raise _CallerGone
        yield self._chunks.write_question(AskedQuestion(question.tool_call_id, question.arguments))
        self._settled, self._outcome = True, "question"

    def _store_question(self, question: QuestionEvent) -> bool:
        try:
            return self._in_rows(
                lambda: runs.pause(
                    self._lease,
                    question,
                    now=self._clock.now(),
                    question_s=self._limits.question_s,
                )
            )
        except IntegrityError as error:
            raise ChatError("turn_failed", "The intern asked under an id used before") from error
        except DATABASE_GONE as error:
            raise ChatError(
                "turn_failed", "A question could not be kept", retryable=True
            ) from error

    def _end_with(self, error: ChatError, ended: EndEvent | None = None) -> Work:
        """The error's chunks. The intern is free again before its caller can know."""
        usage, self._outcome = None if ended is None else ended.usage, str(error.reason)
        if ended is not None:
            self._finish(ended)
        else:
            self._cancel(str(error.reason))
        if not self._caller_gone:
            yield self._chunks.write_error(error.body(), usage)

    def _finish(self, ended: EndEvent) -> None:
        self._settled, self._usage = True, ended.usage
        try:
            self._in_rows(lambda: runs.finish(self._lease, ended, now=self._clock.now()))
        except DATABASE_GONE as error:
            # The lease will run out.
            log.warning("The end of run %s could not be written: %s", self._lease.run_id, error)

    def _explain_refusal(self, refused: ChatRefused) -> ChatError:
        """The refusal, unless the run was ended from elsewhere: then a lost connection is no
        surprise."""
        if refused.reason == "stream_severed":
            try:
                because = self._in_rows(lambda: runs.read_end_reason(self._lease))
            except DATABASE_GONE:
                because = None
            if because is not None:
                return ChatError("run_ended")
        return convert_refusal(refused)

    def _build_ended_error(self) -> ChatError:
        self._settled = True
        return ChatError("run_ended")

    def _renew(self) -> None:
        """Keep the lease. Raises `ChatError` where the run was ended meanwhile."""
        now = self._clock.moment()
        if now < self._renew_at:
            return
        self._renew_at = now + self._limits.lease_s / _RENEWALS
        try:
            is_mine = self._in_rows(
                lambda: runs.renew(self._lease, now=self._clock.now(), lease_s=self._limits.lease_s)
            )
        except DATABASE_GONE as error:
            log.warning("The lease of run %s was not renewed: %s", self._lease.run_id, error)
        else:
            if not is_mine:
                raise self._build_ended_error()

    # --- Hang-ups -------------------------------------------------------------------------------

    def _on_hang_up(self) -> None:
        """From the event loop: what waits for the runtime ends at once."""
        self._caller_gone = True
        self._abort.abort()

    def _clean_up(self) -> None:
        """Last of all, in every outcome: no run goes on that nobody reads."""
        try:
            if not self._settled:
                self._cancel("client_closed_request")
        finally:
            stream, self._stream = self._stream, None
            if stream is not None:
                stream.close()
            if self._span is not None:
                end_turn(self._span, self._lease, self._outcome, self._usage)
                self._span = None

    def _cancel(self, because: str) -> None:
        """The runtime first, so that the intern is free once its row says so."""
        if self._settled:
            return
        self._settled, self._outcome = True, because
        lease = self._lease
        wait_s = _STOPPING_WAIT_S if self._stopping else 2.0
        self._driver.cancel(lease.intern_id, lease.run_id, wait_s=wait_s)
        try:
            self._in_rows(lambda: runs.cancel(lease, because, now=self._clock.now()))
        except DATABASE_GONE as error:
            log.warning("The end of run %s could not be written: %s", lease.run_id, error)

    def _in_rows(self, work: Callable[[], T]) -> T:
        return run_queries(Lane.OPERATOR, work)
