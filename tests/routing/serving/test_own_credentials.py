"""A team's own credentials: which endpoints they are for, what rests, what is held and paid. What
they meet is kept apart from what others see of the endpoint."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accounts.byok import ByokEntry
from routing.metering.byok import fee_bound_nano, fee_nano
from routing.selection.types import ALL_HEALTHY, NOTHING_LEARNED, Candidate
from routing.serving.attempts import own_credentials
from routing.serving.attempts.attempts import Attempts, record_success
from routing.serving.attempts.holds import NeededHold, hold_for_estimate, missing_hold
from routing.serving.attempts.own_credentials import (
    RestingCredentials,
    add_own_credentials,
    any_matches,
    find_entry,
    is_credential_failure,
    matches,
    rest_credential,
)
from routing.serving.request import process
from routing.statistics import observation
from routing.upstreams.failures import from_status
from tests.routing.selection.entries import endpoint, model
from tests.routing.serving.calls import attempt_at, call_to, own_entry
from tests.routing.serving.learning import Clock, observer, refresh_all

ENDPOINT = endpoint("acme", model_id="acme/small", canonical_slug="acme/small-2026-01")
FREE = endpoint("acme", model_id="acme/small:free")
SMALL = frozenset({"acme/small"})


@pytest.fixture(autouse=True)
def own_rests(monkeypatch: pytest.MonkeyPatch) -> RestingCredentials:
    mine = RestingCredentials()
    monkeypatch.setattr(own_credentials, "resting_credentials", lambda: mine)
    return mine


NAMED = ("acme/small", "acme/small-2026-01", "acme/small:nitro", "acme/small:online:floor")
MEANT: list[tuple[Any, str, bool]] = [
    *((ENDPOINT, name, True) for name in (*NAMED, "acme/alias", "acme/alias:exacto")),
    *((ENDPOINT, name, False) for name in ("acme/smaller", "acme/small:free", "acme", "")),
    # A model without a variant means its variants, and not the other way round.
    *((FREE, name, True) for name in ("acme/small", "acme/small:free")),
]


@pytest.mark.parametrize(("target", "name", "is_meant"), MEANT)
def test_a_model_is_meant_by_any_of_its_names_and_by_no_other(target, name, is_meant) -> None:
    mine = own_entry(models=frozenset({"other/model", name}))
    assert matches(mine, target, {"acme/alias": "acme/small"}) is is_meant


def test_only_the_provider_s_own_endpoints() -> None:
    mine, others, unnamed = own_entry(), own_entry("acm"), own_entry(models=frozenset())
    assert [matches(each, ENDPOINT, {}) for each in (mine, others, unnamed)] == [True, False, False]
    assert any_matches([others, mine], [model(ENDPOINT)], {})
    assert not any_matches([others], [model(ENDPOINT)], {})


def state_with(entries: list[ByokEntry], *models: Any) -> Any:
    return add_own_credentials(NOTHING_LEARNED, entries, models or [model(ENDPOINT)], aliases={})


def test_places_are_numbers_among_the_caller_s_credentials() -> None:
    entries = [own_entry("x"), own_entry(), own_entry(), own_entry(is_fallback=True)]
    state = state_with(entries)
    assert state.byok == {ENDPOINT.pk: (1, 2)}
    assert state.byok_fallback == {ENDPOINT.pk: (3,)}
    assert find_entry(Candidate(ENDPOINT, 2), entries) is entries[2]
    assert find_entry(Candidate(ENDPOINT), entries) is None
    assert state_with([]) == NOTHING_LEARNED


@pytest.mark.parametrize(
    ("mine", "unshared"),
    [
        ({"is_required": True}, {"acme/small", "acme/large"}),
        ({"is_required": True, "models": SMALL}, {"acme/small"}),
        ({"is_byok_only": True, "models": SMALL}, {"acme/small", "acme/large"}),
        ({"models": SMALL}, set()),
    ],
)
def test_a_credential_may_keep_the_gateway_s_own_one_away(mine, unshared) -> None:
    large = endpoint("acme", model_id="acme/large", provider=ENDPOINT.provider)
    others = endpoint("other", model_id="acme/small")
    state = state_with([own_entry(**mine)], model(ENDPOINT, others), model(large, id="acme/large"))
    assert {each.model_id for each in (ENDPOINT, large) if each.pk in state.unshared} == unshared
    assert others.pk not in state.unshared


# --- Resting credentials --------------------------------------------------------------------------


def test_one_that_rests_comes_last_and_only_there(own_rests) -> None:
    other = endpoint("acme/fast", model_id="acme/small", provider=ENDPOINT.provider)
    entries = [own_entry(), own_entry(id="second")]
    own_rests.add(entries[0], ENDPOINT.pk, until=float("inf"))
    state = state_with(entries, model(ENDPOINT, other))
    assert state.byok == {ENDPOINT.pk: (1,), other.pk: (0, 1)}
    assert state.byok_fallback == {ENDPOINT.pk: (2,)}
    assert find_entry(Candidate(ENDPOINT, 2), entries) is entries[0]


def test_a_rest_ends_with_time_success_or_another_key() -> None:
    rests, mine = RestingCredentials(), own_entry()
    rests.add(mine, 1, until=10.0)

    assert rests.is_resting(mine, 1, now=9.9)
    assert not rests.is_resting(mine, 2, now=9.9)
    assert not rests.is_resting(replace(mine, sealed="v1:" + "t" * 60), 1, now=9.9)
    assert not rests.is_resting(mine, 1, now=10.0)
    assert not rests
    rests.add(mine, 1, until=10.0)
    rests.remove(mine, 1)
    assert not rests.is_resting(mine, 1, now=1.0)


def test_no_more_of_them_are_remembered_than_fit() -> None:
    rests = RestingCredentials(size_max=3)
    for number in range(10):
        rests.add(own_entry(), number, until=100.0)
    assert [n for n in range(10) if rests.is_resting(own_entry(), n, now=0.0)] == [7, 8, 9]


@pytest.mark.parametrize(
    ("status", "headers", "told", "rest_s"),
    [
        (401, {}, (401, "authentication"), 30),
        (402, {}, (402, "payment_required"), 30),
        (403, {}, (403, "permission_denied"), 30),
        (429, {"retry-after": "7"}, (429, "rate_limit_exceeded"), 7),
    ],
)
def test_a_refused_credential_is_told_as_the_caller_s_own_and_rests(
    status, headers, told, rest_s, own_rests, settings
) -> None:
    settings.ROUTER_OUTAGE_WINDOW_SECONDS = 30
    attempt, failure = attempt_at(ENDPOINT, own=own_entry()), from_status(status, headers, b"{}")
    assert is_credential_failure(attempt, failure)
    assert not is_credential_failure(attempt_at(ENDPOINT), failure)

    rest_credential(attempt, failure, 100.0)

    assert (failure.caller_status, failure.error_type) == told
    assert (failure.outage, failure.elsewhere) == (False, True)
    assert own_rests.is_resting(own_entry(), ENDPOINT.pk, 99.9 + rest_s)
    assert not own_rests.is_resting(own_entry(), ENDPOINT.pk, 100.0 + rest_s)


@pytest.mark.parametrize(
    ("status", "body"),
    [(500, b""), (413, b""), (400, b""), (403, b'{"error": {"message": "usage policy"}}')],
)
def test_what_the_endpoint_or_the_request_is_to_blame_for(status: int, body: bytes) -> None:
    attempt = attempt_at(ENDPOINT, own=own_entry())
    assert not is_credential_failure(attempt, from_status(status, {}, body))


# --- What others see of the endpoint --------------------------------------------------------------


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clock]:
    clock = Clock(1000.0)
    seen = observer(clock)
    monkeypatch.setattr(observation, "observer", lambda: seen)
    monkeypatch.setattr(process, "now", clock)
    process.health.cache_clear()
    yield clock
    process.health.cache_clear()


def record_failure_at(status: int, *, own: bool, body: bytes = b"") -> int:
    """The key of an endpoint that failed so."""
    one = endpoint()
    attempt = attempt_at(one, own=own_entry() if own else None)
    Attempts(call_to(one)).record_failure(attempt, from_status(status, {}, body))
    refresh_all(observation.observer())
    return one.pk


@pytest.mark.parametrize("status", [401, 402, 403, 429])
def test_a_refused_credential_says_nothing_of_the_endpoint(clock, own_rests, status: int) -> None:
    shared = record_failure_at(status, own=False)
    before = process.health().snapshot(clock.now)
    assert shared in before.unstable | before.parked
    own, no_access = record_failure_at(status, own=True), record_failure_at(404, own=True)
    assert process.health().snapshot(clock.now) == before
    assert set(observation.observer().recent.totals) == {shared}
    rest = {pk: own_rests.is_resting(own_entry(), pk, clock.now) for pk in (shared, own, no_access)}
    assert rest == {shared: False, own: True, no_access: True}


def test_an_outage_is_an_outage_whoever_meets_it(clock, own_rests) -> None:
    own = record_failure_at(503, own=True)
    assert process.health().snapshot(clock.now).unstable == {own}
    assert own in observation.observer().recent.totals
    assert not own_rests


def test_an_answer_to_a_team_does_not_make_good_what_the_shared_credential_met(
    clock, own_rests
) -> None:
    pk = record_failure_at(401, own=False)
    one, mine = replace(endpoint(), pk=pk), own_entry()
    own_rests.add(mine, pk, until=clock.now + 60)
    served = attempt_at(one, own=mine, ended=clock.now)

    record_success(served)
    observation.record_attempt(served, streamed=False, tokens=5)

    assert not own_rests
    assert process.health().snapshot(clock.now).unstable == {pk}
    assert [mark.kind for mark in observation.observer().health_events.take()] == ["outage"]
    record_success(attempt_at(one))
    assert process.health().snapshot(clock.now) == ALL_HEALTHY


def test_the_team_s_key_is_hidden_from_what_its_provider_says(clock, monkeypatch) -> None:
    monkeypatch.setattr(own_credentials, "unseal_key", lambda entry: "sk-mine-0123")
    one = endpoint()
    failure = from_status(401, {}, b'{"error": {"message": "bad sk-mine-0123", "code": "x"}}')
    Attempts(call_to(one)).record_failure(attempt_at(one, own=own_entry()), failure)
    assert "sk-mine" not in f"{failure.raw} {failure.message} {failure.provider_code}"
    assert failure.raw is not None


# --- Money ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rate", "list_nano", "fee", "bound"),
    [(0.0, 10**9, 0, 0), (0.05, 1000, 50, 50), (0.05, 10, 0, 1), (0.05, 30, 2, 2), (1.0, 7, 7, 7)],
)
def test_the_fee_is_a_share_of_the_list_price(settings, rate, list_nano, fee, bound) -> None:
    settings.BYOK_FEE_RATE = rate
    assert (fee_nano(list_nano), fee_bound_nano(list_nano)) == (fee, bound)


@given(st.integers(0, 2**62), st.integers(0, 2**62))
def test_a_bound_on_the_price_bounds_the_fee(list_nano: int, less: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("routing.metering.byok.settings.BYOK_FEE_RATE", 0.055)
        assert fee_nano(min(less, list_nano)) <= fee_bound_nano(list_nano)


def test_a_call_on_an_own_credential_is_never_nothing(settings) -> None:
    settings.BYOK_FEE_RATE = 0.0
    assert hold_for_estimate(500, is_own=True) == (0, 500)
    assert hold_for_estimate(0, is_own=True) == (0, 1)
    assert hold_for_estimate(500, is_own=False) == (500, 0)
    settings.BYOK_FEE_RATE = 0.05
    assert hold_for_estimate(500, is_own=True) == (25, 500)


SOME = st.builds(NeededHold, st.integers(0, 100), st.integers(0, 100))


@given(SOME, SOME)
def test_a_hold_grows_to_cover_the_need_and_by_no_more_than_that(
    held: NeededHold, needed: NeededHold
) -> None:
    more = missing_hold(needed, held)

    after = held if more is None else NeededHold(*map(sum, zip(held, more, strict=True)))
    assert after.amount_nano >= needed.amount_nano
    assert sum(after) >= sum(needed)
    assert after.byok_nano >= 0
    if more is not None:
        assert more.amount_nano >= 0
        assert after.amount_nano == max(held.amount_nano, needed.amount_nano)
        assert sum(after) == max(sum(needed), after.amount_nano)
