"""The turns of a request whose model calls server tools. It says what each may be tried at, what
its tools may know, and how they are carried out in one piece."""

import contextlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial

from gateway.http.errors import GatewayError
from gateway.http.jsonio import usd
from routing.entities.exchange import Answer
from routing.formats.chat.answer import clean_message, count_text_chars
from routing.formats.chat.facts import utf8_bytes
from routing.guarding.filters import apply_filters
from routing.metering.usage import Usage, estimate_tokens
from routing.selection.types import Candidate
from routing.serving.attempts.attempt_answer import Served, read_finish, request_answer
from routing.serving.attempts.attempts import Attempts, record_success
from routing.serving.attempts.own_credentials import find_entry
from routing.serving.request.context import Attempt, RequestProgress, measure_demand
from routing.serving.request.loop import must_call
from routing.serving.request.outcome import measure_usage, note_results, note_turn
from routing.serving.request.tool_call_checks import are_well_formed
from routing.statistics.observation import record_attempt
from routing.tools.calls import RunningCalls, ServerToolCall, build_failed_result
from routing.tools.interface import Result, ToolContext


def list_next_candidates(progress: RequestProgress, attempt: Attempt) -> Sequence[Candidate]:
    """Make the call ask for the loop's next turn; the endpoints to try for it. The one that
    answered goes first, then the plan's others of its model, where the conversation has room. None
    is left where it has grown too long for all of them."""
    loop, entries = progress.loop, progress.context.caller.byok
    assert loop is not None
    chat = loop.next_request(progress.context.chat)
    progress.context = progress.context._replace(chat=chat, demand=measure_demand(chat))
    tokens = estimate_tokens(chat.prompt_text_chars)
    model_id = attempt.endpoint.model_id
    fitting = [
        turn
        for turn in progress.context.plan.candidates
        if turn.endpoint.model_id == model_id
        and (turn.endpoint.context_length is None or tokens <= turn.endpoint.context_length)
    ]
    # The sort keeps the order of the others.
    return sorted(
        fitting,
        key=lambda turn: (
            turn.endpoint is not attempt.endpoint or find_entry(turn, entries) != attempt.own
        ),
    )


def add_tool_stage(progress: RequestProgress) -> None:
    """Put what its tools did among the call's stages."""
    loop = progress.loop
    if loop is None or not loop.requested:
        return
    fees = loop.tally.fees
    by_tool = Counter(call.tool for call in loop.server_calls)
    progress.stages.append(
        {
            "type": "server_tools",
            "name": "server-tools",
            "summary": f"{loop.executed} of {loop.requested} calls in {loop.turns} turns",
            "data": {
                "turns": loop.turns,
                "requested": loop.requested,
                "executed": loop.executed,
                "tools": dict(by_tool),
            },
            "cost_usd": usd(fees.charged_nano),
        }
    )


def build_tool_context(progress: RequestProgress, attempt: Attempt) -> ToolContext:
    """For the tools that the attempt's model has called."""
    loop = progress.loop
    assert loop is not None
    assert loop.ask_model is not None
    return ToolContext(
        caller=progress.context.caller,
        messages=progress.context.chat.body["messages"],
        model=attempt.endpoint.model_id,
        deadline=progress.context.deadline,
        now=partial(datetime.now, UTC),
        ask=partial(loop.ask_model, progress),
        had_to_call=must_call(progress.context.chat.body),
    )


@dataclass(slots=True)
class LoopResult:
    """How a loop ended: its last answer, and whether the finish reason is that answer's own."""

    attempt: Attempt
    answer: Answer
    finish_reason: str
    is_last_word: bool = True


