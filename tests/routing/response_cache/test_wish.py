"""When the response cache is on, and for how long."""

from typing import Any

import pytest

from routing.response_cache.cache_options import CacheOptions, read_cache_options

ON = {"HTTP_X_ROUTER_CACHE": "true"}


@pytest.fixture(autouse=True)
def _enable_cache(settings) -> None:
    settings.ROUTER_RESPONSE_CACHE_ENABLED = True


# Whether the workspace wants it, the header, the preset, and whether it is on.
SWITCHED: list[tuple[bool, str | None, dict[str, Any], bool]] = [
    (False, None, {}, False),
    (False, "true", {}, True),
    (False, " TRUE ", {}, True),
    (False, "1", {}, False),
    (False, "", {"cache_enabled": True}, True),
    (False, None, {"cache_enabled": True}, True),
    (False, "false", {"cache_enabled": True}, False),
    (False, "true", {"cache_enabled": False}, False),
    (False, "true", {"cache_enabled": None}, True),
    (False, None, {"cache_ttl_seconds": 5}, False),
    (True, None, {}, True),
    (True, None, {"cache_enabled": None}, True),
    (True, "odd", {"cache_ttl_seconds": 5}, True),
    (True, "false", {}, False),
    (True, "true", {"cache_enabled": False}, False),
]


@pytest.mark.parametrize(("by_default", "header", "preset", "is_on"), SWITCHED)
def test_who_switches_it_on(
    by_default: bool, header: str | None, preset: dict[str, Any], is_on: bool
) -> None:
    headers = {} if header is None else {"HTTP_X_ROUTER_CACHE": header}
    options = read_cache_options(headers, preset, by_default=by_default)
    assert (options is not None) is is_on


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
