"""Answering in one piece."""

from functools import partial
from typing import Any

from gateway.http.errors import GatewayError
from gateway.http.jsonio import dumps
from routing.entities.exchange import Answer
from routing.formats.caller import AnswerPieces, CompleteAnswer, Ending
from routing.formats.chat.answer import clean_message, count_text_chars, join_logprobs, merge_pieces
from routing.history.content_writer import wait_until_stored
from routing.metering.usage import Usage
from routing.plugins.interface import replace_text, rewrite_message
from routing.serving.attempts.attempts import Attempts
from routing.serving.attempts.one_answer import answer_of, finish_of
from routing.serving.attempts.own_credentials import went_well
from routing.serving.request.call import Attempt, Call
from routing.serving.request.errors import ProviderError
from routing.serving.request.outcome import (
    Outcome,
    answered,
    failed,
    loop_outcome,
    measured,
    price,
    report_of,
)
from routing.serving.request.stickiness import remember
from routing.serving.request.tool_calls import well_formed
from routing.serving.settlement.booking import Accounted, book, wait_for
from routing.serving.settlement.metadata import wished_metadata
from routing.serving.tool_loop.conversation import Talk, converse
from routing.serving.tool_loop.turns import tell_stage
from routing.statistics.observation import record_attempt
from routing.upstreams.failures import UpstreamFailure


def whole_answer(call: Call) -> bytes:
    """The answer's body as JSON, charged and recorded. Raises `GatewayError` (recorded too)."""
    try:
        return _whole_answer(call)
    finally:
        if call.loop is not None:
            call.loop.close()
        wait_until_stored(call.content)


def _whole_answer(call: Call) -> bytes:
    attempts = Attempts(call)
    with Accounted(call, attempts, partial(failed, loop=call.loop)):
        if call.loop is not None:
            return _conversed(call, converse(call, attempts))
        served = answer_of(call, attempts)
        if served.failure is not None:
            return _told_broken(call, served.attempt, served.answer, served.failure)
        return _answered(call, served.attempt, served.answer)


def _conversed(call: Call, talk: Talk) -> bytes:
    """As `_answered`, for an answer of several turns."""
    attempt, answer, loop = talk.attempt, talk.answer, call.loop
    assert loop is not None
    call.served_by = attempt
    pieces: AnswerPieces = loop.pieces
    if loop.annotations:
        pieces = [*pieces, {"role": "assistant", "annotations": loop.annotations}]
    said = merge_pieces(pieces, hides_reasoning=call.hides_reasoning)
    message = rewrite_message(call.plugins, call.chat, said, call.stages)
    if message.get("content") != said.get("content"):
        pieces = replace_text(pieces, message["content"])
    if call.content is not None:
        call.content.set_answer(message)
    native = answer.native_finish if talk.is_last_word else None
    outcome = loop_outcome(
        call,
        finish_reason=talk.finish_reason,
        native_finish=native,
        service_tier=answer.service_tier,
    )
    ticket = book(call, outcome)
    try:
        remember(call.sticky, attempt.endpoint, outcome.usage)
        tell_stage(call)
        answer.native_finish, answer.logprobs = native, join_logprobs(pieces)
        return dumps(_body(call, attempt, answer, message, outcome, pieces=pieces))
    finally:
        wait_for(ticket)


def _answered(call: Call, attempt: Attempt, answer: Answer) -> bytes:
    call.served_by = attempt
    went_well(attempt)
    usage = measured(call, attempt, answer.usage, count_text_chars(answer.message))
    if attempt.failure is None:
        judged = well_formed(answer.message.get("tool_calls"))
        tokens = usage.completion_tokens
        record_attempt(attempt, streamed=False, tokens=tokens, tools_good=judged)
    message = rewrite_message(call.plugins, call.chat, _cleaned(call, answer), call.stages)
    if call.content is not None:
        call.content.set_answer(message)
    outcome = _outcome(call, attempt, answer, usage, finish_of(answer, message))
    ticket = book(call, outcome)
    try:
        # Done while the database works; it leaves once its charge is in the books.
        remember(call.sticky, attempt.endpoint, usage)
        return dumps(_body(call, attempt, answer, message, outcome))
    finally:
        wait_for(ticket)


def _told_broken(call: Call, attempt: Attempt, answer: Answer, failure: UpstreamFailure) -> bytes:
    """What there is, in formats that can say that it broke off; the failure in others."""
    call.served_by = attempt
    usage = measured(call, attempt, answer.usage, count_text_chars(answer.message))
    outcome = _outcome(call, attempt, answer, usage, "error")
    message = _cleaned(call, answer)
    if call.content is not None:
        call.content.set_answer(message)
    try:
        body = _body(call, attempt, answer, message, outcome, failure=failure)
    except GatewayError as refusal:
        call.served_by = None
        error = ProviderError(call.attempts)
        error.status, error.error_type = refusal.status, refusal.error_type
        owed = failed(error, usage=usage, cost=price(call, attempt, usage))
        if call.content is not None:
            call.content.set_error(error)
        wait_for(book(call, owed))
        raise error from None
    wait_for(book(call, outcome))
    return dumps(body)


def _cleaned(call: Call, answer: Answer) -> dict[str, Any]:
    return clean_message(
        answer.message, exclude_reasoning=call.hides_reasoning, new_call_id=call.format.new_call_id
    )


def _outcome(call: Call, attempt: Attempt, answer: Answer, usage: Usage, finish: str) -> Outcome:
    return answered(
        call,
        attempt,
        usage,
        finish_reason=finish,
        native_finish=answer.native_finish,
        service_tier=answer.service_tier,
    )


def _body(
    call: Call,
    attempt: Attempt,
    answer: Answer,
    message: dict[str, Any],
    outcome: Outcome,
    *,
    failure: UpstreamFailure | None = None,
    pieces: AnswerPieces = (),
) -> dict[str, Any]:
    """Raises `GatewayError` for a `failure` that the caller's format has no place for."""
    assert outcome.finish_reason is not None
    ending = Ending(
        finish_reason=outcome.finish_reason,
        native_finish=answer.native_finish,
        usage=report_of(outcome, attempt),
        service_tier=answer.service_tier,
        stop_sequence=answer.stop_sequence,
        native=answer.native if call.passes(attempt) else None,
        failure=_told(failure) if failure else None,
        router_metadata=wished_metadata(call, selected=attempt),
        beside=answer.beside,
    )
    return call.format.write_answer(
        CompleteAnswer(
            call.served(attempt),
            call.chat,
            message,
            answer.logprobs,
            answer.system_fingerprint,
            ending,
            pieces,
        )
    )


def _told(failure: UpstreamFailure) -> dict[str, Any]:
    return {
        "code": failure.told_status,
        "message": failure.message,
        "metadata": {"error_type": failure.error_type},
    }
