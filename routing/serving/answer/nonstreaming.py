"""Answering in one piece."""

from functools import partial
from typing import Final

from gateway.http.errors import GatewayError
from gateway.http.jsonio import JsonObject, dumps
from routing.entities.exchange import Answer
from routing.formats.caller import AnswerPieces, CompleteAnswer, Ending, ToolActivity
from routing.formats.chat.answer import clean_message, count_text_chars, join_logprobs, merge_pieces
from routing.formats.embeddings import join_answer
from routing.guarding.answer_texts import CALLED, CAME_TO
from routing.guarding.output_guard import OutputGuard
from routing.plugins.interface import replace_text, rewrite_message
from routing.serving.admission.endpoint_limits import end_attempt_places, settle_attempt
from routing.serving.answer.schema_repair import hold_to_schema
from routing.serving.answer.tool_loop import LoopResult, add_tool_stage, run_tool_loop
from routing.serving.attempts.attempt_answer import read_finish, request_answer
from routing.serving.attempts.attempts import record_success
from routing.serving.attempts.hedging import build_attempts
from routing.serving.request.context import Attempt, RequestContext, RequestProgress
from routing.serving.request.errors import ProviderError
from routing.serving.request.outcome import (
    Outcome,
    answered_outcome,
    failed_outcome,
    guarded_finish,
    loop_outcome,
    mark_broken,
    measure_usage,
    own_usage,
    price,
    report_usage,
    unserved_outcome,
)
from routing.serving.request.stickiness import remember
from routing.serving.request.tool_call_checks import are_well_formed
from routing.serving.settlement.booking import FailureRecorder, settle
from routing.serving.settlement.router_metadata import router_metadata
from routing.statistics.observation import record_attempt
from routing.upstreams.failures import UpstreamFailure

# What its caller reads of an answer that is kept back.
_SILENT: Final[JsonObject] = {"role": "assistant", "content": ""}


def serve_answer(progress: RequestProgress) -> bytes:
    """The answer's body as JSON, charged and recorded. Raises `GatewayError` (recorded too)."""
    attempts = build_attempts(progress)
    try:
        with FailureRecorder(progress, attempts, partial(unserved_outcome, progress)):
            if progress.loop is not None:
                return _finish_loop(progress, run_tool_loop(progress, attempts))
            served = request_answer(progress, attempts)
            if served.failure is not None:
                return _finish_broken(progress, served.attempt, served.answer, served.failure)
            # Before a second call, whose failure would be over with it.
            record_success(served.attempt)
            if progress.schema_check is not None:
                served = hold_to_schema(progress, served)
            return _finish_answer(progress, served.attempt, served.answer)
    finally:
        if progress.loop is not None:
            progress.loop.close()


def _finish_loop(progress: RequestProgress, talk: LoopResult) -> bytes:
    """As `_finish_answer`, for an answer of several turns."""
    attempt, answer, loop = talk.attempt, talk.answer, progress.loop
    assert loop is not None
    progress.served_by = attempt
    pieces: AnswerPieces = loop.pieces
    if loop.annotations:
        pieces = [*pieces, {"role": "assistant", "annotations": loop.annotations}]
    pieces = _guard_pieces(progress, pieces)
    merged = merge_pieces(pieces, hides_reasoning=progress.context.hides_reasoning)
    message = rewrite_message(
        progress.context.plugins, progress.context.chat, merged, progress.stages
    )
    if message.get("content") != merged.get("content"):
        pieces = replace_text(pieces, message["content"])
    if progress.content is not None:
        progress.content.set_answer(message)
    native = answer.native_finish if talk.is_last_word else None
    outcome = loop_outcome(
        progress,
        finish_reason=guarded_finish(progress, talk.finish_reason),
        native_finish=native,
        service_tier=answer.service_tier,
    )

    def write() -> bytes:
        key = progress.context.conversation_key
        remember(key, attempt.endpoint, own_usage(attempt, outcome))
        add_tool_stage(progress)
        answer.native_finish, answer.logprobs = native, join_logprobs(pieces)
        if progress.output_guard is not None and progress.output_guard.acts:
            answer.beside = None
        return dumps(_build_body(progress, attempt, answer, message, outcome, pieces=pieces))

    booked = mark_broken(outcome, attempt) if outcome.finish_reason == "error" else outcome
    body = settle(progress, booked, meanwhile=write)
    assert body is not None
    return body


