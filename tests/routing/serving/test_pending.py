"""A stream that waits for a reply, greenlet beside greenlet, without gevent's patches."""

from collections.abc import Generator
from typing import Any

import gevent
import pytest
from gevent.event import Event as GreenEvent

from gateway.outbound.reply import Reply
from routing.formats.chat.format import KEEP_ALIVE
from routing.serving.answer import stream_waits
from routing.serving.answer.stream import AnswerStream
from routing.serving.answer.stream_setup import build_relay
from routing.serving.request import process
from tests.routing.selection.entries import endpoint
from tests.routing.serving.calls import attempt_at, call_to

# More looks at the clock than any wait here needs, and far fewer than one that spins takes.
LOOKS_MAX = 50
REST_S = 0.05


class FakeReply(Reply):
    """Comes when the gate opens, and knows whether it was closed."""

    def __init__(self) -> None:
        self.gate, self.closed = GreenEvent(), GreenEvent()

    def come(self) -> Reply:
        self.gate.wait()
        return self

    def close(self) -> None:
        self.closed.set()


@pytest.fixture
def reply() -> FakeReply:
    return FakeReply()


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch, settings: Any) -> list[float]:
    """How often the stream looked at the clock, where a keep-alive is always due."""
    settings.ROUTER_KEEPALIVE_SECONDS = 0
    seen: list[float] = []

    def now() -> float:
        seen.append(0.0)
        assert len(seen) < LOOKS_MAX, "the wait spins"
        return 1000.0

    monkeypatch.setattr(process, "now", now)
    monkeypatch.setattr(stream_waits, "under_gevent", lambda: True)
    return seen


@pytest.fixture
def waiting() -> AnswerStream:
    """A committed stream on its way to an endpoint that cannot be cancelled."""
    target = endpoint()
    stream = AnswerStream(call_to(target), None)
    stream._committed = True
    stream._attempt = attempt_at(target)
    return stream


def await_reply(stream: AnswerStream, reply: FakeReply) -> Generator[bytes, None, Any]:
    assert stream._attempt is not None
    return stream._await_reply(build_relay(stream._progress, stream._attempt), reply.come)


def test_a_caller_who_left_is_waited_out_without_a_look_at_the_clock(looks, waiting, reply) -> None:
    waiting._gone = True
    gevent.spawn_later(REST_S, reply.gate.set)
    with pytest.raises(StopIteration) as ended:
        next(await_reply(waiting, reply))
    assert ended.value.value is reply
    assert looks == []


def test_the_twin_a_caller_who_is_there_gets_keep_alives(looks, waiting, reply) -> None:
    generator = await_reply(waiting, reply)
    assert [next(generator) for _ in range(3)] == [KEEP_ALIVE] * 3
    reply.gate.set()
    waiting._gone = True
    with pytest.raises(StopIteration):
        next(generator)


def test_a_kill_while_waiting_ends_the_call_and_closes_a_reply_that_comes_late(
    looks, waiting, reply
) -> None:
    waiting._gone = True
    handle = waiting._abort
    carrier = gevent.spawn(lambda: list(await_reply(waiting, reply)))
    gevent.idle()
    carrier.kill()
    assert handle.aborted
    reply.gate.set()
    assert reply.closed.wait(60)


@pytest.mark.parametrize("is_stopping", [False, True])
def test_a_guard_ends_its_look_for_who_has_left_and_not_for_a_worker_that_stops(
    looks, waiting, is_stopping: bool
) -> None:
    gate, seen = GreenEvent(), []

    def look() -> bytes:
        gate.wait()
        seen.append("ended")
        return b""

    waiting._asks_guards, waiting._stopping = True, is_stopping
    generator = waiting._let_guard_look(build_relay(waiting._progress, waiting._attempt), look)
    assert next(generator) == KEEP_ALIVE
    opening = gevent.spawn_later(REST_S, gate.set)
    generator.close()
    opening.join()
    gevent.idle()
    assert seen == ([] if is_stopping else ["ended"])


def test_a_worker_that_stops_while_a_guard_looks_for_who_has_left_charges_what_was_made(
    looks, waiting, monkeypatch: pytest.MonkeyPatch
) -> None:
    looking, booked = GreenEvent(), list[str]()

    def look() -> bytes:
        try:
            looking.wait()
        finally:
            booked.append("look ended")
        return b""

    relay = build_relay(waiting._progress, waiting._attempt)
    waiting._asks_guards = True
    # Only the wait for the guard runs; how the stream ends is noted, not booked.
    monkeypatch.setattr(waiting, "_try_all", lambda: waiting._let_guard_look(relay, look))
    monkeypatch.setattr(waiting, "_settle_hang_up", lambda: booked.append("cancelled"))
    monkeypatch.setattr(waiting, "_settle_failure", lambda *_, **__: booked.append("failed"))
    work = waiting._serve()
    assert next(work) == KEEP_ALIVE
    leaving = gevent.spawn(work.close)
    gevent.idle()
    leaving.kill()
    assert leaving.exception is None
    assert booked == ["look ended", "cancelled"]