def run_tool_loop(progress: RequestProgress, attempts: Attempts) -> LoopResult:
    """Carry a call's loop out; what was said is in the loop, what it cost in its tally. Raises
    `GatewayError` where a turn gets no answer."""
    loop, last = progress.loop, None
    assert loop is not None
    while True:
        try:
            served = request_answer(progress, attempts)
        except GatewayError:
            if attempts.is_unaffordable:
                # An agent's answer, or that there is none, is part of its asker's.
                progress.root_loop.cut_unpaid = True
                if last is not None:
                    return _end_early(last)
            raise
        if served.failure is not None:
            note_turn(
                progress,
                served.attempt,
                _measure(progress, served),
                native_finish=None,
                broken=True,
            )
            raise attempts.error()
        last = served
        finish, calls = _take_turn(progress, served)
        if calls:
            loop.add_results(_run_tools(progress, served.attempt, calls))
        if not calls or not loop.goes_on:
            reason = loop.finish(finish)
            return LoopResult(served.attempt, served.answer, reason, is_last_word=reason == finish)
        turns = list_next_candidates(progress, served.attempt)
        if not turns:
            return _end_early(served)
        attempts.end_probe()
        attempts = Attempts(progress, turns)


def _end_early(last: Served) -> LoopResult:
    return LoopResult(last.attempt, last.answer, "length", is_last_word=False)


def _take_turn(progress: RequestProgress, served: Served) -> tuple[str, list[ServerToolCall]]:
    """Count the turn; its finish reason and the tools to run."""
    attempt, answer, loop = served.attempt, served.answer, progress.loop
    assert loop is not None
    record_success(attempt)
    usage = _measure(progress, served)
    if attempt.failure is None:
        are_tools_good = are_well_formed(answer.message.get("tool_calls"))
        record_attempt(
            attempt, streamed=False, tokens=usage.completion_tokens, tools_good=are_tools_good
        )
    note_turn(progress, attempt, usage, native_finish=answer.native_finish)
    new_id = progress.context.format.new_call_id
    message = clean_message(answer.message, exclude_reasoning=False, new_call_id=new_id)
    finish = read_finish(answer, message)
    return finish, loop.take(message, finish=finish, logprobs=answer.logprobs)


def _measure(progress: RequestProgress, served: Served) -> Usage:
    answer = served.answer
    return measure_usage(progress, served.attempt, answer.usage, count_text_chars(answer.message))


def _run_tools(
    progress: RequestProgress, attempt: Attempt, calls: list[ServerToolCall]
) -> list[Result]:
    running = RunningCalls(calls, build_tool_context(progress, attempt))
    try:
        running.wait(None)
    except BaseException:  # Also a greenlet being killed must not leave tools running.
        note_results(progress, attempt, running.stop(to_the_end=progress.root_loop.caller_left))
        raise
    results = running.results()
    note_results(progress, attempt, results)
    return filter_results(progress, results)


_WITHHELD = "A content filter kept the result back"


def filter_results(progress: RequestProgress, results: Sequence[Result]) -> list[Result]:
    """The results after the filters of the caller's guardrails. In place of one that is blocked, or
    that cannot be looked at, the model reads that it was; what it cost stays."""
    caller, filtered = progress.context.caller, []
    if caller.guard is None or not caller.guard.filters:
        return list(results)
    for result in results:
        chat = replace(
            progress.context.chat,
            body={"messages": [{"role": "tool", "tool_call_id": "", "content": result.text}]},
            original=None,
            text_bytes=utf8_bytes(result.text),
            message_count=1,
            media_parts=0,
        )
        text: str | None = None
        with contextlib.suppress(GatewayError):
            found = apply_filters(chat, caller.guard.filters, caller.account_id)
            progress.root.stages += found.stages
            if found.refusal is None:
                text = found.chat.body["messages"][0]["content"]
        if text is not None:
            filtered.append(replace(result, text=text))
            continue
        withheld = build_failed_result(_WITHHELD)
        withheld.cost_nano, withheld.web_searches = result.cost_nano, result.web_searches
        withheld.started, withheld.ended = result.started, result.ended
        filtered.append(withheld)
    return filtered
