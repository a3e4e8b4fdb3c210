"""Every system check fires on the setting it is about, and only there."""

import sqlite3
from collections.abc import Callable
from typing import Any

import pytest
from django.core.checks import CheckMessage, run_checks
from pytest_django import Settings

from gateway import checks

SQLITE = {"default": {"ENGINE": "django.db.backends.sqlite3"}}
POSTGRES = {"default": {"ENGINE": "django.db.backends.postgresql"}}
FIRING: list[tuple[Callable[..., list[CheckMessage]], dict[str, Any], dict[str, Any], str]] = [
    (
        checks.hold_outlives_request,
        {"HOLD_LEASE_SECONDS": 600, "ROUTER_TOTAL_TIMEOUT": 600},
        {"HOLD_LEASE_SECONDS": 601, "ROUTER_TOTAL_TIMEOUT": 600},
        "gateway.E001",
    ),
    (
        checks.detectors_can_be_loaded,
        {"GUARDRAIL_DETECTORS": {"address": "gateway.nowhere.found"}},
        {"GUARDRAIL_DETECTORS": {"address": "gateway.checks.register"}},
        "gateway.E003",
    ),
    (
        checks.tool_backends_can_be_loaded,
        {"ROUTER_TOOL_BACKENDS": {"router:bash": "gateway.nowhere.found"}},
        {"ROUTER_TOOL_BACKENDS": {"router:bash": "gateway.checks.register"}},
        "gateway.E004",
    ),
    (
        checks.sqlite_serves_one_machine,
        {"PRODUCTION": True, "DATABASES": SQLITE},
        {"PRODUCTION": True, "DATABASES": POSTGRES},
        "gateway.W001",
    ),
    (
        checks.billing_is_enforced,
        {"PRODUCTION": True, "BILLING_ENFORCED": False},
        {"PRODUCTION": True, "BILLING_ENFORCED": True},
        "gateway.W002",
    ),
    (
        checks.first_byte_fits_the_deadline,
        {"ROUTER_TOTAL_TIMEOUT": 10, "ROUTER_FIRST_BYTE_TIMEOUT": 11},
        {"ROUTER_TOTAL_TIMEOUT": 11, "ROUTER_FIRST_BYTE_TIMEOUT": 11},
        "gateway.W003",
    ),
    (
        checks.webhook_secret_is_long,
        {"CREDITS_WEBHOOK_SECRET": "x" * 23},
        {"CREDITS_WEBHOOK_SECRET": ""},
        "gateway.W006",
    ),
    (
        checks.rates_are_counted_together,
        {"ROUTER_KEY_RPM": 60, "WEB_CONCURRENCY": 2, "REDIS_URL": ""},
        {"ROUTER_KEY_RPM": 60, "WEB_CONCURRENCY": 2, "REDIS_URL": "redis://hints"},
        "gateway.W004",
    ),
    (
        checks.rates_are_counted_together,
        {"RATE_ANALYTICS": 60, "WEB_CONCURRENCY": 2, "REDIS_URL": ""},
        {"RATE_ANALYTICS": 60, "WEB_CONCURRENCY": 1, "REDIS_URL": ""},
        "gateway.W004",
    ),
    (
        checks.failures_have_an_address,
        {"PRODUCTION": True, "RATE_FAILED_CREDENTIALS": 60, "TRUSTED_PROXIES": ()},
        {"PRODUCTION": True, "RATE_FAILED_CREDENTIALS": 60, "TRUSTED_PROXIES": ("127.0.0.1",)},
        "gateway.W005",
    ),
]


def ids(messages: list[CheckMessage]) -> list[str | None]:
    return [message.id for message in messages]


@pytest.mark.parametrize(("check", "bad", "good", "id"), FIRING)
@pytest.mark.filterwarnings("ignore:Overriding setting DATABASES")
def test_a_check_fires_by_its_id(
    settings: Settings,
    check: Callable[..., list[CheckMessage]],
    bad: dict[str, Any],
    good: dict[str, Any],
    id: str,
) -> None:
    for values, expected in ((bad, [id]), (good, [])):
        for name, value in values.items():
            setattr(settings, name, value)
        assert ids(check()) == expected


@pytest.mark.filterwarnings("ignore:Overriding setting DATABASES")
def test_an_old_sqlite_is_refused(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 34, 9))
    settings.DATABASES = SQLITE
    assert ids(checks.sqlite_is_new_enough()) == ["gateway.E002"]

    settings.DATABASES = POSTGRES
    assert ids(checks.sqlite_is_new_enough()) == []
    settings.DATABASES = SQLITE
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 35, 0))
    assert ids(checks.sqlite_is_new_enough()) == []


def test_all_of_them_are_registered(settings: Settings) -> None:
    settings.HOLD_LEASE_SECONDS = 1

    assert "gateway.E001" in ids(run_checks())


def test_the_settings_of_the_tests_pass() -> None:
    assert [each for each in ids(run_checks()) if str(each).startswith("gateway.")] == []
