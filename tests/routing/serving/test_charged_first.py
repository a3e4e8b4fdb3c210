"""The end of an answer leaves once its charge is in the books, and not at all where it is not."""

from collections.abc import Callable
from typing import Any

import pytest

from gateway.http.errors import Unavailable
from routing.exchange import Answer
from routing.serving import booking, whole
from routing.serving.call import Attempt, Call
from routing.serving.conversation import Talk
from routing.serving.loop import Loop
from routing.serving.loop_stream import LoopStream
from routing.serving.relaying import relay_for
from routing.serving.stream import AnswerStream
from routing.tools.toolbox import Toolbox
from routing.upstreams.failures import from_error_object
from routing.upstreams.reply import Reply
from tests.routing.selection.entries import endpoint
from tests.routing.serving.calls import attempt_at, call_to
from tests.routing.serving.test_relay import chat_events

TOOLS = [{"type": "router:datetime"}]


class SilentLedger:
    """Takes orders and commits none in time."""

    def __init__(self) -> None:
        self.orders: list[Any] = []

    def submit(self, order: Any) -> Any:
        self.orders.append(order)
        return object()

    def wait(self, ticket: Any, timeout_s: float) -> None:
        raise Unavailable


class ReadReply(Reply):
    """An upstream's reply of which all was read."""

    def __init__(self) -> None:
        return

    def read_some(self, wait_s: float | None = None) -> bytes:
        return b""

    def close(self) -> None:
        return


@pytest.fixture
def ledger(monkeypatch: pytest.MonkeyPatch) -> SilentLedger:
    silent = SilentLedger()
    monkeypatch.setattr(booking, "ledger", silent)
    return silent


def an_answer() -> Answer:
    said, nothing = {"role": "assistant", "content": "Hi"}, [None] * 6
    return Answer(said, "stop", *nothing)


def end_stream(call: Call, attempt: Attempt, kind: type[AnswerStream] = AnswerStream) -> None:
    stream, relay = kind(call, None), relay_for(call, attempt)
    stream._committed = True
    relay.feed(b"".join(chat_events("Hi")))
    next(stream._finish(attempt, relay, ReadReply()))


def end_stream_of_turns(call: Call, attempt: Attempt) -> None:
    call.loop = Loop(call.chat, Toolbox(TOOLS))
    end_stream(call, attempt, LoopStream)


def end_whole(call: Call, attempt: Attempt) -> None:
    whole._answered(call, attempt, an_answer())


def end_whole_of_turns(call: Call, attempt: Attempt) -> None:
    call.loop = Loop(call.chat, Toolbox(TOOLS))
    call.loop.take({"role": "assistant", "content": "Hi"}, finish="stop")
    whole._conversed(call, Talk(attempt, an_answer(), "stop"))


def end_broken_off(call: Call, attempt: Attempt) -> None:
    whole._told_broken(call, attempt, an_answer(), from_error_object({"message": "broke off"}))


@pytest.mark.parametrize(
    "end", [end_stream, end_stream_of_turns, end_whole, end_whole_of_turns, end_broken_off]
)
def test_no_end_is_told_before_its_charge_is_booked(
    ledger: SilentLedger, end: Callable[[Call, Attempt], None]
) -> None:
    target = endpoint()
    with pytest.raises(Unavailable):
        end(call_to(target), attempt_at(target))

    assert len(ledger.orders) == 1
