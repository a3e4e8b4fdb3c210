"""Settings. Everything an operator may change comes from the environment, typed and checked.

Durations are in seconds, sizes in bytes. The table in README.md lists them all.
"""

from importlib.metadata import PackageNotFoundError, version
from typing import Any

from gateway import env
from gateway.archive_storage import archive_storage
from gateway.database.databases import database, redis_url
from gateway.home import PROJECT, home, keep_private, secret

try:
    GATEWAY_VERSION = version("routing-gateway")
except PackageNotFoundError:
    GATEWAY_VERSION = "0.1.0"

PRODUCTION = env.choice("GATEWAY_ENV", "development", ("development", "production")) == "production"
DEBUG = False
GATEWAY_HOME = home()
keep_private(GATEWAY_HOME)

# --- Secrets --------------------------------------------------------------------------------------
SECRET_KEY = secret("SECRET_KEY", production=PRODUCTION, bytes_of_entropy=48)
VAULT_MASTER_KEY = secret("VAULT_MASTER_KEY", production=PRODUCTION)
# They still open what they sealed, until `rotate_master_key` has moved it.
VAULT_FORMER_MASTER_KEYS = tuple(env.words("VAULT_FORMER_MASTER_KEYS"))
ROUTER_USER_HASH_SECRET = secret("ROUTER_USER_HASH_SECRET", production=PRODUCTION)
if PRODUCTION and len(SECRET_KEY) < 50:
    raise env.SettingError("SECRET_KEY", "needs at least 50 characters in production")

# --- Where it listens -----------------------------------------------------------------------------
HOST = env.text("HOST", "127.0.0.1")
PORT = env.integer("PORT", 8000, maximum=65535)
WEB_CONCURRENCY = env.integer("WEB_CONCURRENCY", 1, minimum=1, maximum=256)
PUBLIC_URL = env.base_url("PUBLIC_URL")
ALLOWED_HOSTS = env.words("ALLOWED_HOSTS", "" if PRODUCTION else "*")
if PRODUCTION and not ALLOWED_HOSTS:
    raise env.SettingError("ALLOWED_HOSTS", "required in production: the admin's host names")
CORS_ALLOW_ORIGINS = env.origins("CORS_ALLOW_ORIGINS", "*")
VENDOR_ALIASES = env.vendors("VENDOR_ALIASES", "openrouter")
CSRF_TRUSTED_ORIGINS = env.words("CSRF_TRUSTED_ORIGINS")
TRUSTED_PROXIES = env.networks("TRUSTED_PROXIES")

# --- Stores ---------------------------------------------------------------------------------------
DATABASE_POOL_SIZE = env.integer("DATABASE_POOL_SIZE", 8, minimum=1, maximum=1000)
DATABASE_TIMEOUT = env.seconds("DATABASE_TIMEOUT", 1.5)
DATABASES = {"default": database(pool_size=DATABASE_POOL_SIZE, pool_timeout_s=DATABASE_TIMEOUT)}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
REDIS_URL = redis_url()
REDIS_TIMEOUT = env.seconds("REDIS_TIMEOUT", 0.1)

