"""One request of all processes probes an endpoint; once that has ended, however, the next may."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from gateway.outbound.exchange import AbortHandle
from routing.entities.entries import EndpointEntry
from routing.planning.candidates import LOOK_AGAIN_S, may_go_on
from routing.serving.attempts.attempts import Attempts
from routing.serving.attempts.hedging import HedgingAttempts, Race
from routing.serving.request import process
from routing.serving.request.context import Attempt, RequestProgress
from routing.serving.request.legs import Hedge
from routing.statistics import observation, peer_sync
from routing.statistics.peer_sync import may_probe, probe_key
from routing.upstreams.failures import (
    UpstreamFailure,
    from_status,
    malformed_answer,
    refused_answer,
)
from tests.routing.serving.calls import attempt_at, call_to
from tests.routing.serving.learning import FAILURE, LIMITED, Clock, some_endpoint
from tests.routing.serving.processes import Process, Start


@pytest.fixture
def here(start: Start, monkeypatch: pytest.MonkeyPatch) -> Process:
    """A process that is this one: what requests leave behind is left with it."""
    mine = start()
    mine.sync()
    monkeypatch.setattr(observation, "observer", lambda: mine.seen)
    monkeypatch.setattr(process, "health", lambda: mine.health)
    monkeypatch.setattr(process, "now", mine.clock)
    monkeypatch.setattr(peer_sync, "shared_cache", lambda: mine.hints)
    return mine


@pytest.fixture
def is_free(client, one) -> Callable[[], bool]:
    return lambda: not client.exists(probe_key(one.pk))


@pytest.fixture
def probing(here: Process, one: EndpointEntry, clock: Clock) -> RequestProgress:
    """A call that has taken the endpoint's probe on itself."""
    here.health.record_failure(one.pk, clock.now - 31)
    assert here.health.snapshot(clock.now).half_open == {one.pk}
    here.health.begin_probe(one.pk, clock.now)
    assert may_probe(one.pk)
    call = call_to(one)
    call.context = call.context._replace(plan=call.context.plan._replace(probe=one.pk))
    return call


REFUSALS = [from_status(status, {}, b"") for status in (400, 404)]
ENDS: list[UpstreamFailure] = [
    FAILURE,
    LIMITED,
    *REFUSALS,
    malformed_answer("nonsense"),
    refused_answer(),
]


@pytest.mark.parametrize("failure", ENDS, ids=str)
def test_a_probe_that_failed_gives_its_place_back(
    here, one, clock, is_free, probing, failure: UpstreamFailure
) -> None:
    Attempts(probing).record_failure(attempt_at(one), replace(failure))
    assert not is_free()
    here.sync()

    assert is_free()
    # An outage has begun anew, and a 429 is waited out; else the next request may look at once.
    standing = here.health.snapshot(clock.now)
    assert one.pk in standing.unstable | standing.parked | standing.half_open
    assert (one.pk in standing.unstable) is failure.outage
    assert (one.pk in standing.half_open) is not (failure.outage or failure.parked)


def test_so_does_one_that_was_never_sent_or_whose_caller_left(
    here, one, clock, is_free, probing
) -> None:
    attempts = Attempts(probing)
    attempts.release()
    attempts.end_probe()
    here.sync()
    assert is_free()
    assert here.health.snapshot(clock.now).half_open == {one.pk}


def test_the_others_are_told_of_a_failed_probe_before_they_may_send_theirs(
    here, start, one, clock, is_free, probing
) -> None:
    other = start()
    other.health.record_failure(one.pk, clock.now - 31)
    other.sync()
    Attempts(probing).record_failure(attempt_at(one), replace(FAILURE))
    here.sync()
    other.sync()

    assert is_free()
    assert other.unstable(one)
    # Twice the first window for both.
    for each in (here, other):
        assert each.health.snapshot(clock.now + 59).unstable == {one.pk}
        assert each.health.snapshot(clock.now + 61).half_open == {one.pk}


def test_who_finds_another_probing_looks_again_soon(here, one, clock, client) -> None:
    here.health.record_failure(one.pk, clock.now - 31)
    plan = call_to(one, some_endpoint()).context.plan._replace(probe=one.pk)
    client.set(probe_key(one.pk), 1)
    assert not may_go_on(plan)
    assert here.health.snapshot(clock.now).unstable == {one.pk}
    client.delete(probe_key(one.pk))

    assert here.health.snapshot(clock.now + LOOK_AGAIN_S + 0.1).half_open == {one.pk}
    assert may_go_on(plan)
    assert here.health.snapshot(clock.now + LOOK_AGAIN_S + 0.1).unstable == {one.pk}


def test_what_the_store_did_not_take_is_given_back_later(
    here, one, valkey, is_free, probing
) -> None:
    Attempts(probing).record_failure(attempt_at(one), replace(FAILURE))
    valkey.pause()
    try:
        assert not here.sync()
    finally:
        valkey.resume()
    assert here.sync()
    assert is_free()


class _Silent:
    """A call that has not had its turn to be sent."""

    is_silent = True

    def __init__(self, attempt: Attempt) -> None:
        self.attempt, self.abort = attempt, AbortHandle()

    def run(self) -> None: ...

    def find_failure(self) -> None: ...

    def measure_bill(self) -> None: ...

    def close(self) -> None: ...


def test_a_probe_that_another_endpoint_overtook_gives_its_place_back(
    here, one, is_free, probing
) -> None:
    first = attempt_at(one)
    race = Race(probing, HedgingAttempts(probing), first, _Silent)
    probing.hedge = Hedge(0.1, [first])
    race.cancel_all()
    here.sync()
    assert is_free()
    assert first.is_cancelled
