"""One answer in one piece, from the first endpoint of a request's plan that gives it.

If the caller leaves while a tool asks a model, what the provider bills for that turn is charged.
Nobody reads such an answer before it is complete, so there is no stream to read on from.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from gevent import GreenletExit, spawn

from gateway.database.db import under_gevent
from gateway.http.jsonio import JsonObject
from gateway.outbound.errors import OutboundError
from gateway.outbound.exchange import AbortHandle
from gateway.outbound.reply import Reply
from routing.entities.exchange import Answer
from routing.formats.chat.answer import count_text_chars, has_content, normalize_finish
from routing.metering.usage import Usage
from routing.serving.admission.endpoint_limits import settle_attempt
from routing.serving.attempts.attempts import Attempts
from routing.serving.attempts.hedging import HedgingAttempts, Race
from routing.serving.attempts.upstream_call import catch_errors, send
from routing.serving.request import process
from routing.serving.request.context import Attempt, RequestProgress
from routing.serving.request.outcome import measure_usage, note_house_cost, note_turn
from routing.upstreams.embeddings import find_mismatch
from routing.upstreams.failures import (
    UpstreamFailure,
    from_error_object,
    from_outbound_error,
    refused_answer,
)
from routing.upstreams.wires import get_wire

if TYPE_CHECKING:
    from gevent import Greenlet


class Served(NamedTuple):
    """An answer and who gave it; with a `failure`, as much as came before the upstream broke it off
    by its own word."""

    attempt: Attempt
    answer: Answer
    failure: UpstreamFailure | None = None


def request_answer(progress: RequestProgress, attempts: Attempts) -> Served:
    """The first good answer, else what there is of a broken one, or a refusal where no other model
    did better. Raises `GatewayError` where there is nothing."""
    fallback: Served | None = None
    for attempt in attempts:
        race: Race[_WholeCall] | None = None
        try:
            if isinstance(attempts, HedgingAttempts) and attempts.may_race(attempt):
                race = Race(progress, attempts, attempt, partial(_WholeCall, progress))
                attempt, answer = _run_race(race)
            elif progress.parent is None or not under_gevent():
                answer = _read_answer(progress, attempt, send(progress, attempt))
            else:
                answer = run_counted_turn(progress, attempt, partial(_ask, progress, attempt))
            has_refusal = bool(answer.message.get("refusal"))
            if answer.native_finish == "stop" and answer.error is None and not has_refusal:
                # Nearly all answers end so; what does not is looked at closely.
                return Served(attempt, answer)
            failure = _find_breakage(answer)
            has_refusal |= read_finish(answer, answer.message) == "content_filter"
            if failure is not None:
                fallback = Served(attempt, answer, failure)
            elif has_refusal and attempts.has_another_model(attempt):
                failure, fallback = refused_answer(), Served(attempt, answer)
            else:
                return Served(attempt, answer)
            _note_unserved(progress, attempt, answer)
        except UpstreamFailure as error:
            failure = error
            fallback = fallback if fallback and fallback.failure is None else None
        attempts.record_failure(attempt if race is None else race.attempt, failure)
    if fallback is not None and has_content(fallback.answer.message):
        return fallback
    raise attempts.error()


def read_finish(answer: Answer, message: JsonObject) -> str:
    """The finish reason of an answer with this message."""
    return normalize_finish(answer.native_finish, has_tool_calls=bool(message.get("tool_calls")))


def _ask(progress: RequestProgress, attempt: Attempt, abort: AbortHandle) -> Answer:
    return _read_answer(progress, attempt, send(progress, attempt, abort_handle=abort))


class _WholeCall:
    """See `RacingCall`. The first content of an answer in one piece comes with its last."""

    def __init__(self, progress: RequestProgress, attempt: Attempt) -> None:
        self.attempt = attempt
        self.abort = AbortHandle()
        self.answer: Answer | None = None
        self.is_silent = True
        self._progress = progress

    def run(self) -> None:
        reply = send(self._progress, self.attempt, abort_handle=self.abort)
        self.is_silent = False
        self.answer = answer = _read_answer(self._progress, self.attempt, reply)
        if _find_breakage(answer) is not None:
            _note_unserved(self._progress, self.attempt, answer)

    def find_failure(self) -> UpstreamFailure | None:
        assert self.answer is not None
        return _find_breakage(self.answer)

    def measure_bill(self) -> Usage | None:
        if self.answer is not None:
            produced_chars = count_text_chars(self.answer.message)
            return measure_usage(self._progress, self.attempt, self.answer.usage, produced_chars)
        # There is a connection once there is somebody to be sent the prompt.
        if self.abort.connection is None:
            return None
        return measure_usage(self._progress, self.attempt, None, 0)

    def close(self) -> None:
        """What was read to its end is closed."""


def _run_race(race: Race[_WholeCall]) -> tuple[Attempt, Answer]:
    """The winner and its answer. Raises `UpstreamFailure`."""
    try:
        race.wait()
    except BaseException:  # Also a greenlet being killed must not leave calls behind.
        race.cancel_all()
        raise
    if race.winner is None:
        assert race.failure is not None
        raise race.failure
    assert race.winner.answer is not None
    return race.winner.attempt, race.winner.answer


def _read_answer(progress: RequestProgress, attempt: Attempt, reply: Reply) -> Answer:
    try:
        with reply:
            raw = reply.read_all()
    except OutboundError as error:
        raise from_outbound_error(error) from error
    answer = get_wire(attempt.endpoint.wire_kind).answer(raw, reply.headers.get("content-type", ""))
    chat = progress.context.chat
    if chat.input_chars and (failure := find_mismatch(answer, chat.input_chars, chat.original)):
        _note_unserved(progress, attempt, answer)
        raise failure
    attempt.ended = attempt.first_token = process.now()
    attempt.upstream_id = answer.upstream_id
    return answer


def _note_unserved(progress: RequestProgress, attempt: Attempt, answer: Answer) -> None:
    """Note what the provider bills of an answer that nobody may come to read, and counts. Others
    may be asked yet, so that the endpoint's place is free at once."""
    tokens = 0
    if answer.usage or has_content(answer.message):
        chars = count_text_chars(answer.message)
        usage = measure_usage(progress, attempt, answer.usage, chars)
        note_house_cost(progress, attempt, usage)
        tokens = usage.total_tokens
    if progress.loop is None:
        settle_attempt(attempt, tokens)