# --- Applications and pages -----------------------------------------------------------------------
INSTALLED_APPS = [
    "gateway.apps.GatewayConfig",
    "interns.apps.InternsConfig",
    "routing.apps.RoutingConfig",
    "accounts.apps.AccountsConfig",
    # Pages are found with the URLs: workers and most commands have no use for them.
    "django.contrib.admin.apps.SimpleAdminConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
]
AUTH_USER_MODEL = "accounts.User"
AUTHENTICATION_BACKENDS = [
    "accounts.sign_in.BoundedSignIn",
    "django.contrib.auth.backends.ModelBackend",
]
ROOT_URLCONF = "gateway.urls"
WSGI_APPLICATION = "gateway.wsgi.application"
APPEND_SLASH = False
# Sessions, messages and the rest serve pages; the API goes past them (see gateway.http.pages).
MIDDLEWARE = [
    "gateway.http.middleware.ApiDoor",
    "gateway.http.pages.OperatorThread",
    "gateway.http.pages.Security",
    "gateway.http.pages.StaticFiles",
    "gateway.http.pages.Sessions",
    "gateway.http.pages.Csrf",
    "gateway.http.pages.Authentication",
    "gateway.http.pages.Messages",
    "gateway.http.pages.FrameOptions",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    }
]
STATIC_URL = "/static/"
STATIC_ROOT = str(GATEWAY_HOME / "static")
WHITENOISE_USE_FINDERS = True
LANGUAGE_CODE = "en-us"
TIME_ZONE = "UTC"
USE_TZ = True
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator"},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SECURE = PRODUCTION
CSRF_COOKIE_SECURE = PRODUCTION
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_HSTS_SECONDS = 31_536_000 if PRODUCTION else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = PRODUCTION
SECURE_HSTS_PRELOAD = PRODUCTION
# Pages only: the API never redirects, because a redirect would drop a POST body.
SECURE_SSL_REDIRECT = PRODUCTION
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if PRODUCTION else None
X_FRAME_OPTIONS = "DENY"
# Django looks for its middleware by name; ours are subclasses of it for pages only, and a test
# looks at the headers that pages carry.
SILENCED_SYSTEM_CHECKS = ["security.W001", "security.W002", "security.W003"]

REST_FRAMEWORK: dict[str, Any] = {
    "DEFAULT_AUTHENTICATION_CLASSES": [],
    "DEFAULT_PERMISSION_CLASSES": [],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["rest_framework.parsers.JSONParser"],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "UNAUTHENTICATED_USER": None,
}
SPECTACULAR_SETTINGS: dict[str, Any] = {
    "TITLE": "Routing Gateway API",
    "DESCRIPTION": "One HTTP/JSON gateway in front of many model providers.",
    "VERSION": "1.0.0",
    "OAS_VERSION": "3.1.0",
    "SERVE_INCLUDE_SCHEMA": False,
    # The schemas are written by hand; the default hook would move their enums elsewhere.
    "POSTPROCESSING_HOOKS": ["gateway.openapi.once.describe_idempotency"],
    "SCHEMA_PATH_PREFIX": "/api/(v1|alpha)",
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "REDOC_DIST": "SIDECAR",
    "APPEND_COMPONENTS": {
        "securitySchemes": {
            "bearer": {"type": "http", "scheme": "bearer"},
            "apiKeyHeader": {"type": "apiKey", "in": "header", "name": "x-api-key"},
        },
    },
    "SECURITY": [{"bearer": []}],
}

# --- Keys and money -------------------------------------------------------------------------------
API_KEY_PREFIX = env.key_prefix("API_KEY_PREFIX", "sk-rt-v1-")
API_KEY_CACHE_SECONDS = env.decimal("API_KEY_CACHE_SECONDS", 0.8, minimum=0, maximum=1)
BYOK_FEE_RATE = env.decimal("BYOK_FEE_RATE", 0, maximum=1)
BILLING_ENFORCED = env.boolean("BILLING_ENFORCED", True)
HOLD_LEASE_SECONDS = env.seconds("HOLD_LEASE_SECONDS", 900)
HOLD_SWEEP_SECONDS = env.seconds("HOLD_SWEEP_SECONDS", 60)
LEDGER_TIMEOUT = env.seconds("LEDGER_TIMEOUT", 10)
LEDGER_QUEUE_MAX = env.integer("LEDGER_QUEUE_MAX", 10_000, minimum=1)
MANAGEMENT_MAX_BODY_BYTES = env.integer("MANAGEMENT_MAX_BODY_BYTES", 1_048_576, minimum=1024)
PUBLIC_CATALOG = env.boolean("PUBLIC_CATALOG", True)
# Of at most a half something is left of the smallest payment.
CREDIT_FEE_RATE = env.decimal("CREDIT_FEE_RATE", 0, maximum=0.5)
CREDIT_EXPIRY_DAYS = env.integer("CREDIT_EXPIRY_DAYS", 0, maximum=36_500)
CREDITS_WEBHOOK_SECRET = env.text("CREDITS_WEBHOOK_SECRET")

