"""Answering in one piece."""

from dataclasses import dataclass
from typing import Any

from gevent import GreenletExit

from gateway.http.errors import GatewayError, Unavailable
from gateway.http.jsonio import dumps
from gateway.live_settings import settings
from routing.exchange import Answer
from routing.formats.caller import Ending, Whole
from routing.formats.chat.message import clean_message, has_content, text_chars
from routing.formats.finish import normal_finish
from routing.history.keeper import keep, wait_kept
from routing.ids import tool_call_id
from routing.metering.tickets import Ticket
from routing.metering.usage import Usage
from routing.metering.writer import ledger
from routing.serving import limiting, process
from routing.serving.attempts import Attempts
from routing.serving.call import Attempt, Call
from routing.serving.errors import ProviderError
from routing.serving.metadata import wished_metadata
from routing.serving.observing import observed
from routing.serving.outcome import (
    Outcome,
    answered,
    failed,
    measured,
    price,
    report_of,
    settle_order,
)
from routing.serving.own_credentials import went_well
from routing.serving.stickiness import remember
from routing.serving.tool_calls import well_formed
from routing.serving.upstream_call import send
from routing.upstreams.door_errors import DoorError
from routing.upstreams.failures import (
    UpstreamFailure,
    from_door,
    from_error_object,
    refused,
)
from routing.upstreams.wires import wire_of


@dataclass(slots=True)
class _Broken:
    """An answer to fall back from: partial output of an upstream that broke off by its own word,
    or a refusal (then without `failure`: told when no other model does better, it is a success)."""

    attempt: Attempt
    answer: Answer
    failure: UpstreamFailure | None


def whole_answer(call: Call) -> bytes:
    """The answer's body as JSON, charged and recorded. Raises `GatewayError` (recorded too)."""
    try:
        return _whole_answer(call)
    finally:
        wait_kept(call.content)


def _whole_answer(call: Call) -> bytes:
    attempts = Attempts(call)
    broken: _Broken | None = None
    try:
        for attempt in attempts:
            try:
                answer = _ask(call, attempt)
                failure = _breakage(answer)
                if failure is not None:
                    broken = _Broken(attempt, answer, failure)
                elif _is_refusal(answer) and attempts.another_model_left(attempt):
                    failure, broken = refused(), _Broken(attempt, answer, None)
                else:
                    return _answered(call, attempt, answer)
            except UpstreamFailure as error:
                failure = error
                broken = broken if broken and broken.failure is None else None
            attempts.failed(attempt, failure)
        if broken is not None and has_content(broken.answer.message):
            return _told_broken(call, broken)
        raise attempts.error()
    except GatewayError as error:
        _record_failure(call, attempts, error)
        raise
    except GreenletExit as stop:
        # The worker is stopping: there is time to tell the caller, none to wait for the ledger.
        _record_failure(call, attempts, Unavailable(), wait=False)
        raise Unavailable() from stop
    except Exception:
        # A bug of ours must not keep the caller's money held until the lease ends.
        _record_failure(call, attempts, GatewayError())
        raise


def _ask(call: Call, attempt: Attempt) -> Answer:
    reply = send(call, attempt)
    try:
        with reply:
            raw = reply.read_all()
    except DoorError as error:
        raise from_door(error) from error
    answer = wire_of(attempt.endpoint.provider.kind).answer(
        raw, reply.headers.get("content-type", "")
    )
    attempt.ended = attempt.first_token = process.now()
    attempt.upstream_id = answer.upstream_id
    return answer


def _breakage(answer: Answer) -> UpstreamFailure | None:
    if answer.error is not None:
        return from_error_object(answer.error)
    if normal_finish(answer.native_finish, has_tool_calls=False, refused=False) != "error":
        return None
    return from_error_object({"message": "the upstream broke off its answer"})


def _answered(call: Call, attempt: Attempt, answer: Answer) -> bytes:
    call.served_by = attempt
    went_well(attempt)
    usage = measured(call, attempt, answer.usage, text_chars(answer.message))
    if attempt.failure is None:
        judged = well_formed(answer.message.get("tool_calls"))
        tokens = usage.completion_tokens
        observed(attempt, streamed=False, tokens=tokens, tools_good=judged)
    message = _cleaned(call, answer)
    if call.content is not None:
        call.content.answered(message)
    outcome = _outcome(call, attempt, answer, usage, _finish(answer, message))
    ticket = _book(call, outcome)
    try:
        # Done while the database works; it leaves once its charge is in the books.
        remember(call.sticky, attempt.endpoint, usage)
        return dumps(_body(call, attempt, answer, message, outcome))
    finally:
        _wait_for(ticket)


def _told_broken(call: Call, broken: _Broken) -> bytes:
    """What there is, in formats that can say that it broke off; the failure in others."""
    attempt, answer, failure = broken.attempt, broken.answer, broken.failure
    if failure is None:
        return _answered(call, attempt, answer)
    call.served_by = attempt
    usage = measured(call, attempt, answer.usage, text_chars(answer.message))
    outcome = _outcome(call, attempt, answer, usage, "error")
    message = _cleaned(call, answer)
    if call.content is not None:
        call.content.answered(message)
    try:
        body = _body(call, attempt, answer, message, outcome, failure=failure)
    except GatewayError as refusal:
        call.served_by = None
        error = ProviderError(call.attempts)
        error.status, error.error_type = refusal.status, refusal.error_type
        owed = failed(error, usage=usage, cost=price(call, attempt, usage))
        if call.content is not None:
            call.content.failed(error)
        _wait_for(_book(call, owed))
        raise error from None
    _wait_for(_book(call, outcome))
    return dumps(body)


def _cleaned(call: Call, answer: Answer) -> dict[str, Any]:
    return clean_message(
        answer.message, exclude_reasoning=call.hides_reasoning, new_call_id=tool_call_id
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
    )
    return call.format.whole(
        Whole(
            call.served(attempt),
            call.chat,
            message,
            answer.logprobs,
            answer.system_fingerprint,
            ending,
        )
    )


def _is_refusal(answer: Answer) -> bool:
    return _finish(answer, answer.message) == "content_filter"


def _finish(answer: Answer, message: dict[str, Any]) -> str:
    return normal_finish(
        answer.native_finish,
        has_tool_calls=bool(message.get("tool_calls")),
        refused=bool(message.get("refusal")),
    )


def _told(failure: UpstreamFailure) -> dict[str, Any]:
    return {
        "code": failure.told_status,
        "message": failure.message,
        "metadata": {"error_type": failure.error_type},
    }


def _book(call: Call, outcome: Outcome) -> Ticket | None:
    """Tell the ledger how the call ended, unless it knows."""
    if call.settled:
        return None
    call.settled = True
    limiting.settle(call, outcome.usage)
    ticket = ledger.submit(settle_order(call, outcome))
    keep(call.content)
    return ticket


def _wait_for(ticket: Ticket | None) -> None:
    if ticket is not None:
        ledger.wait(ticket, settings.LEDGER_TIMEOUT)


def _record_failure(
    call: Call, attempts: Attempts, error: GatewayError, *, wait: bool = True
) -> None:
    """Record what was tried; a call that never reached an upstream only gives its hold back."""
    attempts.end_probe()
    if call.attempts:
        if call.content is not None and not call.settled:
            call.content.failed(error)
        ticket = _book(call, failed(error))
        if wait:
            _wait_for(ticket)
    else:
        attempts.release()
