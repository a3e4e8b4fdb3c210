"""Answers that do not fit the schema of their request: mended here, else asked for once more.

The second call goes to the same endpoint and says what was wrong. Both are paid for. Where it gives
no whole text, the caller gets the first answer and a note that it does not fit.
"""

from dataclasses import replace
from typing import Final, Literal

from gateway.http.errors import GatewayError
from gateway.http.jsonio import JsonObject
from gateway.http.responses import log
from routing.entities.exchange import Answer
from routing.formats.chat.answer import count_text_chars
from routing.formats.chat.request import ChatRequest
from routing.metering.usage import estimate_tokens
from routing.plugins.interface import with_messages
from routing.plugins.response_healing import find_schema_problem, heal_json
from routing.selection.types import Candidate
from routing.serving.admission.endpoint_limits import settle_attempt
from routing.serving.attempts.attempt_answer import Served, read_finish, request_answer
from routing.serving.attempts.attempts import Attempts, record_success
from routing.serving.attempts.own_credentials import find_entry
from routing.serving.request.context import Attempt, RequestProgress, measure_demand
from routing.serving.request.legs import Leg
from routing.serving.request.outcome import measure_usage, note_house_cost, price
from routing.serving.request.schema_check import SchemaCheck
from routing.statistics.observation import record_attempt

_INSTRUCTION: Final = (
    "Your answer above does not fit the JSON schema that was asked for: {problem}. Answer again "
    "with JSON that fits it, and write nothing else."
)


def hold_to_schema(progress: RequestProgress, served: Served) -> Served:
    """The answer to give: `served` itself, whose success is recorded, mended where that makes it
    fit, or the second one. What was found is noted in the request's `schema_check` and its
    stages."""
    check = progress.schema_check
    assert check is not None
    text = served.answer.message.get("content")
    if not isinstance(text, str) or read_finish(served.answer, served.answer.message) != "stop":
        # Calls of tools, refusals, and what was cut short.
        return served
    _examine(check, served.answer, text)
    if check.result == "invalid" and text.strip():
        second = _ask_again(progress, check, served, text)
        served = served if second is None else second
    progress.stages.append(check.build_stage())
    return served


def check_stream(progress: RequestProgress, finish_reason: str) -> None:
    """Note whether what a stream has said fits the schema; it stays as it is."""
    check = progress.schema_check
    if check is None or finish_reason != "stop":
        return
    check.result, check.problem = _judge(check, check.text)
    progress.stages.append(check.build_stage())


def _judge(check: SchemaCheck, text: str) -> tuple[Literal["valid", "invalid", "unchecked"], str]:
    try:
        problem = find_schema_problem(text, check.schema)
    except Exception as error:  # noqa: BLE001 - The answer was made, and must be settled.
        log.exception("An answer could not be held to its schema", exc_info=error)
        problem = None
    if problem is None:
        return "unchecked", ""
    return ("invalid", problem) if problem else ("valid", "")


def _examine(check: SchemaCheck, answer: Answer, text: str) -> None:
    """Look at an answer, and mend it where that is enough."""
    check.result, check.problem = _judge(check, text)
    if check.result != "invalid":
        return
    mended = heal_json(text, wants_object=check.schema.get("type") == "object")
    if mended is not None and find_schema_problem(mended, check.schema) == "":
        check.result, check.problem = "mended", ""
        answer.message = {**answer.message, "content": mended}


def _ask_again(
    progress: RequestProgress, check: SchemaCheck, first: Served, text: str
) -> Served | None:
    """The second answer; None where there is none in full, and the first is to be given."""
    attempt, context, problem = first.attempt, progress.context, check.problem
    more: list[JsonObject] = [
        {"role": "assistant", "content": text},
        {"role": "user", "content": _INSTRUCTION.format(problem=problem)},
    ]
    asked = with_messages(context.chat, [*context.chat.body["messages"], *more])
    chat = replace(asked, echo_upstream_body=False)
    candidates = _list_candidates(progress, attempt, chat)
    if not candidates:
        return None
    check.legs.append(_measure_leg(progress, first))
    progress.context = context._replace(chat=chat, demand=measure_demand(chat))
    second: Served | None = None
    try:
        second = request_answer(progress, Attempts(progress, candidates))
    except GatewayError:
        second = None
    finally:
        progress.context = context
    if second is None or second.failure is not None:
        check.legs.clear()
        return None
    record_success(second.attempt)
    repaired = second.answer.message.get("content")
    is_whole = read_finish(second.answer, second.answer.message) == "stop"
    if not (is_whole and isinstance(repaired, str) and repaired.strip()):
        check.legs = [_measure_leg(progress, second, chat.prompt_text_chars)]
        _record_unused(check.legs[0])
        return None
    _record_unused(check.legs[0])
    check.prompt_text_chars = chat.prompt_text_chars
    _examine(check, second.answer, repaired)
    if check.result in ("valid", "mended"):
        check.result, check.problem = "repaired", problem
    return second


def _measure_leg(progress: RequestProgress, served: Served, prompt_chars: int | None = None) -> Leg:
    """What an answer costs, with its endpoint's limits corrected to that."""
    attempt, answer = served.attempt, served.answer
    chars = count_text_chars(answer.message)
    usage = measure_usage(progress, attempt, answer.usage, chars, prompt_chars=prompt_chars)
    note_house_cost(progress, attempt, usage)
    settle_attempt(attempt, usage.total_tokens)
    return Leg(attempt, usage, price(progress, attempt, usage))


def _record_unused(leg: Leg) -> None:
    record_attempt(leg.attempt, streamed=False, tokens=leg.usage.completion_tokens)


def _list_candidates(
    progress: RequestProgress, attempt: Attempt, chat: ChatRequest
) -> list[Candidate]:
    """The endpoint that answered, with the same credential, where it has room for the request."""
    context, endpoint = progress.context, attempt.endpoint
    tokens, room = estimate_tokens(chat.prompt_text_chars), endpoint.context_length
    if context.chat.native_tools or context.chat.native_fields or (room and tokens > room):
        return []
    return [
        turn
        for turn in context.plan.candidates
        if turn.endpoint is endpoint and find_entry(turn, context.caller.byok) == attempt.own
    ]