# --- Rate limits; 0 is none -----------------------------------------------------------------------
# The hint store writes no more digits.
_RATE_MAX = 10**12
RATE_ANALYTICS = env.integer("RATE_ANALYTICS", 0, maximum=_RATE_MAX)
RATE_MANAGEMENT_WRITES = env.integer("RATE_MANAGEMENT_WRITES", 0, maximum=_RATE_MAX)
RATE_MANAGEMENT_READS = env.integer("RATE_MANAGEMENT_READS", 0, maximum=_RATE_MAX)
RATE_FAILED_CREDENTIALS = env.integer("RATE_FAILED_CREDENTIALS", 0, maximum=_RATE_MAX)
ROUTER_FREE_RPM = env.integer("ROUTER_FREE_RPM", 0, maximum=_RATE_MAX)
ROUTER_FREE_RPD_LOW = env.integer("ROUTER_FREE_RPD_LOW", 0, maximum=_RATE_MAX)
ROUTER_FREE_RPD_HIGH = env.integer("ROUTER_FREE_RPD_HIGH", 0, maximum=_RATE_MAX)
ROUTER_FREE_CREDIT_THRESHOLD = env.integer("ROUTER_FREE_CREDIT_THRESHOLD", 0, maximum=10**9)
ROUTER_KEY_RPM = env.integer("ROUTER_KEY_RPM", 0, maximum=_RATE_MAX)
ROUTER_KEY_TPM = env.integer("ROUTER_KEY_TPM", 0, maximum=_RATE_MAX)
REGIONAL_HOSTS = env.regional_hosts("REGIONAL_HOSTS")
GUARDRAIL_DETECTORS = env.plug_ins("GUARDRAIL_DETECTORS", ("person-name", "address"))

