"""An agent's turn in progress when the caller leaves is charged as its provider bills it."""

from typing import Any, cast

import pytest
from gevent import GreenletExit, sleep, spawn
from gevent.event import Event

from gateway.outbound.exchange import AbortHandle, Cuttable
from routing.entities.exchange import Answer
from routing.metering.usage import Usage
from routing.serving.attempts.attempt_answer import run_counted_turn
from routing.serving.request.loop import Loop
from routing.tools.toolbox import Toolbox
from routing.upstreams.failures import malformed_answer
from tests.routing.selection.entries import endpoint
from tests.routing.serving.calls import attempt_at, call_to

USAGE = {"prompt_tokens": 30, "completion_tokens": 3}
MESSAGE = {"role": "assistant", "content": "Because."}
GOOD = Answer(MESSAGE, "stop", None, USAGE, None, None, None, None)


class Agent:
    """Asks a provider in a greenlet of its own. That answers when it is told to; `connected` is
    whether the prompt can have been sent."""

    def __init__(
        self,
        *,
        cancels: bool,
        left: bool = True,
        outcome: Answer | Exception = GOOD,
        connected: bool = True,
    ) -> None:
        root, offer = call_to(endpoint()), endpoint(supports_cancellation=cancels)
        root.loop = Loop(root.context.chat, Toolbox(()))
        root.loop.caller_left = left
        call = call_to(offer)
        self.loop = call.loop = Loop(call.context.chat, Toolbox(()))
        call.parent = root
        self.outcome, self.connected, self.cuts = outcome, connected, 0
        self.began, self.goes = Event(), Event()
        self.job = spawn(run_counted_turn, call, attempt_at(offer), self._answer)
        self.began.wait()

    def _answer(self, abort: AbortHandle) -> Answer:
        abort.connection = cast(Cuttable, self) if self.connected else None
        self.began.set()
        self.goes.wait()
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome

    def cut(self, owner: object) -> None:
        self.cuts += 1
        self.goes.set()

    def stop(self) -> None:
        self.job.kill(block=False)
        # Once round the event loop: it was told.
        sleep(0)

    def check_abandoned(self, *, cuts: int, owed_nano: int) -> None:
        assert isinstance(self.job.get(), GreenletExit)
        assert (self.cuts, self.loop.tally.whole_charge.charged_nano) == (cuts, owed_nano)


def test_an_answer_is_just_an_answer() -> None:
    asked = Agent(cancels=True, left=False)
    asked.goes.set()
    assert asked.job.get() is GOOD
    assert asked.loop.tally.usage == Usage(0, 0)


def test_a_provider_that_stops_its_bill_is_cut_off_and_paid_the_prompt() -> None:
    asked = Agent(cancels=True)
    asked.stop()
    asked.check_abandoned(cuts=1, owed_nano=1000)
    assert asked.loop.tally.usage == Usage(prompt_tokens=1, completion_tokens=0, estimated=True)


def test_another_is_heard_to_the_end_and_paid_in_full() -> None:
    asked = Agent(cancels=False)
    asked.stop()
    assert not asked.job.ready()
    asked.goes.set()
    asked.check_abandoned(cuts=0, owed_nano=30 * 1000 + 3 * 2000)
    assert asked.loop.tally.usage == Usage(prompt_tokens=30, completion_tokens=3)


@pytest.mark.parametrize(
    ("cancels", "provider"),
    [(True, {"connected": False}), (False, {"outcome": malformed_answer("no answer")})],
    ids=["not sent", "failed"],
)
def test_what_no_provider_bills_is_free(cancels: bool, provider: dict[str, Any]) -> None:
    asked = Agent(cancels=cancels, **provider)
    asked.stop()
    asked.goes.set()
    asked.check_abandoned(cuts=0, owed_nano=0)


@pytest.mark.parametrize("cancels", [True, False])
def test_a_worker_that_stops_waits_for_nobody_and_charges_nothing(cancels: bool) -> None:
    asked = Agent(cancels=cancels, left=False)
    asked.stop()
    asked.check_abandoned(cuts=1, owed_nano=0)


def test_a_worker_that_stops_while_one_is_heard_out_ends_it() -> None:
    asked = Agent(cancels=False)
    asked.stop()
    asked.stop()
    asked.check_abandoned(cuts=1, owed_nano=0)
