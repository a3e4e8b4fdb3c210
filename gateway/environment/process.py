"""Where the gateway keeps its files, listens, stores and logs."""

from gateway import env
from gateway.database.databases import read_database_settings, read_redis_url
from gateway.env import Section
from gateway.home import home, keep_private, secret

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
setting.declare("GATEWAY_HOME", "the one folder the gateway writes to", "folder", "`var/`")
GATEWAY_HOME = home()
keep_private(GATEWAY_HOME)

secrets = Section(
    "Secrets",
    "made in `GATEWAY_HOME/secrets`; required in production, each as long as 32 random bytes",
)
SECRET_KEY = secrets(
    "SECRET_KEY", "signs sessions", secret, production=PRODUCTION, bytes_of_entropy=48
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
    "proxies whose forwarding header is believed, as addresses and networks with commas between",
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
stores.declare(
    "DATABASE_URL",
    "`postgresql://...`, or `sqlite:////absolute/path`",
    "url",
    "SQLite in `GATEWAY_HOME`",
)
DATABASES = {
    "default": read_database_settings(pool_size=DATABASE_POOL_SIZE, pool_timeout_s=DATABASE_TIMEOUT)
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
stores.declare(
    "REDIS_URL",
    "Redis or Valkey, for the queue and what processes share",
    "url",
    "that of `make run`",
)
REDIS_URL = read_redis_url()
REDIS_TIMEOUT = stores("REDIS_TIMEOUT", "longest wait for an answer of Redis", env.seconds, 0.1)


LOG_LEVEL = setting(
    "LOG_LEVEL",
    "least severe level that is logged",
    env.choice,
    "INFO",
    ("DEBUG", "INFO", "WARNING", "ERROR"),
)
