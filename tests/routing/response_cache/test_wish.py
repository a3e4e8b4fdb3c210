"""When the response cache is on, and for how long."""

from typing import Any

import pytest

from routing.response_cache.cache_options import CacheOptions, read_cache_options

ON = {"HTTP_X_ROUTER_CACHE": "true"}


@pytest.fixture(autouse=True)
def _enabled(settings) -> None:
    settings.ROUTER_RESPONSE_CACHE_ENABLED = True


@pytest.mark.parametrize(
    ("header", "preset", "is_on"),
    [
        (None, {}, False),
        ("true", {}, True),
        (" TRUE ", {}, True),
        ("1", {}, False),
        ("", {"cache_enabled": True}, True),
        (None, {"cache_enabled": True}, True),
        ("false", {"cache_enabled": True}, False),
        ("true", {"cache_enabled": False}, False),
        ("true", {"cache_enabled": None}, True),
        (None, {"cache_ttl_seconds": 5}, False),
    ],
)
def test_who_switches_it_on(header: str | None, preset: dict[str, Any], is_on: bool) -> None:
    headers = {} if header is None else {"HTTP_X_ROUTER_CACHE": header}
    assert (read_cache_options(headers, preset) is not None) is is_on


@pytest.mark.parametrize(
    ("header", "preset", "is_on"),
    [
        (None, {}, True),
        (None, {"cache_enabled": None}, True),
        ("odd", {"cache_ttl_seconds": 5}, True),
        ("false", {}, False),
        ("true", {"cache_enabled": False}, False),
    ],
)
def test_a_workspace_switches_it_on_for_requests_that_do_not_say(
    header: str | None, preset: dict[str, Any], is_on: bool
) -> None:
    headers = {} if header is None else {"HTTP_X_ROUTER_CACHE": header}
    assert (read_cache_options(headers, preset, by_default=True) is not None) is is_on


@pytest.mark.parametrize(
    ("header", "preset", "ttl_s"),
    [
        (None, {}, 300),
        ("60", {}, 60),
        (" 60 ", {"cache_ttl_seconds": 7}, 60),
        (None, {"cache_ttl_seconds": 7}, 7),
        ("soon", {"cache_ttl_seconds": 7}, 7),
        ("1.5", {}, 300),
        *[(said, {}, 1) for said in ("0", "-5")],
        ("+5", {}, 5),
        *[(said, {}, 86_400) for said in ("86401", "9" * 5_000)],
        ("-" + "9" * 5_000, {}, 1),
        *[(said, {}, 300) for said in ("--5", "²", "")],
    ],
)
def test_how_long(header: str | None, preset: dict[str, Any], ttl_s: int) -> None:
    headers = ON if header is None else {**ON, "HTTP_X_ROUTER_CACHE_TTL": header}
    assert read_cache_options(headers, preset) == CacheOptions(ttl_s, clears=False)


@pytest.mark.parametrize(("header", "clears"), [("true", True), ("false", False), ("yes", False)])
def test_a_refresh_and_an_installation_without_a_cache(
    header: str, clears: bool, settings: Any
) -> None:
    asked = {"HTTP_X_ROUTER_CACHE_CLEAR": header}
    assert read_cache_options({**ON, **asked}, {}) == CacheOptions(300, clears)
    assert read_cache_options(asked, {}) is None
    settings.ROUTER_RESPONSE_CACHE_ENABLED = False
    assert read_cache_options({**ON, **asked}, {"cache_enabled": True}) is None