# --- Inference ------------------------------------------------------------------------------------
ROUTER_REGION = env.text("ROUTER_REGION", "local")
# The author of models that are named without one on /systemone.
ROUTER_SYSTEMONE_NAMESPACE = env.text("ROUTER_SYSTEMONE_NAMESPACE", "typesafe")
ROUTER_MAX_BODY_BYTES = env.integer("ROUTER_MAX_BODY_BYTES", 33_554_432, minimum=1024)
ROUTER_BODY_MEMORY_BYTES = env.integer(
    "ROUTER_BODY_MEMORY_BYTES", 536_870_912, minimum=ROUTER_MAX_BODY_BYTES
)
ROUTER_HEADER_TIMEOUT = env.seconds("ROUTER_HEADER_TIMEOUT", 10)
ROUTER_BODY_TIMEOUT = env.seconds("ROUTER_BODY_TIMEOUT", 30)
ROUTER_MAX_ANSWER_BYTES = env.integer("ROUTER_MAX_ANSWER_BYTES", 67_108_864, minimum=1024)
ROUTER_MAX_EVENT_BYTES = env.integer("ROUTER_MAX_EVENT_BYTES", 16_777_216, minimum=1024)
ROUTER_STREAM_COMMIT_SECONDS = env.seconds("ROUTER_STREAM_COMMIT_SECONDS", 10)
ROUTER_KEEPALIVE_SECONDS = env.seconds("ROUTER_KEEPALIVE_SECONDS", 10)
ROUTER_CONNECT_TIMEOUT = env.seconds("ROUTER_CONNECT_TIMEOUT", 10)
ROUTER_FIRST_BYTE_TIMEOUT = env.seconds("ROUTER_FIRST_BYTE_TIMEOUT", 120)
ROUTER_IDLE_TIMEOUT = env.seconds("ROUTER_IDLE_TIMEOUT", 60)
ROUTER_TOTAL_TIMEOUT = env.seconds("ROUTER_TOTAL_TIMEOUT", 600)
ROUTER_STALLED_READER_SECONDS = env.seconds("ROUTER_STALLED_READER_SECONDS", 30)
ROUTER_OUTAGE_WINDOW_SECONDS = env.seconds("ROUTER_OUTAGE_WINDOW_SECONDS", 30)
ROUTER_STATS_WINDOW_SECONDS = env.decimal(
    "ROUTER_STATS_WINDOW_SECONDS", 300, minimum=10, maximum=600
)
ROUTER_STICKY_SECONDS = env.seconds("ROUTER_STICKY_SECONDS", 600)
ROUTER_HISTORY_DAYS = env.integer("ROUTER_HISTORY_DAYS", 7, minimum=1, maximum=3650)
ROUTER_MAX_ATTEMPTS = env.integer("ROUTER_MAX_ATTEMPTS", 10, minimum=1, maximum=100)
ROUTER_AUTO_MODELS = env.model_patterns("ROUTER_AUTO_MODELS")
ROUTER_MAX_MODELS = env.integer("ROUTER_MAX_MODELS", 3, minimum=1, maximum=100)
ROUTER_RETRY_BUDGET = env.decimal("ROUTER_RETRY_BUDGET", 0.2, maximum=100)
ROUTER_RETRY_FLOOR = env.integer("ROUTER_RETRY_FLOOR", 100)
ROUTER_ESTIMATE_OUTPUT_CAP = env.optional_integer("ROUTER_ESTIMATE_OUTPUT_CAP", minimum=1)
ROUTER_EXPOSE_RAW_ERRORS = env.boolean("ROUTER_EXPOSE_RAW_ERRORS", True)
ROUTER_UPSTREAM_PROXY = env.proxy("ROUTER_UPSTREAM_PROXY")
ROUTER_TOOL_BACKENDS = env.tool_backends("ROUTER_TOOL_BACKENDS")
ROUTER_TOOL_TIMEOUT = env.seconds("ROUTER_TOOL_TIMEOUT", 60)
ROUTER_MODERATION_HOOK = env.import_path("ROUTER_MODERATION_HOOK")
ROUTER_MODERATION_TIMEOUT = env.seconds("ROUTER_MODERATION_TIMEOUT", 10)
ROUTER_TOOL_RESULT_CHARS = env.integer("ROUTER_TOOL_RESULT_CHARS", 100_000, minimum=100)
SANDBOX_UIDS = env.sandbox_users()
SANDBOX_CGROUP = env.cgroup("SANDBOX_CGROUP")
ROUTER_SHELL = env.choice("ROUTER_SHELL", "auto", ("auto", "off"))
ROUTER_SHELLS_MAX = env.integer("ROUTER_SHELLS_MAX", 8, minimum=1, maximum=1024)
ROUTER_SHELL_MEMORY_BYTES = env.integer(
    "ROUTER_SHELL_MEMORY_BYTES", 536_870_912, minimum=67_108_864
)
ROUTER_SHELL_DISK_BYTES = env.integer("ROUTER_SHELL_DISK_BYTES", 67_108_864, minimum=1_048_576)
ROUTER_SHELL_CPUS = env.decimal("ROUTER_SHELL_CPUS", 1, minimum=0.1, maximum=1024)
ROUTER_SHELL_PROCESSES = env.integer("ROUTER_SHELL_PROCESSES", 64, minimum=1, maximum=4096)
ROUTER_FILE_BYTES = env.integer("ROUTER_FILE_BYTES", 20_971_520, minimum=1024)
ROUTER_FILE_PAGES = env.integer("ROUTER_FILE_PAGES", 500, minimum=1, maximum=100_000)
ROUTER_FILE_SECONDS = env.seconds("ROUTER_FILE_SECONDS", 20)
ROUTER_RESPONSE_CACHE_ENABLED = env.boolean("ROUTER_RESPONSE_CACHE_ENABLED", False)
ROUTER_RESPONSE_CACHE_ENTRIES = env.integer("ROUTER_RESPONSE_CACHE_ENTRIES", 2_048, minimum=1)
ROUTER_RESPONSE_CACHE_ENTRY_BYTES = env.integer(
    "ROUTER_RESPONSE_CACHE_ENTRY_BYTES", 131_072, minimum=1024, maximum=16_777_216
)
ROUTER_SEARCH_ENGINE = env.choice(
    "ROUTER_SEARCH_ENGINE", "", ("", "brave", "exa", "searxng", "tavily")
)
ROUTER_SEARCH_URL = env.base_url("ROUTER_SEARCH_URL")
ROUTER_SEARCH_KEY = env.text("ROUTER_SEARCH_KEY")
ROUTER_SEARCH_TIMEOUT = env.seconds("ROUTER_SEARCH_TIMEOUT", 10)
if ROUTER_SEARCH_ENGINE == "searxng" and not ROUTER_SEARCH_URL:
    raise env.SettingError("ROUTER_SEARCH_URL", "needed: where the SearXNG instance is")
