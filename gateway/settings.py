"""Settings. Everything an operator may change comes from the environment, typed and checked.

Durations are in seconds, sizes in bytes. `gateway/environment` declares what comes from there; the
rest of this module is what Django and its libraries need.
"""

from datetime import timedelta
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from gateway.env import SettingError
from gateway.environment.accounts import *
from gateway.environment.exports import *
from gateway.environment.exports import build_s3_storage
from gateway.environment.inference import *
from gateway.environment.interns import *
from gateway.environment.interns import archive_storage
from gateway.environment.notifications import *
from gateway.environment.process import *
from gateway.environment.redis_url import build_broker
from gateway.environment.section import refuse_unknown_names
from gateway.environment.sign_in import *
from gateway.environment.tools import *
from gateway.environment.traces import *
from gateway.home import PROJECT, find_package
from gateway.logs.setup import build_config
from gateway.theme.settings import UNFOLD as UNFOLD

try:
    GATEWAY_VERSION = version("routing-gateway")
except PackageNotFoundError:
    GATEWAY_VERSION = "0.1.0"

refuse_unknown_names()
if INTERN_PORT and INTERN_PORT == PORT:
    # Everything but what agents ask for would be 404 there.
    raise SettingError("INTERN_PORT", "must be another port than PORT")
DEBUG = False

