"""Where the gateway keeps its files, listens, stores and logs; DATABASE_URL and REDIS_URL as Django
and Celery want them."""

from typing import Any
from urllib.parse import parse_qsl

from gateway import env
from gateway.database.keepalive import CLIENT_KEEPALIVE
from gateway.env import SettingError
from gateway.environment.redis_url import (
    CLUSTER_SCHEME,
    SCHEME,
    TLS_CLUSTER_SCHEME,
    TLS_SCHEME,
    read_cluster_url,
    read_sentinel_url,
)
from gateway.environment.section import Section
from gateway.home import home, keep_private, private_folder, secret

# WAL lets readers go on while the writer commits. FULL, because an answered charge must survive a
# power cut and not only a killed process.
_SQLITE_PRAGMAS = "PRAGMA journal_mode=WAL;PRAGMA synchronous=FULL;PRAGMA foreign_keys=ON;"


def read_database_settings(
    name: str = "DATABASE_URL", *, pool_size: int, pool_timeout_s: float, has_pooler: bool
) -> dict[str, Any]:
    """The entry of DATABASES for the URL of that name; SQLite in the home folder where it is
    unset."""
    parts = env.url(name, ("postgres", "postgresql", "sqlite"))
    if parts is None:
        return _build_sqlite_settings(str(private_folder(home()) / "gateway.sqlite3"))
    if parts.scheme == "sqlite":
        path = env.strip_quotes(parts.path)
        return _build_sqlite_settings(path[1:] if path.startswith("//") else path)
    if not parts.path.strip("/"):
        raise SettingError(name, "names no database")
    options: dict[str, Any] = {"connect_timeout": 2, **CLIENT_KEEPALIVE}
    options |= parse_qsl(parts.query)
    options["pool"] = {
        "min_size": 0,
        "max_size": pool_size,
        "timeout": pool_timeout_s,
        "max_idle": 60,
        # Give an attempt up soon, and the next request begins a new one. The pool's own back-off
        # would keep a database that is back waiting for up to a minute.
        "reconnect_timeout": 2,
    }
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": env.strip_quotes(parts.path[1:]),
        "USER": env.strip_quotes(parts.username),
        "PASSWORD": env.strip_quotes(parts.password),
        "HOST": env.strip_quotes(parts.hostname) or options.pop("host", ""),
        "PORT": str(parts.port or options.pop("port", "")),
        "OPTIONS": options,
        "CONN_HEALTH_CHECKS": True,
        # The next read of a cursor may reach another connection of the pooler's.
        "DISABLE_SERVER_SIDE_CURSORS": has_pooler,
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


setting = Section("Process and web")
PRODUCTION = (
    setting(
        "GATEWAY_ENV",
        "`production` insists on the secrets and on `ALLOWED_HOSTS`, and secures the cookies of "
        "pages",
        env.choice,
        "development",
        ("development", "production"),
    )
    == "production"
)
setting.declare(
    "GATEWAY_HOME",
    "the one folder the gateway writes to; without a checkout `~/.local/share/routing-gateway`",
    "folder",
    "`var/`",
)
GATEWAY_HOME = home()
keep_private(GATEWAY_HOME)

secrets = Section(
    "Secrets",
    "made in `GATEWAY_HOME/secrets`; required in production, each as long as 32 random bytes",
)
SECRET_KEY = secrets(
    "SECRET_KEY", "signs sessions", secret, production=PRODUCTION, bytes_of_entropy=48
)
SECRET_KEY_FALLBACKS = secrets(
    "SECRET_KEY_FALLBACKS",
    "former `SECRET_KEY`s, with commas between: sessions and requests between machines signed by "
    "them still count",
    env.words,
)
VAULT_MASTER_KEY = secrets(
    "VAULT_MASTER_KEY",
    "encrypts the credentials of providers and teams, and vaults",
    secret,
    production=PRODUCTION,
)
# They still open what they sealed, until `rotate_master_key` has moved it.
VAULT_FORMER_MASTER_KEYS = tuple(
    secrets(
        "VAULT_FORMER_MASTER_KEYS",
        "former `VAULT_MASTER_KEY`s, with commas between, until `rotate_master_key` has run",
        env.words,
    )
)
ROUTER_USER_HASH_SECRET = secrets(
    "ROUTER_USER_HASH_SECRET", "hashes the ids of end users", secret, production=PRODUCTION
)
if PRODUCTION and len(SECRET_KEY) < 50:
    raise env.SettingError("SECRET_KEY", "needs at least 50 characters in production")

HOST = setting("HOST", "address on which web listens", env.text, "127.0.0.1")
PORT = setting(
    "PORT", "port on which web listens; 0 picks a free one", env.integer, 8000, maximum=65535
)
WEB_CONCURRENCY = setting(
    "WEB_CONCURRENCY",
    "web processes; 2 per core is a good start on PostgreSQL",
    env.integer,
    1,
    minimum=1,
    maximum=256,
)
SIMULATOR = setting(
    "SIMULATOR", "whether `make run` starts the simulated providers", env.boolean, True
)
SIMULATOR_PORT = setting(
    "SIMULATOR_PORT",
    "port of the simulated providers; 0 picks a free one",
    env.integer,
    0,
    maximum=65535,
)
PUBLIC_URL = setting(
    "PUBLIC_URL",
    "how the gateway is called from outside, in messages; by default as the request says",
    env.base_url,
)
ALLOWED_HOSTS = setting(
    "ALLOWED_HOSTS",
    "host names of the admin, with commas between; required in production",
    env.words,
    "" if PRODUCTION else "*",
)
if PRODUCTION and not ALLOWED_HOSTS:
    raise env.SettingError("ALLOWED_HOSTS", "required in production: the admin's host names")
