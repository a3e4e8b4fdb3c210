"""One chat request, from what it says to a stream or to the word that it was passed on."""

from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Any, TypeVar
from uuid import UUID

from gateway.database.db import DATABASE_GONE, Lane, run_queries
from gateway.http.responses import log
from gateway.limits.limits import (
    MINUTE_S,
    Exceeded,
    Limit,
    WindowsTaken,
    build_refusal,
    rate_limiter,
)
from gateway.live_settings import settings
from gateway.outbound.exchange import AbortHandle
from gateway.tracing.open_span import OpenSpan
from interns.chat import runs
from interns.chat.body import ChatPrompt, ChatReply
from interns.chat.clock import CLOCK, Clock
from interns.chat.errors import RATE_RETRY_S, ChatError, TurnsLimited, convert_refusal
from interns.chat.runs import ExpiredRun, RunLease, StartedRun, SteeredRun
from interns.chat.stream import TurnLimits, TurnStream
from interns.runtime import driver as runtimes
from interns.runtime.driver import Agents, ChatRefused, RunStream, TurnOrder
from interns.spans import begin_span

T = TypeVar("T")
# A turn that ends while it is being steered is one whose session is free: then the text begins the
# next one.
_TRIES = 3
# The gateway judges when a question has waited too long; the runtime only if nobody else does.
_QUESTION_GRACE_S = 10.0


