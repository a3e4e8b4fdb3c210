"""Giving the connection back before something that takes its time."""

from django.db import connection


def release_connection() -> None:
    """The next query takes one again. Within a transaction there is nothing to give back."""
    if not connection.in_atomic_block:
        connection.close()