CORS_ALLOW_ORIGINS = setting(
    "CORS_ALLOW_ORIGINS",
    "origins whose pages may call inference paths from a browser, with commas between, or `none`. "
    "Management paths allow no origin",
    env.origins,
    "*",
)
VENDOR_ALIASES = setting(
    "VENDOR_ALIASES",
    "vendor whose clients need only another base URL: its `openrouter/auto`, `openrouter:*` and "
    "`X-OpenRouter-*` stand for `router/auto`, `router:*` and `X-Router-*`; empty turns that off",
    env.vendors,
    "openrouter",
)
CSRF_TRUSTED_ORIGINS = setting(
    "CSRF_TRUSTED_ORIGINS", "origins that may post to the admin, with commas between", env.words
)
TRUSTED_PROXIES = setting(
    "TRUSTED_PROXIES",
    "proxies whose forwarding headers are believed, as addresses and networks with commas between",
    env.networks,
)


stores = Section("Stores")
DATABASE_POOL_SIZE = stores(
    "DATABASE_POOL_SIZE",
    "database connections per process, beside the ledger's own",
    env.integer,
    8,
    minimum=1,
    maximum=1000,
)
DATABASE_TIMEOUT = stores(
    "DATABASE_TIMEOUT", "longest wait for a database connection", env.seconds, 1.5
)
DATABASE_POOLER = stores(
    "DATABASE_POOLER",
    "whether `DATABASE_URL` leads to a pooler in transaction mode, such as pgbouncer: then nothing "
    "is prepared or kept for longer than a transaction",
    env.boolean,
    False,
)
stores.declare(
    "DATABASE_URL",
    "`postgresql://...`, or `sqlite:////absolute/path`",
    "url",
    "SQLite in `GATEWAY_HOME`",
)
DATABASES = {
    "default": read_database_settings(
        pool_size=DATABASE_POOL_SIZE,
        pool_timeout_s=DATABASE_TIMEOUT,
        has_pooler=DATABASE_POOLER,
    )
}
stores.declare(
    "DATABASE_READ_URL",
    "`postgresql://...` of a replica from which analytics, activity and the console's sums come",
    "url",
    "none: they are read from the database",
)
if env.url("DATABASE_READ_URL", ("postgres", "postgresql")) is not None:
    if not DATABASES["default"]["ENGINE"].endswith("postgresql"):
        raise SettingError("DATABASE_READ_URL", "only PostgreSQL has replicas: set DATABASE_URL")
    DATABASES["replica"] = read_database_settings(
        "DATABASE_READ_URL",
        pool_size=DATABASE_POOL_SIZE,
        pool_timeout_s=DATABASE_TIMEOUT,
        has_pooler=DATABASE_POOLER,
    )
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
stores.declare(
    "REDIS_URL",
    "Redis or Valkey, for the queue and what processes share: `redis://`, `rediss://` or "
    "`unix://`; where sentinels say which server is the primary, "
    "`redis+sentinel://user:password@host:port,host:port/0?service=NAME`, and of a cluster "
    "`redis+cluster://user:password@host:port,host:port`; both with `rediss` for TLS, and "
    "`ssl_ca_certs` for a file of authorities",
    "url",
    "that of `make run`",
)
REDIS_URL = env.text("REDIS_URL")
try:
    if read_sentinel_url(REDIS_URL) is None and read_cluster_url(REDIS_URL) is None:
        several = (SCHEME, TLS_SCHEME, CLUSTER_SCHEME, TLS_CLUSTER_SCHEME)
        env.url("REDIS_URL", ("redis", "rediss", "unix", *several))
except ValueError as error:
    raise SettingError("REDIS_URL", str(error)) from None
REDIS_TIMEOUT = stores("REDIS_TIMEOUT", "longest wait for an answer of Redis", env.seconds, 0.1)


LOG_FORMAT = setting(
    "LOG_FORMAT",
    "how lines on stderr look: `text` for people, or one JSON object each",
    env.choice,
    "text",
    ("text", "json"),
)
LOG_LEVEL = setting(
    "LOG_LEVEL",
    "least severe level that is logged, in capitals or not; `INFO` has a line for each request",
    env.log_level,
    "INFO",
)

METRICS_BIND = setting(
    "METRICS_BIND",
    "address on which one web process serves `/metrics`, to whoever can reach it; port 0 picks a "
    "free one, empty turns that off. Where it is empty and there is no `METRICS_TOKEN`, nothing is "
    "measured",
    env.address,
    "127.0.0.1:9464",
)
METRICS_TOKEN = setting(
    "METRICS_TOKEN",
    "bearer token with which web serves `/metrics` too; empty turns that off",
    env.text,
)