class TurnRequest:
    """The caller and the intern. Turns are counted for `acting`, and `by` is their number."""

    def __init__(
        self,
        intern_id: UUID,
        *,
        acting: str,
        by: int | None,
        client: object,
        driver: Agents,
        clock: Clock = CLOCK,
    ) -> None:
        self.intern_id = intern_id
        self._acting = acting
        self._by = by
        self._client = client
        self._driver = driver
        self._clock = clock

    def prompt(self, body: ChatPrompt) -> TurnStream | SteeredRun:
        """A new turn's stream, opened; or where the session's own is running, the text was
        delivered there. Raises `ChatError` and `TurnsLimited`."""
        for _ in range(_TRIES):
            taken = self._count_turn()
            try:
                begun = _in_rows(
                    lambda: runs.begin(
                        intern_id=self.intern_id,
                        session_id=body.session_id,
                        approval_mode=body.approval_mode,
                        by=self._by,
                        now=self._now(),
                        lease_s=settings.INTERN_LEASE_SECONDS,
                    )
                )
            except BaseException:
                _return_turn(taken)
                raise
            if isinstance(begun, StartedRun):
                for run_id in begun.left_over:
                    self._driver.cancel(self.intern_id, run_id)
                span = begin_span("invoke_agent", "server")
                start = partial(self._start_turn, body, begun.lease, span)
                return self._open_stream(begun.lease, start, span)
            _return_turn(taken)
            if self._steer(begun, body.text):
                return begun
        raise ChatError("busy")

    def reply(self, body: ChatReply) -> TurnStream:
        """The stream of the run that goes on, opened. Raises `ChatError`."""
        reopened = _in_rows(
            lambda: runs.reopen(
                intern_id=self.intern_id,
                session_id=body.session_id,
                tool_call_id=body.tool_call_id,
                answer=body.content,
                now=self._now(),
                lease_s=settings.INTERN_LEASE_SECONDS,
            )
        )
        if isinstance(reopened, ExpiredRun):
            self._driver.cancel(self.intern_id, reopened.run_id)
            raise ChatError("interaction_not_pending")
        start = partial(self._send_answer, body, reopened)
        return self._open_stream(reopened.lease, start, begin_span("invoke_agent", "server"))

    # --- Prompts --------------------------------------------------------------------------------

    def _count_turn(self) -> WindowsTaken | None:
        most = settings.RATE_INTERN_TURNS
        if not most:
            return None
        found = rate_limiter().take(Limit(f"intern_turns:{self._acting}", most, MINUTE_S))
        if isinstance(found, Exceeded):
            error = build_refusal(found, source="router_intern_turns")
            headers = error.headers | {"Retry-After": str(RATE_RETRY_S)}
            raise TurnsLimited(metadata=error.metadata, headers=headers)
        return found

    def _steer(self, steered: SteeredRun, text: str) -> bool:
        """Whether the run took it; one that is over by now did not."""
        try:
            self._driver.steer(self.intern_id, steered.run_id, text)
        except ChatRefused as refused:
            if refused.reason == "run_ended":
                # Its stream writes the row's end within a moment.
                # One that waits for an answer has no stream that would report its end.
                _in_rows(lambda: runs.close_waiting(steered.run_id, "run_ended", now=self._now()))
                return False
            raise convert_refusal(refused) from refused
        return True

    def _start_turn(
        self,
        body: ChatPrompt,
        lease: RunLease,
        span: OpenSpan | None,
        abort: AbortHandle,
        deadline: float,
    ) -> RunStream:
        turn = TurnOrder(
            session_id=lease.session_id,
            run_id=lease.run_id,
            text=body.text,
            approval_mode=body.approval_mode,
            question_s=settings.INTERN_QUESTION_SECONDS + _QUESTION_GRACE_S,
            retained_bytes=settings.INTERN_RETAINED_BYTES,
            traceparent="" if span is None else span.traceparent,
        )
        try:
            return self._driver.turn(self.intern_id, turn, deadline=deadline, abort=abort)
        except ChatRefused as refused:
            if refused.reason not in ("busy", "intern_unreachable"):
                # It may have begun all the same.
                self._driver.cancel(self.intern_id, lease.run_id)
            # In no variable: an error whose traceback can see it is a cycle.
            self._drop(lease, str(_convert_turn_refusal(refused).reason))
            raise _convert_turn_refusal(refused) from refused

    # --- Answers --------------------------------------------------------------------------------

    def _send_answer(
        self, body: ChatReply, reopened: runs.ReopenedRun, abort: AbortHandle, deadline: float
    ) -> RunStream:
        lease = reopened.lease
        reply = runtimes.QuestionAnswer(lease.run_id, body.tool_call_id, body.content)
        try:
            return self._driver.answer(self.intern_id, reply, deadline=deadline, abort=abort)
        except ChatRefused as refused:
            if refused.reason in ("bad_request", "intern_unreachable"):
                # The runtime did not get the answer, or did not take it: the question is as open as
                # before.
                _write_best_effort(lambda: runs.undo_reopen(lease, reopened.interaction_id))
            else:
                self._driver.cancel(self.intern_id, lease.run_id)
                self._drop(lease, refused.reason)
            raise convert_refusal(refused) from refused

    # --- Both -----------------------------------------------------------------------------------

    def _open_stream(self, lease: RunLease, start: Any, span: OpenSpan | None) -> TurnStream:
        stream = TurnStream(
            lease,
            start,
            driver=self._driver,
            client=self._client,
            limits=read_limits(),
            clock=self._clock,
            span=span,
        )
        stream.open()
        return stream

    def _drop(self, lease: RunLease, because: str) -> None:
        _write_best_effort(lambda: runs.cancel(lease, because, now=self._now()))

    def _now(self) -> datetime:
        return self._clock.now()


def read_limits() -> TurnLimits:
    return TurnLimits(
        turn_s=settings.INTERN_TURN_SECONDS,
        question_s=settings.INTERN_QUESTION_SECONDS,
        keep_alive_s=settings.INTERN_KEEPALIVE_SECONDS,
        lease_s=settings.INTERN_LEASE_SECONDS,
        stalled_s=settings.ROUTER_STALLED_READER_SECONDS,
    )


def _convert_turn_refusal(refused: ChatRefused) -> ChatError:
    """There is nothing wrong with what the caller said, whatever the runtime thinks of it."""
    is_ours = refused.reason == "bad_request"
    return ChatError("intern_rejected") if is_ours else convert_refusal(refused)


def _return_turn(taken: WindowsTaken | None) -> None:
    if taken is not None:
        rate_limiter().give_back(taken)


def _in_rows(work: Callable[[], T]) -> T:
    return run_queries(Lane.OPERATOR, work)


def _write_best_effort(work: Callable[[], object]) -> None:
    """The lease runs out where the database does not answer."""
    try:
        _in_rows(work)
    except DATABASE_GONE as error:
        log.warning("A run's row could not be written: %s", error)