# --- Applications and pages -----------------------------------------------------------------------
INSTALLED_APPS = [
    "gateway.apps.GatewayConfig",
    "console.apps.ConsoleConfig",
    # Templates of ours come before theirs, and pages of the admin after.
    "allauth",
    "allauth.account",
    "allauth.mfa",
    "allauth.usersessions",
    "interns.apps.InternsConfig",
    "routing.apps.RoutingConfig",
    "accounts.apps.AccountsConfig",
    # The admin's theme: its templates come before Django's own.
    "unfold.apps.BasicAppConfig",
    # Pages are found with the URLs: workers and most commands have no use for them.
    "gateway.apps.GatewayAdminConfig",
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
    "accounts.sign_in.WrongPassword",
]
PASSWORD_HASHERS = ["accounts.people.passwords.PasswordHasher"]
ROOT_URLCONF = "gateway.urls"
WSGI_APPLICATION = "gateway.wsgi.application"
APPEND_SLASH = False
# Sessions, messages and the rest serve pages; the API goes past them (see gateway.http.middleware).
MIDDLEWARE = [
    "gateway.http.middleware.ForwardedScheme",
    "gateway.http.middleware.ApiPaths",
    # Before whatever refuses something: refusals are pages too.
    "gateway.http.middleware.PageSecurity",
    "accounts.people.middleware.SignInRate",
    "gateway.http.middleware.PageThread",
    "gateway.http.middleware.StaticFiles",
    "gateway.http.middleware.PageCompression",
    "gateway.http.middleware.PageSessions",
    "gateway.http.middleware.PageCsrf",
    "gateway.http.middleware.PageAuthentication",
    "gateway.http.middleware.PageMessages",
    "gateway.http.middleware.PageFrameOptions",
    "allauth.account.middleware.AccountMiddleware",
    "accounts.people.middleware.PageSessionEnd",
    "accounts.people.middleware.PageSecondFactor",
]
# Where pages send people who are not signed in, and where they come to then.
LOGIN_URL = "account_login"
LOGIN_REDIRECT_URL = "console:home"
# In the database, where all web processes count the same tries, and a shared cache is not needed.
CACHES = {
    "default": {
        "BACKEND": "django.core.cache.backends.db.DatabaseCache",
        "LOCATION": "accounts_page_cache",
        # Beyond it living ones go too, whoever fills it: counts of wrong codes would begin anew.
        "OPTIONS": {"MAX_ENTRIES": 10_000},
    }
}
ACCOUNT_ADAPTER = "accounts.people.adapter.SignInAdapter"
ACCOUNT_LOGIN_METHODS = {"username"}
ACCOUNT_SIGNUP_FIELDS = ["username*", "password1*"]
ACCOUNT_EMAIL_VERIFICATION = "none"
ACCOUNT_SESSION_REMEMBER = True
# Wrong codes of second factors. `RATE_SIGN_INS` counts forms, `accounts.sign_in` wrong passwords.
ACCOUNT_RATE_LIMITS = {
    "login": "",
    "login_failed": "20/m/ip,5/5m/key",
    "reauthenticate": "10/m/user",
}
MFA_FORMS = {
    "login_webauthn": "accounts.people.passkeys.LoginPasskeyForm",
    "authenticate_webauthn": "accounts.people.passkeys.SecondPasskeyForm",
    "reauthenticate_webauthn": "accounts.people.passkeys.RepeatedPasskeyForm",
}
MFA_ADAPTER = "accounts.people.adapter.SecondFactorAdapter"
MFA_SUPPORTED_TYPES = ["totp", "webauthn", "recovery_codes"]
MFA_PASSKEY_LOGIN_ENABLED = True
MFA_TOTP_ISSUER = "Routing Gateway"
MFA_TOTP_TOLERANCE = 1
# Browsers take passkeys from http://localhost too.
MFA_WEBAUTHN_ALLOW_INSECURE_ORIGIN = not PRODUCTION
SESSION_COOKIE_AGE = SESSION_HOURS * 3600
# A span is counted from the sign-in, a number of seconds from the last use.
ACCOUNT_SESSION_COOKIE_AGE = timedelta(hours=SESSION_HOURS)
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
FORM_RENDERER = "gateway.theme.widgets.FieldRenderer"
STATIC_URL = "/static/"
STATIC_ROOT = str(GATEWAY_HOME / "static")
# Pages of other origins have no use for them.
WHITENOISE_ALLOW_ALL_ORIGINS = False
WHITENOISE_USE_FINDERS = True
# Scripts of others as their wheels carry them, without the templates and pages that these have too.
STATICFILES_DIRS = [
    ("vendor/htmx", find_package("django_htmx") / "static" / "django_htmx"),
    ("vendor/chart", find_package("unfold") / "static" / "unfold" / "js" / "chart"),
]
LANGUAGE_CODE = "en-us"
TIME_ZONE = "UTC"
USE_TZ = True
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator"},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "accounts.people.passwords.WordsOfThePlace"},
]
# Browsers take a cookie of this name over HTTPS alone, and for no other host.
COOKIE_PREFIX = "__Host-" if PRODUCTION else ""
SESSION_COOKIE_NAME = f"{COOKIE_PREFIX}sessionid"
CSRF_COOKIE_NAME = f"{COOKIE_PREFIX}csrftoken"
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SECURE = PRODUCTION
CSRF_COOKIE_SECURE = PRODUCTION
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_HSTS_SECONDS = 31_536_000 if PRODUCTION else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = PRODUCTION
SECURE_HSTS_PRELOAD = PRODUCTION
# Pages only: the API never redirects, because a redirect would drop a POST body.
SECURE_SSL_REDIRECT = PRODUCTION
# Of TRUSTED_PROXIES alone: `ForwardedScheme` takes it from everybody else's requests. gunicorn
# believes it of proxies on a Unix socket.
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
    "POSTPROCESSING_HOOKS": ["gateway.openapi.errors.describe_idempotency"],
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
# A worker's task waits for it; nobody else does.
if USAGE_EXPORT_STORE:
    STORAGES["usage-exports"] = build_s3_storage(
        USAGE_EXPORT_STORE, USAGE_EXPORT_ENDPOINT, silence_s=60
    )


