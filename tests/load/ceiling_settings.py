"""Django's settings for the ceiling: no middleware, no applications, no database."""

SECRET_KEY = "the-ceiling-signs-nothing"
ALLOWED_HOSTS = ["*"]
ROOT_URLCONF = "tests.load.ceiling"
MIDDLEWARE: list[str] = []
INSTALLED_APPS: list[str] = []
USE_TZ = True
LOGGING = {
    "version": 1,
    "handlers": {"stderr": {"class": "logging.StreamHandler"}},
    "loggers": {"django.request": {"handlers": ["stderr"], "level": "ERROR"}},
}