def _find_breakage(answer: Answer) -> UpstreamFailure | None:
    if answer.error is not None:
        return from_error_object(answer.error)
    if normalize_finish(answer.native_finish, has_tool_calls=False) != "error":
        return None
    return from_error_object({"message": "the upstream broke off its answer"})


def run_counted_turn(
    progress: RequestProgress, attempt: Attempt, ask: Callable[[AbortHandle], Answer]
) -> Answer:
    """What `ask` returns, or raises. When the caller leaves, the greenlet is killed but stays until
    the turn is counted. That is at once where the provider stops its bill, else once it has
    answered."""
    abort = AbortHandle()
    job = spawn(catch_errors, partial(ask, abort))
    try:
        job.join()
    except GreenletExit:
        try:
            if progress.root_loop.caller_left:
                _count_abandoned_turn(progress, attempt, job, abort)
            raise
        finally:
            if not job.ready():
                abort.abort()
    answer, error = job.get()
    if answer is None:
        raise error
    result: Answer = answer
    return result


def _count_abandoned_turn(
    progress: RequestProgress, attempt: Attempt, job: "Greenlet", abort: AbortHandle
) -> None:
    if not job.ready() and attempt.endpoint.supports_cancellation:
        # There is a connection once there is somebody to be sent the prompt.
        if abort.connection is not None:
            usage = measure_usage(progress, attempt, None, 0)
            note_turn(progress, attempt, usage, native_finish=None, cancelled=True)
        return
    job.join()
    # Without a value there is a bug, which gevent has logged.
    answer = job.value[0] if job.value else None
    if answer is not None and _find_breakage(answer) is None:
        usage = measure_usage(progress, attempt, answer.usage, count_text_chars(answer.message))
        note_turn(progress, attempt, usage, native_finish=answer.native_finish, cancelled=True)
