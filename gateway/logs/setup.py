"""How every process logs: one handler on stderr, in the format of `LOG_FORMAT`."""

import logging
import logging.config
from typing import Any, Final

from gateway.database.outages import note_error
from gateway.http.request_id import get_request_id

# They have a line for each message; what they log at INFO helps who looks for a fault in them.
_LIBRARIES: Final = ("amqp", "asyncio", "celery", "kombu", "gunicorn", "multiprocessing")
# Django's own line for each refused page would double ours. A pool's lines for each connection of a
# database that is gone would double the one about that. Python's warnings are for who writes code.
_QUIET: Final = ("django.request", "django.security", "psycopg.pool", "py.warnings")
_TEXT: Final = "{asctime} {levelname} {name}: {message}{in_request}"
_JSON_FIELDS: Final = "{levelname}{name}{process}{message}"


def build_config(*, format: str, level: str, text: str = _TEXT) -> dict[str, Any]:
    """The value of Django's `LOGGING`. `format` is `text` or `json`; `text` how the first looks."""
    libraries = "INFO" if level == "DEBUG" else max(level, "WARNING", key=_read_level)
    quiet = max(level, "ERROR", key=_read_level)
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "text": {"format": text, "style": "{"},
            "json": {
                "()": "pythonjsonlogger.orjson.OrjsonFormatter",
                "fmt": _JSON_FIELDS,
                "style": "{",
                "rename_fields": {"levelname": "level", "name": "logger"},
                # Those of a record that are no field of its line.
                "reserved_attrs": [
                    *vars(logging.LogRecord("", 0, "", 0, "", (), None)),
                    *("message", "asctime", "in_request", "taskName", "color_message"),
                ],
                "timestamp": "time",
            },
        },
        "filters": {
            "outages": {"()": "gateway.logs.setup.OutageFilter"},
            "request": {"()": "gateway.logs.setup.RequestFilter"},
        },
        "handlers": {
            "stderr": {
                "class": "logging.StreamHandler",
                "formatter": format,
                "filters": ["outages", "request"],
            }
        },
        "root": {"handlers": ["stderr"], "level": level},
        "loggers": {
            **{name: {"level": libraries} for name in _LIBRARIES},
            **{name: {"level": quiet} for name in _QUIET},
        },
    }


def configure() -> None:
    """Log as the settings say, in a process that does not set Django up."""
    from gateway import settings

    logging.config.dictConfig(settings.LOGGING)


class OutageFilter(logging.Filter):
    """Leaves out what only says that a store is gone: `gateway.database.outages` logs that once."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info and record.exc_info[1]
        if not error:
            given = record.args if isinstance(record.args, tuple) else ()
            error = next((each for each in given if isinstance(each, BaseException)), None)
        return error is None or not note_error(error, logger=record.name)


class RequestFilter(logging.Filter):
    """Adds the id of the request under way."""

    def filter(self, record: logging.LogRecord) -> bool:
        request_id = get_request_id()
        record.in_request = f" [{request_id}]" if request_id else ""
        if request_id and not hasattr(record, "request_id"):
            record.request_id = request_id
        return True


def _read_level(name: str) -> int:
    return logging.getLevelNamesMapping()[name]
