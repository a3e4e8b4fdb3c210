"""What a team's own credential meets is kept apart from what others see of the endpoint."""

from collections.abc import Iterator

import pytest

from routing.selection.ask import ALL_WELL
from routing.serving import observing, own_credentials, process
from routing.serving.attempts import Attempts
from routing.serving.own_credentials import Rests, went_well
from routing.upstreams.failures import UpstreamFailure, from_status
from tests.routing.selection.entries import endpoint
from tests.routing.serving.calls import attempt_at, call_to
from tests.routing.serving.learning import Clock, observer, refreshed
from tests.routing.serving.test_own_credentials import entry


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clock]:
    clock, rests = Clock(1000.0), Rests()
    seen = observer(clock)
    monkeypatch.setattr(observing, "observer", lambda: seen)
    monkeypatch.setattr(own_credentials, "rests", lambda: rests)
    monkeypatch.setattr(process, "now", clock)
    process.health.cache_clear()
    yield clock
    process.health.cache_clear()


def failed(failure: UpstreamFailure, *, own: bool) -> int:
    """The key of an endpoint that failed so."""
    one = endpoint()
    attempt = attempt_at(one, own=entry() if own else None)
    Attempts(call_to(one)).failed(attempt, failure)
    refreshed(observing.observer())
    return one.pk


@pytest.mark.parametrize("status", [401, 402, 403, 429])
def test_a_refused_credential_says_nothing_of_the_endpoint(clock: Clock, status: int) -> None:
    shared = failed(from_status(status, {}, b""), own=False)
    before = process.health().standing(clock.now)
    assert shared in before.unstable | before.parked

    own = failed(from_status(status, {}, b""), own=True)

    assert process.health().standing(clock.now) == before
    seen = observing.observer()
    assert (shared in seen.recent.totals, own in seen.recent.totals) == (True, False)
    assert own_credentials.rests().rests(entry(), own, clock.now)
    assert not own_credentials.rests().rests(entry(), shared, clock.now)


def test_a_model_that_the_credential_has_no_access_to(clock: Clock) -> None:
    own = failed(from_status(404, {}, b""), own=True)

    assert own not in observing.observer().recent.totals
    assert own_credentials.rests().rests(entry(), own, clock.now)


def test_an_outage_is_an_outage_whoever_meets_it(clock: Clock) -> None:
    own = failed(from_status(503, {}, b""), own=True)

    assert process.health().standing(clock.now).unstable == {own}
    assert own in observing.observer().recent.totals
    assert not own_credentials.rests()


def test_an_answer_to_a_team_does_not_make_good_what_the_shared_credential_met(
    clock: Clock,
) -> None:
    one = endpoint()
    Attempts(call_to(one)).failed(attempt_at(one), from_status(401, {}, b""))
    served = attempt_at(one, own=entry(), ended=clock.now)

    went_well(served)
    observing.observed(served, streamed=False, tokens=5)

    assert process.health().standing(clock.now).unstable == {one.pk}
    assert [mark.kind for mark in observing.observer().marks.take()] == ["outage"]
    went_well(attempt_at(one))
    assert process.health().standing(clock.now) == ALL_WELL


def test_an_answer_ends_the_rest(clock: Clock) -> None:
    one, mine = endpoint(), entry()
    own_credentials.rests().rest(mine, one.pk, until=clock.now + 60)

    went_well(attempt_at(one, own=mine))

    assert not own_credentials.rests()


def test_the_team_s_key_is_hidden_from_what_its_provider_says(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_credentials, "opened", lambda entry: "sk-mine-0123")
    failure = from_status(401, {}, b'{"error": {"message": "bad sk-mine-0123", "code": "x"}}')

    failed(failure, own=True)

    assert "sk-mine" not in f"{failure.raw} {failure.message} {failure.provider_code}"
    assert failure.raw is not None
