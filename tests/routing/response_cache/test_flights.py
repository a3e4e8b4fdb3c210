"""Requests under way that others wait for."""

import pytest

from routing.response_cache.cache_options import may_share
from routing.response_cache.cached_answers import Flights


def test_the_same_request_joins_until_it_has_landed() -> None:
    flights = Flights()
    flight, is_own = flights.join("one")
    assert is_own
    assert flights.join("one") == (flight, False)
    assert flights.join("another")[1]

    flights.land(flight)

    assert flight.has_landed.is_set()
    later, is_own = flights.join("one")
    assert is_own
    # Who lands late ends no other's flight.
    flights.land(flight)
    assert flights.join("one") == (later, False)


REPEATABLE = {"is_whole": True, "is_repeatable": True}
OTHER = {"is_whole": True, "is_repeatable": False}
STREAM = {"is_whole": False, "is_repeatable": True}


@pytest.mark.parametrize(
    ("mode", "share", "cache", "preset", "request_", "expected"),
    [
        ("repeatable", None, None, {}, REPEATABLE, True),
        ("repeatable", None, None, {}, OTHER, False),
        ("repeatable", None, None, {}, STREAM, False),
        ("repeatable", None, "true", {}, OTHER, True),
        ("repeatable", None, "true", {}, STREAM, False),
        ("repeatable", None, "false", {}, REPEATABLE, False),
        ("repeatable", None, None, {"cache_enabled": True}, OTHER, True),
        ("repeatable", "false", "true", {}, REPEATABLE, False),
        ("repeatable", "true", None, {}, STREAM, True),
        ("repeatable", "odd", None, {}, REPEATABLE, True),
        ("repeatable", "true", None, {"cache_enabled": False}, REPEATABLE, False),
        ("asked", None, None, {}, REPEATABLE, False),
        ("asked", None, "true", {}, OTHER, True),
        ("asked", "true", None, {}, OTHER, True),
        ("off", "true", "true", {}, REPEATABLE, False),
    ],
)
def test_who_shares(
    mode: str,
    share: str | None,
    cache: str | None,
    preset: dict[str, bool],
    request_: dict[str, bool],
    expected: bool,
    settings,
) -> None:
    settings.ROUTER_SHARE_IDENTICAL = mode
    headers = {"HTTP_X_ROUTER_SHARE": share, "HTTP_X_ROUTER_CACHE": cache}
    sharing = may_share(headers, preset, **request_)
    assert sharing is expected


@pytest.mark.parametrize("is_enabled", [True, False])
def test_a_workspace_that_wants_the_cache_shares_where_there_is_one(
    is_enabled: bool, settings
) -> None:
    settings.ROUTER_RESPONSE_CACHE_ENABLED = is_enabled
    assert may_share({}, {}, **OTHER, by_default=True) is is_enabled
