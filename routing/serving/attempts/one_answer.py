"""One answer in one piece, from whichever endpoint of a call's plan gives it."""

from functools import partial
from typing import Any, NamedTuple

from gateway.database.db import under_gevent
from gateway.outbound.errors import OutboundError
from gateway.outbound.exchange import AbortHandle
from routing.entities.exchange import Answer
from routing.formats.chat.answer import has_content, normalize_finish
from routing.serving.attempts.attempts import Attempts
from routing.serving.attempts.left_turn import counted_turn
from routing.serving.attempts.upstream_call import send
from routing.serving.request import process
from routing.serving.request.call import Attempt, Call
from routing.upstreams.failures import UpstreamFailure, from_door, from_error_object, refused
from routing.upstreams.wires import wire_of


class Served(NamedTuple):
    """An answer and who gave it; with a `failure`, as much as came before the upstream broke it off
    by its own word."""

    attempt: Attempt
    answer: Answer
    failure: UpstreamFailure | None = None


def answer_of(call: Call, attempts: Attempts) -> Served:
    """The first good answer, else what there is of a broken one, or a refusal where no other model
    did better. Raises `GatewayError` where there is nothing."""
    kept: Served | None = None
    for attempt in attempts:
        try:
            answer = _ask(call, attempt)
            if _is_plain(answer):
                return Served(attempt, answer)
            failure = _breakage(answer)
            if failure is not None:
                kept = Served(attempt, answer, failure)
            elif _is_refusal(answer) and attempts.another_model_left(attempt):
                failure, kept = refused(), Served(attempt, answer)
            else:
                return Served(attempt, answer)
        except UpstreamFailure as error:
            failure = error
            kept = kept if kept and kept.failure is None else None
        attempts.failed(attempt, failure)
    if kept is not None and has_content(kept.answer.message):
        return kept
    raise attempts.error()


def finish_of(answer: Answer, message: dict[str, Any]) -> str:
    """The finish reason of an answer with this message."""
    return normalize_finish(answer.native_finish, has_tool_calls=bool(message.get("tool_calls")))


def _ask(call: Call, attempt: Attempt) -> Answer:
    ask = partial(_received, call, attempt)
    if call.parent is None or not under_gevent():
        return ask(AbortHandle())
    return counted_turn(call, attempt, ask, is_good=_is_good)


def _received(call: Call, attempt: Attempt, abort: AbortHandle) -> Answer:
    reply = send(call, attempt, abort_handle=abort)
    try:
        with reply:
            raw = reply.read_all()
    except OutboundError as error:
        raise from_door(error) from error
    answer = wire_of(attempt.endpoint.provider.kind).answer(
        raw, reply.headers.get("content-type", "")
    )
    attempt.ended = attempt.first_token = process.now()
    attempt.upstream_id = answer.upstream_id
    return answer


def _is_plain(answer: Answer) -> bool:
    """Whether it ended as nearly all do; what is not so is looked at closely."""
    is_good = answer.native_finish == "stop" and answer.error is None
    return is_good and not answer.message.get("refusal")


def _breakage(answer: Answer) -> UpstreamFailure | None:
    if answer.error is not None:
        return from_error_object(answer.error)
    if normalize_finish(answer.native_finish, has_tool_calls=False) != "error":
        return None
    return from_error_object({"message": "the upstream broke off its answer"})


def _is_good(answer: Answer) -> bool:
    return _breakage(answer) is None


def _is_refusal(answer: Answer) -> bool:
    is_filtered = finish_of(answer, answer.message) == "content_filter"
    return is_filtered or bool(answer.message.get("refusal"))
