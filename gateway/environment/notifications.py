"""Where events are sent to, and from when on they are worth one."""

from typing import Any, Final
from urllib.parse import parse_qs

from gateway import env
from gateway.env import SettingError
from gateway.environment.section import Section

setting = Section("Notifications")
_BACKENDS: Final = "django.core.mail.backends"
_PORTS: Final = {"smtp": 25, "submission": 587, "smtps": 465}
# A mail server that falls silent must not keep a worker.
EMAIL_TIMEOUT = 10


def read_email_settings() -> dict[str, Any]:
    """EMAIL_URL as Django wants it; without it nothing is sent."""
    parts = env.url("EMAIL_URL", (*_PORTS, "file", "console"))
    if parts is None:
        return {"EMAIL_BACKEND": f"{_BACKENDS}.dummy.EmailBackend"}
    if parts.scheme == "console":
        return {"EMAIL_BACKEND": f"{_BACKENDS}.console.EmailBackend"}
    if parts.scheme == "file":
        if not parts.path.startswith("/"):
            raise SettingError("EMAIL_URL", "a file URL names a folder: file:///absolute/path")
        return {
            "EMAIL_BACKEND": f"{_BACKENDS}.filebased.EmailBackend",
            "EMAIL_FILE_PATH": env.strip_quotes(parts.path),
        }
    if not parts.hostname:
        raise SettingError("EMAIL_URL", "names no mail server")
    starts_tls = parse_qs(parts.query).get("tls", [""])[-1] == "1"
    return {
        "EMAIL_BACKEND": f"{_BACKENDS}.smtp.EmailBackend",
        "EMAIL_HOST": parts.hostname,
        "EMAIL_PORT": parts.port or _PORTS[parts.scheme],
        "EMAIL_HOST_USER": env.strip_quotes(parts.username),
        "EMAIL_HOST_PASSWORD": env.strip_quotes(parts.password),
        "EMAIL_USE_SSL": parts.scheme == "smtps",
        "EMAIL_USE_TLS": parts.scheme == "submission" or (starts_tls and parts.scheme == "smtp"),
    }


setting.declare(
    "EMAIL_URL",
    "mail server for e-mail channels and for links that confirm addresses: "
    "`submission://user:password@host` (STARTTLS, port 587), "
    "`smtps://...` (TLS, 465), `smtp://...` (25; `?tls=1` for STARTTLS), `file:///folder` or "
    "`console:`. Without it there are no e-mail channels",
    "url",
    "",
)
_email = read_email_settings()
EMAIL_BACKEND: str = _email["EMAIL_BACKEND"]
SENDS_EMAIL = not EMAIL_BACKEND.startswith(f"{_BACKENDS}.dummy.")
EMAIL_FILE_PATH: str | None = _email.get("EMAIL_FILE_PATH")
EMAIL_HOST: str = _email.get("EMAIL_HOST", "")
EMAIL_PORT: int = _email.get("EMAIL_PORT", 25)
EMAIL_HOST_USER: str = _email.get("EMAIL_HOST_USER", "")
EMAIL_HOST_PASSWORD: str = _email.get("EMAIL_HOST_PASSWORD", "")
EMAIL_USE_SSL: bool = _email.get("EMAIL_USE_SSL", False)
EMAIL_USE_TLS: bool = _email.get("EMAIL_USE_TLS", False)
DEFAULT_FROM_EMAIL = setting(
    "EMAIL_FROM", "sender of e-mails", env.text, "routing-gateway@localhost"
)
NOTIFICATION_PRIVATE_HOSTS = setting(
    "NOTIFICATION_PRIVATE_HOSTS",
    "hosts that webhooks may reach though their addresses are not public, also without TLS, with "
    "commas between",
    env.host_names,
)
CREDIT_LOW_USD = setting(
    "CREDIT_LOW_USD",
    "credit in USD below which an account is told; 0 is never",
    env.decimal,
    5,
)
EVENT_DAYS = setting(
    "EVENT_DAYS",
    "days for which events and their deliveries are kept, and EXPIRY_NOTICE_DAYS at least",
    env.integer,
    90,
    minimum=40,
    maximum=36_500,
)
EXPIRY_NOTICE_DAYS = setting(
    "EXPIRY_NOTICE_DAYS",
    "how many days before they end keys, credits and models are announced",
    env.integer,
    7,
    minimum=1,
    maximum=90,
)
