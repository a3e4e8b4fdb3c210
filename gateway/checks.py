"""System checks for settings that can hurt."""

import sqlite3
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, Warning, register

_SQLITE_WITH_RETURNING = (3, 35, 0)


@register()
def hold_outlives_request(**_: Any) -> list[CheckMessage]:
    """A hold that expires while its call still runs would free money that is being spent."""
    if settings.HOLD_LEASE_SECONDS > settings.ROUTER_TOTAL_TIMEOUT:
        return []
    return [
        Error(
            "HOLD_LEASE_SECONDS must be longer than ROUTER_TOTAL_TIMEOUT",
            hint="The default is the total deadline plus five minutes.",
            id="gateway.E001",
        )
    ]


@register(Tags.database)
def sqlite_is_new_enough(**_: Any) -> list[CheckMessage]:
    """The ledger writer relies on RETURNING."""
    engine = settings.DATABASES["default"]["ENGINE"]
    if "sqlite" not in engine or sqlite3.sqlite_version_info >= _SQLITE_WITH_RETURNING:
        return []
    return [Error("SQLite 3.35 or newer is needed", id="gateway.E002")]


@register()
def sqlite_serves_one_machine(**_: Any) -> list[CheckMessage]:
    if settings.PRODUCTION and "sqlite" in settings.DATABASES["default"]["ENGINE"]:
        hint = "Set DATABASE_URL to a PostgreSQL server."
        return [Warning("SQLite serves one machine only", hint=hint, id="gateway.W001")]
    return []


@register()
def billing_is_enforced(**_: Any) -> list[CheckMessage]:
    if settings.PRODUCTION and not settings.BILLING_ENFORCED:
        hint = "Accounts can spend past their credits; key limits still hold."
        return [Warning("BILLING_ENFORCED is off", hint=hint, id="gateway.W002")]
    return []


@register()
def first_byte_fits_the_deadline(**_: Any) -> list[CheckMessage]:
    if settings.ROUTER_TOTAL_TIMEOUT < settings.ROUTER_FIRST_BYTE_TIMEOUT:
        hint = "The first byte can then never be late before the whole call is."
        return [
            Warning(
                "ROUTER_TOTAL_TIMEOUT is below ROUTER_FIRST_BYTE_TIMEOUT",
                hint=hint,
                id="gateway.W003",
            )
        ]
    return []
