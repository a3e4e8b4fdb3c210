"""Django's settings for the ceiling: the gateway's own, since the server between caller and view
is the same, but no middleware, no applications, no database."""

from gateway import settings as _gateway

globals().update({name: getattr(_gateway, name) for name in dir(_gateway) if name.isupper()})

SECRET_KEY = "the-ceiling-signs-nothing"
ALLOWED_HOSTS = ["*"]
ROOT_URLCONF = "tests.load.ceiling"
MIDDLEWARE: list[str] = []
INSTALLED_APPS: list[str] = []
DATABASES: dict[str, object] = {}
LOGGING = {
    "version": 1,
    "handlers": {"stderr": {"class": "logging.StreamHandler"}},
    "loggers": {"django.request": {"handlers": ["stderr"], "level": "ERROR"}},
}
