"""Requests under way that others wait for."""

import pytest

from routing.response_cache.cache_options import may_share
from routing.response_cache.flights import Flights


def test_the_same_request_joins_until_it_has_landed() -> None:
    flights = Flights()
    bodies = ({"model": "a", "n": 1},)
    flight, is_own = flights.join("key", bodies)
    assert is_own

    # The order of properties does not matter; other values and other keys do.
    assert flights.join("key", ({"n": 1, "model": "a"},)) == (flight, False)
    other, is_own = flights.join("key", ({"model": "a", "n": 2},))
    assert (other is flight, is_own) == (False, True)
    assert flights.join("another", bodies)[1]

    for _ in range(2):
        flights.land(flight)
    assert flight.has_landed.is_set()
    assert flights.join("key", bodies)[1]
    assert flights.join("key", ({"model": "a", "n": 2},)) == (other, False)


@pytest.mark.parametrize(
    ("mode", "header", "preset", "is_repeatable", "is_cached", "expected"),
    [
        ("repeatable", None, {}, True, False, True),
        ("repeatable", None, {}, False, False, False),
        ("repeatable", None, {}, False, True, True),
        ("repeatable", "false", {}, True, True, False),
        ("repeatable", "true", {}, False, False, True),
        ("repeatable", "odd", {}, True, False, True),
        ("repeatable", "true", {"cache_enabled": False}, True, False, False),
        ("asked", None, {}, True, False, False),
        ("asked", None, {}, False, True, True),
        ("asked", "true", {}, False, False, True),
        ("off", "true", {}, True, True, False),
    ],
)
def test_who_shares(
    mode: str,
    header: str | None,
    preset: dict[str, bool],
    is_repeatable: bool,
    is_cached: bool,
    expected: bool,
    settings,
) -> None:
    settings.ROUTER_SHARE_IDENTICAL = mode
    sharing = may_share(header, preset, is_repeatable=is_repeatable, is_cached=is_cached)
    assert sharing is expected
