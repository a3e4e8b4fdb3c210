"""What a fault is, and what several faults do alike."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from routing.simulator.exchange import JSON, SSE, SimulatedCall
from routing.simulator.formats import SimulatedStream

# Long enough to be cut in several places, whatever the prompt was.
CUT_TEXT = "Simulated answer that goes wrong on purpose before its end"


class Fault(NamedTuple):
    description: str
    run: Callable[[SimulatedCall], Awaitable[None]]


async def wait_for_ever() -> None:
    """Wait until the client leaves, which cancels the task that waits."""
    await asyncio.Event().wait()


def content_type(call: SimulatedCall) -> str:
    return SSE if call.stream else JSON


def begin_answer(call: SimulatedCall, contents: int) -> SimulatedStream:
    """Start a good answer: `contents` content chunks of a stream, or half a JSON document.

    Returns the events of the stream, of which the opening and the first `contents` were sent.
    """
    events = call.events(text=CUT_TEXT)
    if call.stream:
        call.exchange.head(200, SSE)
        call.exchange.send(events.opening, *events.content[:contents])
    else:
        body = call.json_body(text=CUT_TEXT)
        call.exchange.head(200, JSON, length=len(body))
        call.exchange.send(body[: len(body) // 2])
    return events
