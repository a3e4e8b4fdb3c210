"""What is taken of a stream after its end, and which ends are an endpoint's outage."""

import pytest

from routing.serving.upstream_call import read_to_end
from routing.upstreams.door_errors import (
    BodyTooLarge,
    ConnectFailed,
    Disconnected,
    DoorError,
    IdleTimeout,
    MalformedReply,
)
from routing.upstreams.failures import from_door
from routing.upstreams.reply import Reply


class Endless(Reply):
    """Has something to say at every look."""

    def __init__(self) -> None:
        self.reads = 0

    def read_some(self, wait_s: float | None = None) -> bytes:
        assert wait_s == 0
        self.reads += 1
        assert self.reads < 100, "it is read for ever"
        return b"more"


class Ended(Endless):
    def read_some(self, wait_s: float | None = None) -> bytes:
        super().read_some(wait_s)
        return b""


class Broken(Endless):
    def read_some(self, wait_s: float | None = None) -> bytes:
        super().read_some(wait_s)
        raise Disconnected("gone", phase="body")


def test_a_flood_after_the_end_is_left_alone() -> None:
    reply = Endless()

    read_to_end(reply)

    assert reply.reads <= 4


@pytest.mark.parametrize("kind", [Ended, Broken])
def test_an_end_is_met_once(kind: type[Endless]) -> None:
    reply = kind()

    read_to_end(reply)

    assert reply.reads == 1


@pytest.mark.parametrize(
    ("kind", "outage"),
    [
        (ConnectFailed, True),
        (Disconnected, True),
        (IdleTimeout, True),
        (MalformedReply, True),
        (BodyTooLarge, False),
    ],
)
def test_too_much_of_an_answer_is_no_outage(kind: type[DoorError], outage: bool) -> None:
    assert from_door(kind("what happened", phase="body")).outage is outage
