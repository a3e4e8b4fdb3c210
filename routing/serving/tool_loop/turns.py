"""What the next turn of a loop may be tried at, and what the tools of one may know."""

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial

from gateway.http.jsonio import usd
from routing.formats.caller import ToolActivity
from routing.formats.chat.request import ChatRequest
from routing.metering.estimate import Demand
from routing.metering.usage import estimate_tokens
from routing.selection.types import Candidate
from routing.serving.attempts.own_credentials import entry_at
from routing.serving.request.call import Attempt, Call
from routing.serving.request.loop import must_call
from routing.tools.interface import ToolContext


def demand_of(chat: ChatRequest) -> Demand:
    """The size of a request."""
    return Demand(
        text_bytes=chat.text_bytes,
        messages=chat.message_count,
        media_parts=chat.media_parts,
        images=chat.image_parts,
        output_tokens_asked=chat.max_output_tokens,
    )


def turns_after(call: Call, attempt: Attempt) -> Sequence[Candidate]:
    """Make the call ask for the loop's next turn; the endpoints to try for it. The one that
    answered goes first, then the plan's others of its model, where the conversation has room. None
    is left where it has grown too long for all of them."""
    loop, entries = call.loop, call.caller.byok
    assert loop is not None
    call.chat = loop.next_request(call.chat)
    call.demand = demand_of(call.chat)
    tokens = estimate_tokens(call.chat.prompt_text_chars)
    model_id = attempt.endpoint.model_id
    fitting = [
        turn
        for turn in call.plan.candidates
        if turn.endpoint.model_id == model_id
        and (turn.endpoint.context_length is None or tokens <= turn.endpoint.context_length)
    ]
    # The sort keeps the order of the others.
    return sorted(
        fitting,
        key=lambda turn: (
            turn.endpoint is not attempt.endpoint or entry_at(turn, entries) != attempt.own
        ),
    )


def tell_stage(call: Call) -> None:
    """Put what its tools did among the stages that the call tells of."""
    loop = call.loop
    if loop is None or not loop.requested:
        return
    fees = loop.tally.fees
    by_tool = Counter(piece.tool for piece in loop.pieces if isinstance(piece, ToolActivity))
    call.stages.append(
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


def context_of(call: Call, attempt: Attempt) -> ToolContext:
    """For the tools that the attempt's model has called."""
    assert call.ask is not None
    return ToolContext(
        caller=call.caller,
        messages=call.chat.body["messages"],
        model=attempt.endpoint.model_id,
        deadline=call.deadline,
        now=partial(datetime.now, UTC),
        ask=partial(call.ask, call),
        had_to_call=must_call(call.chat.body),
    )
