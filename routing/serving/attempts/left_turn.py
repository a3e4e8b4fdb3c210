"""A turn of a model that a tool asks, where the caller leaves: what its provider bills is charged.

Nobody is told of such an answer before it is whole, so there is no stream to read on from.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from gevent import GreenletExit, spawn

from gateway.outbound.errors import OutboundError
from gateway.outbound.exchange import AbortHandle
from routing.entities.exchange import Answer
from routing.formats.chat.answer import count_text_chars
from routing.serving.request.call import Attempt, Call
from routing.serving.request.outcome import measured, note_turn
from routing.upstreams.failures import UpstreamFailure

if TYPE_CHECKING:
    from gevent import Greenlet

Ask = Callable[[AbortHandle], Answer]


def counted_turn(
    call: Call, attempt: Attempt, ask: Ask, *, is_good: Callable[[Answer], bool]
) -> Answer:
    """What `ask` returns, or raises. Who is killed meanwhile because the caller left stays until
    the turn is counted: at once where the provider stops its bill, else once it has answered."""
    abort = AbortHandle()
    job = spawn(_captured, ask, abort)
    try:
        job.join()
    except GreenletExit:
        try:
            if call.root.caller_left:
                _count(call, attempt, job, abort, is_good)
            raise
        finally:
            if not job.ready():
                abort.abort()
    answer, error = job.get()
    if answer is None:
        raise error
    result: Answer = answer
    return result


def _count(
    call: Call,
    attempt: Attempt,
    job: "Greenlet",
    abort: AbortHandle,
    is_good: Callable[[Answer], bool],
) -> None:
    if not job.ready() and attempt.endpoint.supports_cancellation:
        # There is a connection once there is somebody to be sent the prompt.
        if abort.connection is not None:
            usage = measured(call, attempt, None, 0)
            note_turn(call, attempt, usage, native_finish=None, cancelled=True)
        return
    job.join()
    # Without a value there is a bug, of which gevent has told.
    answer = job.value[0] if job.value else None
    if answer is not None and is_good(answer):
        usage = measured(call, attempt, answer.usage, count_text_chars(answer.message))
        note_turn(call, attempt, usage, native_finish=answer.native_finish, cancelled=True)


def _captured(ask: Ask, abort: AbortHandle) -> tuple[Answer | None, Exception | None]:
    """gevent prints what a greenlet raises; so errors come back as values."""
    try:
        return ask(abort), None
    except (UpstreamFailure, OutboundError) as error:
        return None, error
