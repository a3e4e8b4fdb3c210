"""Who waits in the queue in front of full endpoints, who gives way to it, and who does not."""

import uuid
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import gevent
import pytest
from gevent.event import Event

from gateway.limits.concurrency import concurrency_limiter
from gateway.limits.fair_queue import FairQueue, Waiting, fair_queue
from gateway.limits.rules import build_rules
from routing.entities.entries import EndpointEntry
from routing.serving.attempts.attempts import Attempts
from routing.serving.attempts.queue_wait import QueueingAttempts, _leave_queue, _list_turns
from routing.serving.request import process
from routing.serving.request.context import RequestProgress
from routing.upstreams.failures import from_status
from tests.routing.selection.entries import endpoint
from tests.routing.serving.calls import attempt_at, call_to

RULES = build_rules("endpoint:1", [{"concurrent": 9}])
SCOPE = "places:endpoint:1||||"
USD = 1_000_000_000


@pytest.fixture
def queue() -> Iterator[FairQueue]:
    for each in (fair_queue, concurrency_limiter):
        each.cache_clear()
    yield fair_queue()
    for each in (fair_queue, concurrency_limiter):
        each.cache_clear()


def join(queue: FairQueue, tenant: int = 1, look: Any = lambda: None) -> Waiting:
    waiting = Waiting(uuid.UUID(int=tenant), uuid.uuid4(), 1, frozenset([SCOPE]), look)
    assert queue.join(waiting, size_max=100)
    return waiting


def covered_call(*endpoints: EndpointEntry) -> RequestProgress:
    """Its hold is there, and large enough for any attempt."""
    call = call_to(*endpoints, max_tokens=10)
    call.held_nano, call.held_byok_nano = USD, 0
    call.context = call.context._replace(deadline=process.now() + 60)
    return call


def test_who_wakes_itself_lets_others_go_on(queue: FairQueue) -> None:
    event = Event()
    mine = join(queue, look=event.set)
    other = gevent.spawn(lambda: None)
    turns = _list_turns(mine, event, process.now() + 60)
    next(turns)
    # As of a place that it took and gave back, because another limit was reached.
    queue.announce(mine.scopes)
    next(turns)
    assert other.ready()
    mine.give_up()
    assert next(turns, "over") == "over"


def test_an_attempt_at_an_endpoint_that_was_not_waited_for_uses_the_turn(queue: FairQueue) -> None:
    call, elsewhere = call_to(), endpoint()
    call.waiting, behind, other = join(queue), join(queue), join(queue, tenant=2)
    _leave_queue(call, attempt_at(elsewhere))
    assert (queue.is_next(behind), queue.is_next(other)) == (False, True)


def test_only_who_may_wait_gives_way_to_those_that_do(queue: FairQueue) -> None:
    join(queue)
    limited = endpoint(rate_rules=RULES)
    assert list(QueueingAttempts(covered_call(limited))) == []
    # What tools ask of models, later turns of loops and decisions are asked so.
    [attempt] = Attempts(covered_call(limited))
    assert attempt.endpoint is limited


def test_a_fallback_does_not_give_way(queue: FairQueue) -> None:
    join(queue)
    first, limited = endpoint(), endpoint(rate_rules=RULES)
    attempts = QueueingAttempts(covered_call(first, limited))
    turns = iter(attempts)
    failed = next(turns)
    attempts.record_failure(failed, replace(from_status(503, {}, b"{}")))
    assert [failed.endpoint, next(turns).endpoint] == [first, limited]