if ROUTER_SEARCH_ENGINE not in ("", "searxng") and not ROUTER_SEARCH_KEY:
    raise env.SettingError("ROUTER_SEARCH_KEY", f"needed by {ROUTER_SEARCH_ENGINE}")
ROUTER_FETCH_BYTES = env.integer("ROUTER_FETCH_BYTES", 5_242_880, minimum=1024, maximum=67_108_864)
ROUTER_FETCH_PRIVATE_HOSTS = env.host_names("ROUTER_FETCH_PRIVATE_HOSTS")
ROUTER_POOL_SIZE = env.integer("ROUTER_POOL_SIZE", 200, minimum=1)
ROUTER_MAX_CONCURRENCY = env.integer("ROUTER_MAX_CONCURRENCY", 1000, minimum=1)
GENERATION_CONTENT_DAYS = env.integer("GENERATION_CONTENT_DAYS", 30, minimum=1, maximum=3650)
GENERATION_CONTENT_BYTES = env.integer(
    "GENERATION_CONTENT_BYTES", 1_048_576, minimum=1024, maximum=16_777_216
)
ANALYTICS_TIMEOUT = env.seconds("ANALYTICS_TIMEOUT", 10)
CATALOGUE_POLL_SECONDS = env.seconds("CATALOGUE_POLL_SECONDS", 0.5)

