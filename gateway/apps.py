"""The shared half as Django knows it, and system checks for settings that can hurt."""

import sqlite3

from django.apps import AppConfig
from django.conf import settings
from django.contrib.admin.apps import SimpleAdminConfig
from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.utils.module_loading import import_string

_EXAMINATIONS = {
    "settings": "machine.examine_settings",
    "database": "stores.examine_database",
    "migrations": "stores.examine_migrations",
    "redis": "stores.examine_hint_store",
    "disk": "machine.examine_disk",
    "processes": "machine.examine_processes",
    "address": "machine.examine_address",
    "backups": "machine.examine_backups",
}

_SQLITE_WITH_RETURNING = (3, 35, 0)
_SECRET_CHARS_MIN = 24


class GatewayConfig(AppConfig):
    """The shared half: settings, HTTP manners, process entry points. It has no tables."""

    name = "gateway"

    def ready(self) -> None:
        from gateway.database import keepalive
        from gateway.doctor import findings
        from gateway.metrics import host

        host.register()
        keepalive.register()
        for subject, function in _EXAMINATIONS.items():
            findings.register(subject, f"gateway.doctor.{function}")


class GatewayAdminConfig(SimpleAdminConfig):
    """Django's admin with its theme. Nothing of it is loaded before somebody asks for the site."""

    default_site = "accounts.people.admin_site.OperatorSite"


@register()
def hold_outlives_request(**_: object) -> list[CheckMessage]:
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
def sqlite_is_new_enough(**_: object) -> list[CheckMessage]:
    """The ledger writer relies on RETURNING."""
    engine = settings.DATABASES["default"]["ENGINE"]
    if "sqlite" not in engine or sqlite3.sqlite_version_info >= _SQLITE_WITH_RETURNING:
        return []
    return [Error("SQLite 3.35 or newer is needed", id="gateway.E002")]


@register()
def sqlite_serves_one_machine(**_: object) -> list[CheckMessage]:
    if settings.PRODUCTION and "sqlite" in settings.DATABASES["default"]["ENGINE"]:
        hint = "Set DATABASE_URL to a PostgreSQL server."
        return [Warning("SQLite serves one machine only", hint=hint, id="gateway.W001")]
    return []


@register()
def billing_is_enforced(**_: object) -> list[CheckMessage]:
    if settings.PRODUCTION and not settings.BILLING_ENFORCED:
        hint = "Accounts can spend past their credits; key limits still hold."
        return [Warning("BILLING_ENFORCED is off", hint=hint, id="gateway.W002")]
    return []


@register()
def webhook_secret_is_long(**_: object) -> list[CheckMessage]:
    """Guessing it credits any account."""
    if 0 < len(settings.CREDITS_WEBHOOK_SECRET) < _SECRET_CHARS_MIN:
        hint = "Make one with: openssl rand -hex 32"
        return [Warning("CREDITS_WEBHOOK_SECRET is short", hint=hint, id="gateway.W006")]
    return []


@register()
def detectors_can_be_loaded(**_: object) -> list[CheckMessage]:
    """A content filter whose plug-in is missing would refuse every request under it."""
    problems: list[CheckMessage] = []
    for name, path in settings.GUARDRAIL_DETECTORS.items():
        try:
            import_string(path)
        except ImportError as error:
            text = f"GUARDRAIL_DETECTORS: {name} cannot be loaded: {error}"
            problems.append(Error(text, hint="name=package.module.function", id="gateway.E003"))
    return problems


@register()
def tool_backends_can_be_loaded(**_: object) -> list[CheckMessage]:
    """A server tool whose backend is missing would fail every request that names it."""
    problems: list[CheckMessage] = []
    for name, path in settings.ROUTER_TOOL_BACKENDS.items():
        try:
            import_string(path)
        except ImportError as error:
            text = f"ROUTER_TOOL_BACKENDS: {name} cannot be loaded: {error}"
            hint = "router:web_search=package.module.maker"
            problems.append(Error(text, hint=hint, id="gateway.E004"))
    return problems


@register()
def first_byte_fits_the_deadline(**_: object) -> list[CheckMessage]:
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


_RATES = (
    *("ROUTER_FREE_RPM", "ROUTER_FREE_RPD_LOW", "ROUTER_FREE_RPD_HIGH", "ROUTER_KEY_RPM"),
    *("ROUTER_KEY_TPM", "RATE_ANALYTICS", "RATE_MANAGEMENT_READS", "RATE_MANAGEMENT_WRITES"),
    *("RATE_FAILED_CREDENTIALS", "RATE_FAILED_TOKENS", "RATE_SIGN_INS", "RATE_VAULT"),
)


@register()
def rates_are_counted_together(**_: object) -> list[CheckMessage]:
    """Without a shared cache each process allows the whole limit."""
    limited = any(getattr(settings, name) for name in _RATES)
    if not limited or settings.REDIS_URL or settings.WEB_CONCURRENCY == 1:
        return []
    hint = "Set REDIS_URL, run one web process, or lower the limits to each process's part."
    text = "Rate limits are counted by each web process for itself"
    return [Warning(text, hint=hint, id="gateway.W004")]


@register()
def failures_have_an_address(**_: object) -> list[CheckMessage]:
    """In production there is a proxy, everybody has its address, and its word for HTTPS counts."""
    if not settings.PRODUCTION or settings.TRUSTED_PROXIES:
        return []
    hint = (
        "Name your proxy, or a few wrong passwords and tokens of anybody keep everybody out, and "
        "pages redirect to HTTPS for ever: who else says X-Forwarded-Proto is not believed."
    )
    text = "Guesses are counted by address, and there is no TRUSTED_PROXIES"
    return [Warning(text, hint=hint, id="gateway.W005")]
