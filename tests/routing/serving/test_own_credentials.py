"""A team's own credentials: which endpoints they are for, what rests, what is held and paid."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest_django import Settings

from accounts.byok import ByokEntry
from routing.metering.byok import fee_bound_nano, fee_nano
from routing.selection.ask import NOTHING_LEARNED, Turn
from routing.serving import own_credentials
from routing.serving.attempts import Held, _more, needed_for
from routing.serving.own_credentials import (
    Rests,
    any_matches,
    entry_at,
    is_of_credential,
    let_rest,
    matches,
    with_own,
)
from routing.upstreams.failures import from_status
from tests.routing.selection.entries import endpoint, model
from tests.routing.serving.calls import attempt_at

ENDPOINT = endpoint("acme", model_id="acme/small", canonical_slug="acme/small-2026-01")


def entry(provider: str = "acme", **changes: Any) -> ByokEntry:
    made = ByokEntry(
        id=f"id-{provider}",
        provider=provider,
        label="sk-...AbCd",
        is_fallback=False,
        sealed="v1:" + "s" * 60,
    )
    return replace(made, **changes)


@pytest.fixture(autouse=True)
def own_rests(monkeypatch: pytest.MonkeyPatch) -> Rests:
    mine = Rests()
    monkeypatch.setattr(own_credentials, "rests", lambda: mine)
    return mine


MEANT = [
    "acme/small",
    "acme/small-2026-01",
    "acme/small:nitro",
    "acme/small:online:floor",
    "acme/alias",
    "acme/alias:exacto",
]


@pytest.mark.parametrize("name", MEANT)
def test_a_model_is_meant_by_any_of_its_names(name: str) -> None:
    mine = entry(models=frozenset({"other/model", name}))
    assert matches(mine, ENDPOINT, {"acme/alias": "acme/small"})


@pytest.mark.parametrize("names", [set(), {"acme/smaller"}, {"acme/small:free"}, {"acme"}, {""}])
def test_other_names_are_other_models(names: set[str]) -> None:
    assert not matches(entry(models=frozenset(names)), ENDPOINT, {})


def test_a_model_without_a_variant_means_its_variants_and_not_the_other_way_round() -> None:
    free = endpoint("acme", model_id="acme/small:free")
    assert matches(entry(models=frozenset({"acme/small"})), free, {})
    assert matches(entry(models=frozenset({"acme/small:free"})), free, {})
    assert not matches(entry(models=frozenset({"acme/small:free"})), ENDPOINT, {})


def test_only_the_provider_s_own_endpoints() -> None:
    assert matches(entry(), ENDPOINT, {})
    assert not matches(entry("acm"), ENDPOINT, {})
    assert any_matches([entry("x"), entry()], [model(ENDPOINT)], {})
    assert not any_matches([entry("x")], [model(ENDPOINT)], {})


def test_places_are_numbers_among_the_caller_s_credentials() -> None:
    entries = [entry("x"), entry(), entry(), entry(is_fallback=True)]

    state = with_own(NOTHING_LEARNED, entries, [model(ENDPOINT)], aliases={})

    assert state.byok == {ENDPOINT.pk: (1, 2)}
    assert state.byok_fallback == {ENDPOINT.pk: (3,)}
    assert entry_at(Turn(ENDPOINT, 2), entries) is entries[2]
    assert entry_at(Turn(ENDPOINT), entries) is None
    assert with_own(NOTHING_LEARNED, (), [model(ENDPOINT)], aliases={}) == NOTHING_LEARNED


@pytest.mark.parametrize(
    ("mine", "unshared"),
    [
        ({"is_required": True}, {"acme/small", "acme/large"}),
        ({"is_required": True, "models": frozenset({"acme/small"})}, {"acme/small"}),
        (
            {"is_byok_only": True, "models": frozenset({"acme/small"})},
            {"acme/small", "acme/large"},
        ),
        ({"models": frozenset({"acme/small"})}, set()),
    ],
)
def test_a_credential_may_keep_the_gateway_s_own_one_away(
    mine: dict[str, Any], unshared: set[str]
) -> None:
    large = endpoint("acme", model_id="acme/large", provider=ENDPOINT.provider)
    others = endpoint("other", model_id="acme/small")
    models = [model(ENDPOINT, others), model(large, id="acme/large")]

    state = with_own(NOTHING_LEARNED, [entry(**mine)], models, aliases={})

    assert {each.model_id for each in (ENDPOINT, large) if each.pk in state.unshared} == unshared
    assert others.pk not in state.unshared


def test_one_that_rests_comes_last_and_only_there(own_rests: Rests) -> None:
    other = endpoint("acme/fast", model_id="acme/small", provider=ENDPOINT.provider)
    entries = [entry(), entry(id="second")]
    own_rests.rest(entries[0], ENDPOINT.pk, until=float("inf"))

    state = with_own(NOTHING_LEARNED, entries, [model(ENDPOINT, other)], aliases={})

    assert state.byok == {ENDPOINT.pk: (1,), other.pk: (0, 1)}
    assert state.byok_fallback == {ENDPOINT.pk: (2,)}
    assert entry_at(Turn(ENDPOINT, 2), entries) is entries[0]


def test_a_rest_ends_with_time_success_or_another_key() -> None:
    rests, mine = Rests(), entry()
    rests.rest(mine, 1, until=10.0)

    assert rests.rests(mine, 1, now=9.9)
    assert not rests.rests(mine, 2, now=9.9)
    assert not rests.rests(replace(mine, sealed="v1:" + "t" * 60), 1, now=9.9)
    assert not rests.rests(mine, 1, now=10.0)
    assert not rests
    rests.rest(mine, 1, until=10.0)
    rests.well(mine, 1)
    assert not rests.rests(mine, 1, now=1.0)


def test_no_more_of_them_are_remembered_than_fit() -> None:
    rests = Rests(size_max=3)
    for number in range(10):
        rests.rest(entry(), number, until=100.0)

    assert [n for n in range(10) if rests.rests(entry(), n, now=0.0)] == [7, 8, 9]


TOLD = {
    401: (401, "authentication"),
    402: (402, "payment_required"),
    403: (403, "permission_denied"),
}


@pytest.mark.parametrize("status", [401, 402, 403])
def test_a_refused_credential_is_told_as_the_caller_s_own(
    status: int, own_rests: Rests, settings: Settings
) -> None:
    settings.ROUTER_OUTAGE_WINDOW_SECONDS = 30
    attempt, failure = attempt_at(ENDPOINT, own=entry()), from_status(status, {}, b"{}")
    assert is_of_credential(attempt, failure)
    assert not is_of_credential(attempt_at(ENDPOINT), failure)

    let_rest(attempt, failure, 100.0)

    assert (failure.told_status, failure.error_type) == TOLD[status]
    assert (failure.outage, failure.elsewhere) == (False, True)
    assert own_rests.rests(entry(), ENDPOINT.pk, 129.9)
    assert not own_rests.rests(entry(), ENDPOINT.pk, 130.0)


def test_too_many_requests_rest_it_for_as_long_as_was_said(own_rests: Rests) -> None:
    attempt = attempt_at(ENDPOINT, own=entry())
    let_rest(attempt, from_status(429, {"retry-after": "7"}, b""), 100.0)

    assert own_rests.rests(entry(), ENDPOINT.pk, 106.9)
    assert not own_rests.rests(entry(), ENDPOINT.pk, 107.0)


@pytest.mark.parametrize(
    ("status", "body"),
    [(500, b""), (413, b""), (400, b""), (403, b'{"error": {"message": "usage policy"}}')],
)
def test_what_the_endpoint_or_the_request_is_to_blame_for(status: int, body: bytes) -> None:
    attempt = attempt_at(ENDPOINT, own=entry())
    assert not is_of_credential(attempt, from_status(status, {}, body))


# --- Money ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rate", "list_nano", "fee", "bound"),
    [(0.0, 10**9, 0, 0), (0.05, 1000, 50, 50), (0.05, 10, 0, 1), (0.05, 30, 2, 2), (1.0, 7, 7, 7)],
)
def test_the_fee_is_a_share_of_the_list_price(
    settings: Settings, rate: float, list_nano: int, fee: int, bound: int
) -> None:
    settings.BYOK_FEE_RATE = rate
    assert (fee_nano(list_nano), fee_bound_nano(list_nano)) == (fee, bound)


@given(st.integers(0, 2**62), st.integers(0, 2**62))
def test_a_bound_on_the_price_bounds_the_fee(list_nano: int, less: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("routing.metering.byok.settings.BYOK_FEE_RATE", 0.055)
        assert fee_nano(min(less, list_nano)) <= fee_bound_nano(list_nano)


def test_a_call_on_an_own_credential_is_never_nothing(settings: Settings) -> None:
    settings.BYOK_FEE_RATE = 0.0
    assert needed_for(500, is_own=True) == (0, 500)
    assert needed_for(0, is_own=True) == (0, 1)
    assert needed_for(500, is_own=False) == (500, 0)
    settings.BYOK_FEE_RATE = 0.05
    assert needed_for(500, is_own=True) == (25, 500)


SOME = st.builds(Held, st.integers(0, 100), st.integers(0, 100))


@given(SOME, SOME)
def test_a_hold_grows_to_cover_the_need_and_by_no_more_than_that(held: Held, needed: Held) -> None:
    more = _more(needed, held)

    after = held if more is None else Held(*map(sum, zip(held, more, strict=True)))
    assert after.amount_nano >= needed.amount_nano
    assert sum(after) >= sum(needed)
    assert after.byok_nano >= 0
    if more is not None:
        assert more.amount_nano >= 0
        assert after.amount_nano == max(held.amount_nano, needed.amount_nano)
        assert sum(after) == max(sum(needed), after.amount_nano)
