"""How long a connection to PostgreSQL outlives a peer that vanished.

A machine without power or cable says no farewell. Both ends of a connection notice within half a
minute. Else the locks of its transaction would keep others waiting for the kernel's two hours.
"""

from contextlib import suppress
from typing import Any, Final

from django.conf import settings
from django.db import Error
from django.db.backends.signals import connection_created

# Numbers, while what a URL says are texts. (Unix sockets ignore these.)
CLIENT_KEEPALIVE: Final[dict[str, int]] = {
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 25_000,
}
_SERVER_KEEPALIVE: Final = {
    "tcp_keepalives_idle": 10,
    "tcp_keepalives_interval": 5,
    "tcp_keepalives_count": 3,
    "tcp_user_timeout": 25_000,
}


def select_url_parameters(parameters: dict[str, Any]) -> dict[str, Any]:
    """Without the keepalives that no URL asked for, for who has stricter ones."""
    return {
        name: value
        for name, value in parameters.items()
        if name not in CLIENT_KEEPALIVE or value != CLIENT_KEEPALIVE[name]
    }


def register() -> None:
    # A pooler's connection is another client's afterwards, and the pooler notices by itself.
    if not settings.DATABASE_POOLER:
        connection_created.connect(_set_up_server)


def _set_up_server(connection: Any, **_: object) -> None:
    """Tell the server its half, once for each connection: a pool gives it out again and again.

    Poolers refuse to start a session with such parameters, but let them be set.
    """
    raw = connection.connection
    if connection.vendor != "postgresql" or getattr(raw, "_has_keepalive", False):
        return
    raw._has_keepalive = True
    # What the URL asks for wins.
    asked = str(connection.settings_dict["OPTIONS"].get("options", ""))
    values = {name: value for name, value in _SERVER_KEEPALIVE.items() if name not in asked}
    # A server that cannot serves all the same. One that is gone says so to the next statement.
    with suppress(Error), connection.wrap_database_errors:
        raw.execute("; ".join(f"SET {name} = {value}" for name, value in values.items()))
