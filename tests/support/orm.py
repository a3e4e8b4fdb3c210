"""Django's models on a running server's database instead of the in-process one."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import DEFAULT_DB_ALIAS, connections
from django.db.utils import load_backend
from pytest_django import DjangoDbBlocker


def database_name(url: str) -> str:
    """NAME as DATABASES has it: a file for SQLite, else a database of the same cluster."""
    if url.startswith("sqlite:"):
        return url.removeprefix("sqlite:///")
    return url.split("?")[0].rsplit("/", 1)[1]


@contextmanager
def pointed_at(database_url: str, blocker: DjangoDbBlocker) -> Iterator[None]:
    """Within, this thread's default connection is one to `database_url`."""
    usual = connections[DEFAULT_DB_ALIAS]
    settings = {**usual.settings_dict, "NAME": database_name(database_url)}
    # Django keeps one pool per alias, which belongs to the usual database.
    settings["OPTIONS"] = {k: v for k, v in settings["OPTIONS"].items() if k != "pool"}
    other = load_backend(settings["ENGINE"]).DatabaseWrapper(settings, DEFAULT_DB_ALIAS)
    with blocker.unblock():
        connections[DEFAULT_DB_ALIAS] = other
        try:
            yield
        finally:
            connections[DEFAULT_DB_ALIAS] = usual
            other.close()