# --- Background work ------------------------------------------------------------------------------
CELERY_BROKER_URL, _broker_options = build_broker(REDIS_URL)
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
    **_broker_options,
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
# Its worker watches for events and sends them; no long task may keep it.
EVENT_QUEUE = "events"
# A worker of the first works all of them (`gateway.celery`).
DESTINATION_QUEUES = ("destinations", *(f"destinations-{number}" for number in range(1, 16)))
# Every machine's `intern-control` takes from it too: the first to take it tells the others.
INTERN_TICKS_QUEUE = "intern-ticks"
CELERY_BEAT_SCHEDULE: dict[str, Any] = {
    "count-calls": {"task": "routing.tasks.count_calls", "schedule": 300.0},
    "audit-books": {"task": "accounts.tasks.audit_books", "schedule": LEDGER_AUDIT_SECONDS},
    "expire-credits": {"task": "accounts.tasks.expire_credits", "schedule": 3600.0},
    "forget-repeatables": {"task": "accounts.tasks.forget_repeatable_requests", "schedule": 300.0},
    "end-user-counters": {
        "task": "accounts.tasks.delete_old_end_user_counters",
        "schedule": 3600.0,
    },
    "forget-events": {"task": "accounts.tasks.forget_events", "schedule": 3600.0},
    "delete-sessions": {"task": "accounts.tasks.delete_old_sessions", "schedule": 3600.0},
    "watch-spending": {
        "task": "accounts.tasks.watch_spending",
        "schedule": 15.0,
        "options": {"queue": EVENT_QUEUE, "expires": 15.0},
    },
    "watch-providers": {
        "task": "routing.tasks.watch_providers",
        "schedule": 15.0,
        "options": {"queue": EVENT_QUEUE, "expires": 15.0},
    },
    "watch-models": {
        "task": "routing.tasks.watch_models",
        "schedule": 60.0,
        "options": {"queue": EVENT_QUEUE, "expires": 60.0},
    },
    "watch-expiries": {
        "task": "accounts.tasks.watch_expiries",
        "schedule": 300.0,
        "options": {"queue": EVENT_QUEUE, "expires": 300.0},
    },
    # A lost message is sent again by the next tick.
    "deliver-events": {
        "task": "accounts.tasks.deliver_events",
        "schedule": 5.0,
        "options": {"queue": EVENT_QUEUE, "expires": 5.0},
    },
    "sync-scim-groups": {
        "task": "accounts.tasks.run_scim_sync_jobs",
        "schedule": 5.0,
        "options": {"expires": 5.0},
    },
    "clear-workspaces": {"task": "accounts.tasks.clear_deleted_workspaces", "schedule": 600.0},
    # A second chance: the web processes' ledger writers sweep by themselves.
    "sweep-holds": {"task": "routing.tasks.sweep_expired_holds", "schedule": HOLD_SWEEP_SECONDS},
    "reap-interns": {
        "task": "interns.tasks.reap",
        "schedule": INTERN_REAPER_SECONDS,
        "options": {"queue": INTERN_TICKS_QUEUE, "expires": INTERN_REAPER_SECONDS},
    },
    "move-interns": {
        "task": "interns.tasks.move_interns",
        "schedule": INTERN_REAPER_SECONDS,
        "options": {"queue": INTERN_TICKS_QUEUE, "expires": INTERN_REAPER_SECONDS},
    },
    "expire-intern-chats": {
        "task": "interns.chat.tasks.close_left_over_runs",
        "schedule": INTERN_REAPER_SECONDS,
        "options": {"queue": INTERN_TICKS_QUEUE, "expires": INTERN_REAPER_SECONDS},
    },
    "probe-interns": {
        "task": "interns.tasks.probe",
        "schedule": INTERN_PROBE_SECONDS,
        "options": {"queue": INTERN_TICKS_QUEUE, "expires": INTERN_PROBE_SECONDS},
    },
    "reconcile-interns": {
        "task": "interns.tasks.reconcile_interns",
        "schedule": INTERN_RECONCILE_SECONDS,
        "options": {"queue": INTERN_TICKS_QUEUE, "expires": INTERN_RECONCILE_SECONDS},
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
    "forget-expired-records": {
        "task": "routing.tasks.forget_expired_records",
        "schedule": 600.0,
        "options": {"expires": 600.0},
    },
    "export-usage": {
        "task": "routing.tasks.export_usage",
        "schedule": 3600.0,
        "options": {"expires": 3600.0},
    },
    # What is still waiting when the next is due would only ask again.
    "probe-providers": {
        "task": "routing.tasks.probe_providers",
        "schedule": 5.0,
        "options": {"expires": 5.0},
    },
}


# --- Logs -----------------------------------------------------------------------------------------
LOGGING = build_config(format=LOG_FORMAT, level=LOG_LEVEL)

__all__ = [name for name in dir() if name.isupper()] + ["PROJECT"]
