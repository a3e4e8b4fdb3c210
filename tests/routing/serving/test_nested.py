"""What a model that a tool asks leaves on the bill of the answer it was asked for."""

from fractions import Fraction
from typing import Any

import pytest

from routing import nested
from routing.metering.cost import ExactCost
from routing.metering.usage import Usage
from routing.serving import limiting
from routing.serving.attempts import Attempts
from routing.serving.call import Call
from routing.serving.loop import Loop
from routing.tools.toolbox import Toolbox
from tests.routing.selection.entries import endpoint
from tests.routing.serving.calls import call_to

TURN_NANO = 700


class Killed(BaseException):
    """Stands for the end of a greenlet."""


def looped(parent: Call | None = None) -> Call:
    call = call_to(endpoint())
    call.loop, call.parent = Loop(call.chat, Toolbox(())), parent
    return call


@pytest.mark.parametrize("waits", ["close", "end_probe", "settle"])
def test_the_bill_is_told_before_anything_that_waits(
    waits: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = looped()
    call = looped(root)
    # What the answer owed when something that may wait was done.
    owed_nano: list[int] = []
    assert root.loop is not None
    tally = root.loop.tally

    def left(call: Call, attempts: Attempts) -> Any:
        assert call.loop is not None
        cost = ExactCost(Fraction(TURN_NANO), Fraction(TURN_NANO), Fraction(0))
        call.loop.tally.add_turn(Usage(7, 0), cost, is_own=False, is_free=False)
        raise Killed

    def look(*_: Any) -> None:
        owed_nano.append(tally.whole.charged_nano)

    monkeypatch.setattr(nested, "converse", left)
    owner = {"close": Loop, "end_probe": Attempts, "settle": limiting}[waits]
    monkeypatch.setattr(owner, waits, look)

    with pytest.raises(Killed):
        nested._told(call)

    assert owed_nano == [TURN_NANO]
    assert root.shares[id(root)].charged_nano == TURN_NANO