def _finish_answer(progress: RequestProgress, attempt: Attempt, answer: Answer) -> bytes:
    progress.served_by = attempt
    check, chars = progress.schema_check, count_text_chars(answer.message)
    prompt_chars = None if check is None else check.prompt_text_chars
    usage = measure_usage(progress, attempt, answer.usage, chars, prompt_chars=prompt_chars)
    if attempt.failure is None:
        calls, tokens = answer.message.get("tool_calls"), usage.completion_tokens
        are_tools_good = are_well_formed(calls) if calls else None
        record_attempt(attempt, streamed=False, tokens=tokens, tools_good=are_tools_good)
    context, message = progress.context, _clean_message(progress.context, answer)
    if context.plugins:
        message = rewrite_message(context.plugins, context.chat, message, progress.stages)
    finish = read_finish(answer, message)
    if progress.output_guard is not None:
        # Guards may be asked, which take their time.
        settle_attempt(attempt, usage.total_tokens)
        message = _guard_message(progress.output_guard, answer, message)
        finish = guarded_finish(progress, finish)
    if progress.content is not None:
        progress.content.set_answer(message)
    outcome = answered_outcome(
        progress,
        attempt,
        usage,
        finish_reason=finish,
        native_finish=answer.native_finish,
        service_tier=answer.service_tier,
    )

    def write() -> bytes:
        if context.conversation_key is not None:
            remember(context.conversation_key, attempt.endpoint, usage)
        body = _build_body(progress, attempt, answer, message, outcome)
        return join_answer(body) if context.chat.input_chars else dumps(body)

    body = settle(progress, outcome, meanwhile=write)
    assert body is not None
    return body


def _finish_broken(
    progress: RequestProgress, attempt: Attempt, answer: Answer, failure: UpstreamFailure
) -> bytes:
    """What there is, in formats that can say that it broke off; the failure in others."""
    progress.served_by = attempt
    usage = measure_usage(progress, attempt, answer.usage, count_text_chars(answer.message))
    outcome = answered_outcome(
        progress,
        attempt,
        usage,
        finish_reason="error",
        native_finish=answer.native_finish,
        service_tier=answer.service_tier,
    )
    message = _clean_message(progress.context, answer)
    if progress.output_guard is not None:
        message = _guard_message(progress.output_guard, answer, message)
    if progress.content is not None:
        progress.content.set_answer(message)
    try:
        body = _build_body(progress, attempt, answer, message, outcome, failure=failure)
    except GatewayError as refusal:
        progress.served_by = None
        error = ProviderError(progress.attempts)
        error.status, error.error_type = refusal.status, refusal.error_type
        owed = failed_outcome(error, usage=usage, cost=price(progress, attempt, usage))
        if progress.content is not None:
            progress.content.set_error(error)
        settle(progress, owed)
        raise error from None
    settle(progress, mark_broken(outcome, attempt))
    return dumps(body)


def _guard_message(guard: OutputGuard, answer: Answer, message: JsonObject) -> JsonObject:
    if guard.acts:
        # They spell the text, or nobody knows what they say.
        answer.logprobs = answer.beside = None
    guarded = guard.guard_message(message)
    return guarded if guard.ask_external_of([guarded]) else dict(_SILENT)


def _guard_pieces(progress: RequestProgress, pieces: AnswerPieces) -> AnswerPieces:
    """The pieces as the caller may read them."""
    guard = progress.output_guard
    if guard is None:
        return pieces
    end_attempt_places(progress)
    guarded: list[JsonObject | ToolActivity] = []
    for each in pieces:
        if isinstance(each, ToolActivity):
            guard.guard_activity(each, (*CALLED, *CAME_TO))
        guarded.append(each if isinstance(each, ToolActivity) else guard.guard_message(each))
    messages = [each for each in guarded if isinstance(each, dict)]
    if guard.withheld or not guard.ask_external_of(messages):
        return [dict(_SILENT)]
    if guard.acts:
        for each in guarded:
            if isinstance(each, dict):
                each.pop("logprobs", None)
    return guarded


def _clean_message(context: RequestContext, answer: Answer) -> JsonObject:
    return clean_message(
        answer.message,
        exclude_reasoning=context.hides_reasoning,
        new_call_id=context.format.new_call_id,
    )


def _build_body(
    progress: RequestProgress,
    attempt: Attempt,
    answer: Answer,
    message: JsonObject,
    outcome: Outcome,
    *,
    failure: UpstreamFailure | None = None,
    pieces: AnswerPieces = (),
) -> JsonObject:
    """Raises `GatewayError` for a `failure` that the caller's format has no place for."""
    assert outcome.finish_reason is not None
    ending = Ending(
        finish_reason=outcome.finish_reason,
        native_finish=answer.native_finish,
        usage=report_usage(outcome, attempt),
        service_tier=answer.service_tier,
        stop_sequence=answer.stop_sequence,
        native=answer.native if progress.passes_through(attempt) else None,
        failure={
            "code": failure.caller_status,
            "message": failure.message,
            "metadata": {"error_type": failure.error_type},
        }
        if failure
        else None,
        router_metadata=router_metadata(progress, selected=attempt)
        if progress.context.wants_metadata
        else None,
        beside=answer.beside,
    )
    return progress.context.format.write_answer(
        CompleteAnswer(
            progress.context.identify_answer(attempt),
            progress.context.chat,
            message,
            answer.logprobs,
            answer.system_fingerprint,
            ending,
            pieces,
        )
    )
