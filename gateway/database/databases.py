"""DATABASE_URL and REDIS_URL as Django and Celery want them."""

from typing import Any
from urllib.parse import parse_qsl

from gateway import env
from gateway.env import SettingError
from gateway.home import home, private_folder

# WAL lets readers go on while the writer commits. FULL, because an answered charge must survive a
# power cut and not only a killed process.
_SQLITE_PRAGMAS = "PRAGMA journal_mode=WAL;PRAGMA synchronous=FULL;PRAGMA foreign_keys=ON;"


def read_database_settings(*, pool_size: int, pool_timeout_s: float) -> dict[str, Any]:
    """The `default` entry of DATABASES; SQLite in the home folder when DATABASE_URL is unset."""
    parts = env.url("DATABASE_URL", ("postgres", "postgresql", "sqlite"))
    if parts is None:
        return _build_sqlite_settings(str(private_folder(home()) / "gateway.sqlite3"))
    if parts.scheme == "sqlite":
        path = env.unquoted(parts.path)
        return _build_sqlite_settings(path[1:] if path.startswith("//") else path)
    if not parts.path.strip("/"):
        raise SettingError("DATABASE_URL", "names no database")
    options: dict[str, Any] = dict(parse_qsl(parts.query))
    options.setdefault("connect_timeout", 2)
    options["pool"] = {
        "min_size": 0,
        "max_size": pool_size,
        "timeout": pool_timeout_s,
        "max_idle": 60,
        # Give an attempt up soon: the next request begins a new one, and the pool's own back-off
        # would keep a database that is back waiting for up to a minute.
        "reconnect_timeout": 2,
    }
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": env.unquoted(parts.path[1:]),
        "USER": env.unquoted(parts.username),
        "PASSWORD": env.unquoted(parts.password),
        "HOST": env.unquoted(parts.hostname) or options.pop("host", ""),
        "PORT": str(parts.port or options.pop("port", "")),
        "OPTIONS": options,
        "CONN_HEALTH_CHECKS": True,
    }


def _build_sqlite_settings(path: str) -> dict[str, Any]:
    if not path.startswith("/"):
        raise SettingError("DATABASE_URL", "a sqlite URL needs an absolute path: sqlite:////...")
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": path,
        "OPTIONS": {
            "transaction_mode": "IMMEDIATE",
            "timeout": 10,
            "init_command": _SQLITE_PRAGMAS,
        },
    }


def read_redis_url() -> str:
    """The hint store's address, or empty when there is none."""
    env.url("REDIS_URL", ("redis", "rediss", "unix"))
    return env.text("REDIS_URL")
