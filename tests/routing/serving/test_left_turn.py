"""An agent's turn in progress when the caller leaves is charged as its provider bills it."""

from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from gevent import GreenletExit, sleep, spawn
from gevent.event import Event

from routing.exchange import Answer
from routing.metering.usage import Usage
from routing.serving.call import Attempt, Call
from routing.serving.left_turn import counted_turn
from routing.serving.loop import Loop
from routing.tools.toolbox import Toolbox
from routing.upstreams.call import AbortHandle, Cuttable
from routing.upstreams.failures import malformed
from tests.routing.selection.entries import endpoint
from tests.routing.serving.calls import attempt_at, call_to

USAGE = {"prompt_tokens": 30, "completion_tokens": 3}
MESSAGE = {"role": "assistant", "content": "Because."}
GOOD = Answer(MESSAGE, "stop", None, USAGE, None, None, None, None)


@dataclass
class Provider:
    """Answers when it is told to; `connected` is whether the prompt can have been sent."""

    outcome: Answer | Exception = field(default_factory=lambda: GOOD)
    connected: bool = True
    began: Event = field(default_factory=Event)
    goes: Event = field(default_factory=Event)
    cuts: int = 0

    def __call__(self, abort: AbortHandle) -> Answer:
        abort.connection = cast(Cuttable, self) if self.connected else None
        self.began.set()
        self.goes.wait()
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome

    def cut(self, owner: object) -> None:
        self.cuts += 1
        self.goes.set()


@dataclass
class Agent:
    """Asks a provider in a greenlet of its own."""

    provider: Provider
    call: Call
    attempt: Attempt
    job: Any = None

    def ask(self) -> None:
        self.job = spawn(
            counted_turn, self.call, self.attempt, self.provider, is_good=lambda _: True
        )
        self.provider.began.wait()

    def stop(self) -> None:
        self.job.kill(block=False)
        # Once round the event loop: it was told.
        sleep(0)

    @property
    def usage(self) -> Usage:
        assert self.call.loop is not None
        return self.call.loop.tally.usage

    @property
    def owed_nano(self) -> int:
        assert self.call.loop is not None
        return self.call.loop.tally.whole.charged_nano


def agent(*, cancels: bool, left: bool = True, **provider: Any) -> Agent:
    root, offer = call_to(endpoint()), endpoint(supports_cancellation=cancels)
    root.caller_left = left
    call = call_to(offer)
    call.loop, call.parent = Loop(call.chat, Toolbox(())), root
    made = Agent(Provider(**provider), call, attempt_at(offer))
    made.ask()
    return made


def test_an_answer_is_just_an_answer() -> None:
    asked = agent(cancels=True, left=False)

    asked.provider.goes.set()

    assert asked.job.get() is GOOD
    assert asked.usage == Usage(0, 0)


def test_a_provider_that_stops_its_bill_is_cut_off_and_paid_the_prompt() -> None:
    asked = agent(cancels=True)

    asked.stop()

    assert isinstance(asked.job.get(), GreenletExit)
    assert asked.provider.cuts == 1
    assert asked.usage == Usage(prompt_tokens=1, completion_tokens=0, estimated=True)
    assert asked.owed_nano == 1000


def test_another_is_heard_to_the_end_and_paid_in_full() -> None:
    asked = agent(cancels=False)

    asked.stop()
    assert not asked.job.ready()
    asked.provider.goes.set()

    assert isinstance(asked.job.get(), GreenletExit)
    assert asked.provider.cuts == 0
    assert asked.usage == Usage(prompt_tokens=30, completion_tokens=3)
    assert asked.owed_nano == 30 * 1000 + 3 * 2000


@pytest.mark.parametrize(
    ("cancels", "provider"),
    [(True, {"connected": False}), (False, {"outcome": malformed("no answer")})],
    ids=["not sent", "failed"],
)
def test_what_no_provider_bills_is_free(cancels: bool, provider: dict[str, Any]) -> None:
    asked = agent(cancels=cancels, **provider)

    asked.stop()
    asked.provider.goes.set()

    assert isinstance(asked.job.get(), GreenletExit)
    assert asked.owed_nano == 0


@pytest.mark.parametrize("cancels", [True, False])
def test_a_worker_that_stops_waits_for_nobody_and_charges_nothing(cancels: bool) -> None:
    asked = agent(cancels=cancels, left=False)

    asked.stop()

    assert isinstance(asked.job.get(), GreenletExit)
    assert asked.provider.cuts == 1
    assert asked.owed_nano == 0


def test_a_worker_that_stops_while_one_is_heard_out_ends_it() -> None:
    asked = agent(cancels=False)
    asked.stop()

    asked.stop()

    assert isinstance(asked.job.get(), GreenletExit)
    assert asked.provider.cuts == 1
    assert asked.owed_nano == 0
