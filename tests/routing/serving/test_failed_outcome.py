"""What a failed call owes: what its caller got before a deadline of his own, and else nothing."""

from typing import Any

import pytest

from gateway.http.errors import GatewayError, NotFound
from routing.entities.entries import HouseCredential
from routing.metering.usage import Usage
from routing.serving.answer.stream_setup import build_relay
from routing.serving.attempts.relay import Relay
from routing.serving.request.context import Attempt, RequestProgress
from routing.serving.request.errors import DeadlinePassed
from routing.serving.request.legs import Hedge, Leg
from routing.serving.request.loop import Loop
from routing.serving.request.outcome import measure_usage, note_turn, price
from routing.serving.request.rescue import Rescue
from routing.serving.settlement.booking import _failed_outcome
from routing.tools.toolbox import Toolbox
from tests.routing.selection.entries import endpoint
from tests.routing.serving.calls import attempt_at, call_to
from tests.routing.serving.streams import chat_events

TARGET = endpoint()
USAGE = Usage(prompt_tokens=3, completion_tokens=2)
TURN_NANO = 3 * 1000 + 2 * 2000


class Call:
    """A stream of which so many events were read, the second of which says something; None where
    no upstream accepted it."""

    def __init__(self, read: int | None, *, deadline: bool = False, **attempt: Any) -> None:
        wishes: dict[str, Any] = {"provider": {"deadline_ms": 1}} if deadline else {}
        self.progress: RequestProgress = call_to(TARGET, **wishes)
        self.attempt: Attempt = attempt_at(TARGET, **attempt)
        self.relay: Relay | None = None
        if read is not None:
            self.relay = build_relay(self.progress, self.attempt)
            for event in chat_events("Hello")[:read]:
                self.relay.feed_bytes(event)

    def add_turns(self, count: int) -> None:
        self.progress.loop = loop = Loop(self.progress.context.chat, Toolbox(()))
        for _ in range(count):
            loop.take({"role": "assistant", "content": "Hi"}, finish="stop")
            note_turn(self.progress, self.attempt, USAGE, native_finish="stop")

    @property
    def stream_nano(self) -> int:
        """What the stream costs as far as it came."""
        if self.relay is None or not self.relay.seen:
            return 0
        usage = measure_usage(self.progress, self.attempt, None, self.relay.produced_chars)
        return price(self.progress, self.attempt, usage).total_nano

    def fail(self, error: GatewayError) -> Any:
        return _failed_outcome(self.progress, self.attempt, self.relay, error)


@pytest.mark.parametrize("turns", [None, 0, 1])
@pytest.mark.parametrize("has_rescue", [True, False])
@pytest.mark.parametrize("read", [None, 0, 1, 2])
@pytest.mark.parametrize("deadline", [True, False])
@pytest.mark.parametrize("error", [DeadlinePassed, NotFound])
def test_who_set_a_deadline_pays_for_what_came_until_it_passed_and_nobody_else_does(
    error: type[GatewayError],
    deadline: bool,
    read: int | None,
    has_rescue: bool,
    turns: int | None,
) -> None:
    call = Call(read, deadline=deadline)
    if has_rescue:
        call.progress.rescue = Rescue(call.progress.context.chat)
    if turns is not None:
        call.add_turns(turns)

    outcome = call.fail(error())

    is_owed = error is DeadlinePassed and deadline and (read == 2 or bool(turns))
    end = (200, True) if is_owed else (error.status, False)
    assert (outcome.status, outcome.cancelled) == end
    # What the provider bills is on record, but for a beginning that said nothing yet.
    stream_nano = call.stream_nano if read == 2 or not is_owed else 0
    assert outcome.cost.total_nano == TURN_NANO * (turns or 0) + stream_nano
    assert outcome.charged_nano == (outcome.cost.total_nano if is_owed else 0)
    assert (outcome.error is None) is is_owed


@pytest.mark.parametrize("read", [None, 0, 1, 2])
def test_what_lost_a_race_is_on_record_beside_what_failed(read: int | None) -> None:
    pool = HouseCredential(1, "acme", "c1", "secret", "s" * 24)
    call = Call(read, house=pool)
    other = attempt_at(TARGET)
    leg = Leg(other, USAGE, price(call.progress, other, USAGE))
    call.progress.hedge = Hedge(0.1, [other, call.attempt], legs=[leg])

    outcome = call.fail(NotFound())

    assert outcome.charged_nano == 0
    assert outcome.cost.total_nano == TURN_NANO + call.stream_nano
    assert call.attempt.house_nano == (call.stream_nano if read else None)
    assert outcome.finish_reason == "error"