# --- Interns --------------------------------------------------------------------------------------
INTERN_RUNTIME = env.runtime("INTERN_RUNTIME", "process", ("process", "container"))
INTERN_DOMAIN = env.host_name("INTERN_DOMAIN", "interns.localhost")
INTERN_REQUIRE_SLACK_INSTALL = env.boolean("INTERN_REQUIRE_SLACK_INSTALL", False)
INTERNS_MAX_PER_MEMBER = env.integer("INTERNS_MAX_PER_MEMBER", 10, minimum=1, maximum=10_000)
INTERN_LEASE_SECONDS = env.seconds("INTERN_LEASE_SECONDS", 60)
INTERN_REAPER_SECONDS = env.seconds("INTERN_REAPER_SECONDS", 5)
INTERN_PROBE_SECONDS = env.seconds("INTERN_PROBE_SECONDS", 15)
INTERN_RECONCILE_SECONDS = env.seconds("INTERN_RECONCILE_SECONDS", 300)
INTERN_OPERATION_SECONDS = env.seconds("INTERN_OPERATION_SECONDS", 10)
INTERN_PROVISION_SECONDS = env.seconds("INTERN_PROVISION_SECONDS", 600)
INTERN_HEALTH_SECONDS = env.seconds("INTERN_HEALTH_SECONDS", 60)
INTERN_GATEWAY_URL = env.base_url("INTERN_GATEWAY_URL")
INTERN_PUBLISH_SECONDS = env.seconds("INTERN_PUBLISH_SECONDS", 1)
INTERN_JOBS = env.integer("INTERN_JOBS", 4, minimum=1, maximum=256)
INTERN_QUESTION_SECONDS = env.seconds("INTERN_QUESTION_SECONDS", 300)
INTERN_TURN_SECONDS = env.seconds("INTERN_TURN_SECONDS", 300)
INTERN_KEEPALIVE_SECONDS = env.seconds("INTERN_KEEPALIVE_SECONDS", 30)
INTERN_RETAINED_BYTES = env.integer(
    "INTERN_RETAINED_BYTES", 1_048_576, minimum=1024, maximum=67_108_864
)
INTERN_RUN_DAYS = env.integer("INTERN_RUN_DAYS", 30, minimum=1, maximum=3650)
INTERN_SANDBOX = env.choice("INTERN_SANDBOX", "auto", ("auto", "required", "off"))
INTERN_EGRESS = env.boolean("INTERN_EGRESS", False)
INTERN_MEMORY_BYTES = env.integer("INTERN_MEMORY_BYTES", 2_147_483_648, minimum=268_435_456)
INTERN_FILE_BYTES = env.integer("INTERN_FILE_BYTES", 1_073_741_824, minimum=1_048_576)
INTERN_DISK_BYTES = env.integer("INTERN_DISK_BYTES", 10_737_418_240, minimum=16_777_216)
INTERN_PROCESSES = env.integer("INTERN_PROCESSES", 256, minimum=16, maximum=32_768)
INTERN_CPUS = env.decimal("INTERN_CPUS", 1, minimum=0.1, maximum=1024)
INTERN_CONTAINER_HOST = env.text("INTERN_CONTAINER_HOST")
INTERN_CONTAINER_IMAGE = env.text("INTERN_CONTAINER_IMAGE")
INTERN_CONTAINER_BASE = env.text("INTERN_CONTAINER_BASE")
INTERN_ARCHIVE_DAYS = env.integer("INTERN_ARCHIVE_DAYS", 30, minimum=1, maximum=3650)
RATE_INTERN_TURNS = env.integer("RATE_INTERN_TURNS", 0, maximum=_RATE_MAX)
RATE_VAULT = env.integer("RATE_VAULT", 0, maximum=_RATE_MAX)
INTERN_ARCHIVE_STORE = env.archive_store("INTERN_ARCHIVE_STORE")
INTERN_ARCHIVE_ENDPOINT = env.base_url("INTERN_ARCHIVE_ENDPOINT")
INTERN_ARCHIVE_SECONDS = env.seconds("INTERN_ARCHIVE_SECONDS", 3600)
INTERN_ARCHIVE_SILENCE_SECONDS = env.seconds("INTERN_ARCHIVE_SILENCE_SECONDS", 20)
INTERN_FETCH_SECONDS = env.seconds("INTERN_FETCH_SECONDS", 30)
INTERN_FETCH_BYTES = env.integer("INTERN_FETCH_BYTES", 5_242_880, minimum=1024, maximum=67_108_864)
INTERN_FETCH_RPM = env.integer("INTERN_FETCH_RPM", 120, maximum=_RATE_MAX)
INTERN_FETCH_PRIVATE_HOSTS = env.host_names("INTERN_FETCH_PRIVATE_HOSTS")
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
    "intern-archives": archive_storage(
        INTERN_ARCHIVE_STORE,
        INTERN_ARCHIVE_ENDPOINT,
        GATEWAY_HOME,
        silence_s=INTERN_ARCHIVE_SILENCE_SECONDS,
    ),
}

