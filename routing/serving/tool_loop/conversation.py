"""A loop of server tools in one piece: turn by turn, until the model has said its last word."""

from dataclasses import dataclass

from gateway.http.errors import GatewayError
from routing.entities.exchange import Answer
from routing.formats.chat.answer import clean_message, count_text_chars
from routing.metering.usage import Usage
from routing.serving.attempts.attempts import Attempts
from routing.serving.attempts.one_answer import Served, answer_of, finish_of
from routing.serving.attempts.own_credentials import went_well
from routing.serving.request.call import Attempt, Call
from routing.serving.request.outcome import measured, note_results, note_turn
from routing.serving.request.tool_calls import well_formed
from routing.serving.tool_loop.guarded_results import guarded_results
from routing.serving.tool_loop.turns import context_of, turns_after
from routing.statistics.observation import record_attempt
from routing.tools.calls import RunningCalls, ServerToolCall
from routing.tools.interface import Result


@dataclass(slots=True)
class Talk:
    """How a loop ended: its last answer, and whether the finish reason is that answer's own."""

    attempt: Attempt
    answer: Answer
    finish_reason: str
    is_last_word: bool = True


def converse(call: Call, attempts: Attempts) -> Talk:
    """Carry a call's loop out; what was said is in the loop, what it cost in its tally. Raises
    `GatewayError` where a turn gets no answer."""
    loop, last = call.loop, None
    assert loop is not None
    while True:
        try:
            served = answer_of(call, attempts)
        except GatewayError:
            if attempts.is_unaffordable:
                # An agent's answer, or that there is none, is part of its asker's.
                call.root.cut_unpaid = True
                if last is not None:
                    return _cut_short(last)
            raise
        if served.failure is not None:
            note_turn(call, served.attempt, _usage(call, served), native_finish=None, broken=True)
            raise attempts.error()
        last = served
        finish, calls = _taken(call, served)
        if calls:
            loop.told(_run(call, served.attempt, calls))
        if not calls or not loop.goes_on:
            told = loop.finish(finish)
            return Talk(served.attempt, served.answer, told, is_last_word=told == finish)
        turns = turns_after(call, served.attempt)
        if not turns:
            return _cut_short(served)
        attempts.end_probe()
        attempts = Attempts(call, turns)


def _cut_short(last: Served) -> Talk:
    return Talk(last.attempt, last.answer, "length", is_last_word=False)


def _taken(call: Call, served: Served) -> tuple[str, list[ServerToolCall]]:
    """Count the turn; its finish reason and the tools to run."""
    attempt, answer, loop = served.attempt, served.answer, call.loop
    assert loop is not None
    went_well(attempt)
    usage = _usage(call, served)
    if attempt.failure is None:
        judged = well_formed(answer.message.get("tool_calls"))
        record_attempt(attempt, streamed=False, tokens=usage.completion_tokens, tools_good=judged)
    note_turn(call, attempt, usage, native_finish=answer.native_finish)
    new_id = call.format.new_call_id
    message = clean_message(answer.message, exclude_reasoning=False, new_call_id=new_id)
    finish = finish_of(answer, message)
    return finish, loop.take(message, finish=finish, logprobs=answer.logprobs)


def _usage(call: Call, served: Served) -> Usage:
    answer = served.answer
    return measured(call, served.attempt, answer.usage, count_text_chars(answer.message))


def _run(call: Call, attempt: Attempt, calls: list[ServerToolCall]) -> list[Result]:
    running = RunningCalls(calls, context_of(call, attempt))
    try:
        running.wait(None)
    except BaseException:  # Also a greenlet being killed must not leave tools running.
        note_results(call, attempt, running.stop(to_the_end=call.root.caller_left))
        raise
    results = running.results()
    note_results(call, attempt, results)
    return guarded_results(call, results)