# --- Background work ------------------------------------------------------------------------------
CELERY_BROKER_URL = REDIS_URL.replace("unix://", "redis+socket://", 1)
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_REJECT_ON_WORKER_LOST = True
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_TASK_IGNORE_RESULT = True
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
# For as long as the broker is gone: Celery's own hundred tries end a worker within the hour.
CELERY_BROKER_CONNECTION_MAX_RETRIES = None
CELERY_BROKER_TRANSPORT_OPTIONS: dict[str, Any] = {
    # kombu's own defaults leave the tasks of a killed worker lost to sight for 100 s.
    "unacked_restore_interval": 2,
    "unacked_restore_throttle": 1,
    "socket_timeout": 5,
    "socket_connect_timeout": 2,
}
if not CELERY_BROKER_URL:
    _queue = GATEWAY_HOME / "queue"
    CELERY_BROKER_URL = "filesystem://"
    CELERY_BROKER_TRANSPORT_OPTIONS = {
        "data_folder_in": str(_queue),
        "data_folder_out": str(_queue),
        "control_folder": str(_queue / "control"),
    }
CELERY_TASK_ALWAYS_EAGER = False
LEDGER_AUDIT_SECONDS = env.seconds("LEDGER_AUDIT_SECONDS", 900)
CELERY_BEAT_SCHEDULE: dict[str, Any] = {
    "count-calls": {"task": "routing.tasks.count_calls", "schedule": 300.0},
    "audit-books": {"task": "accounts.tasks.audit_books", "schedule": LEDGER_AUDIT_SECONDS},
    "expire-credits": {"task": "accounts.tasks.expire_credits", "schedule": 3600.0},
    "forget-repeatables": {"task": "accounts.tasks.forget_repeatable_requests", "schedule": 300.0},
    "clear-workspaces": {"task": "accounts.tasks.clear_deleted_workspaces", "schedule": 600.0},
    # A second chance: the web processes' ledger writers sweep by themselves.
    "sweep-holds": {"task": "routing.tasks.sweep_expired_holds", "schedule": HOLD_SWEEP_SECONDS},
    "reap-interns": {
        "task": "interns.tasks.reap",
        "schedule": INTERN_REAPER_SECONDS,
        "options": {"queue": "intern-control", "expires": INTERN_REAPER_SECONDS},
    },
    "expire-intern-chats": {
        "task": "interns.chat.tasks.close_left_over_runs",
        "schedule": INTERN_REAPER_SECONDS,
        "options": {"queue": "intern-control", "expires": INTERN_REAPER_SECONDS},
    },
    "probe-interns": {
        "task": "interns.tasks.probe",
        "schedule": INTERN_PROBE_SECONDS,
        "options": {"queue": "intern-control", "expires": INTERN_PROBE_SECONDS},
    },
    "reconcile-interns": {
        "task": "interns.tasks.reconcile_interns",
        "schedule": INTERN_RECONCILE_SECONDS,
        "options": {"queue": "intern-control", "expires": INTERN_RECONCILE_SECONDS},
    },
    "forget-intern-creations": {"task": "interns.tasks.forget_creations", "schedule": 3600.0},
    "forget-archives": {"task": "interns.archives.tasks.forget_archives", "schedule": 3600.0},
    "endpoint-history": {"task": "routing.tasks.record_endpoint_history", "schedule": 60.0},
    "roll-up-usage": {
        "task": "routing.tasks.roll_up_usage",
        "schedule": 60.0,
        "options": {"expires": 60.0},
    },
    "forget-old-history": {"task": "routing.tasks.forget_old_history", "schedule": 600.0},
    # What is still waiting when the next is due would only ask again.
    "probe-providers": {
        "task": "routing.tasks.probe_providers",
        "schedule": 5.0,
        "options": {"expires": 5.0},
    },
}

# --- Logs -----------------------------------------------------------------------------------------
LOG_LEVEL = env.choice("LOG_LEVEL", "INFO", ("DEBUG", "INFO", "WARNING", "ERROR"))
LOGGING: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "{asctime} {levelname} {name}: {message}", "style": "{"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["stderr"], "level": LOG_LEVEL},
    "loggers": {"django.request": {"level": "ERROR"}, "django.security": {"level": "ERROR"}},
}

__all__ = [name for name in dir() if name.isupper()] + ["PROJECT"]
