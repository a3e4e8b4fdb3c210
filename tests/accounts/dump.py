"""Everything a database keeps, as text, for tests that look for what must not be in it."""

from typing import Any

from django.db import connection


def database_text() -> str:
    """All rows of all tables of the default connection's database."""
    with connection.cursor() as cursor:
        names = connection.introspection.table_names(cursor)
        lines: list[str] = []
        for name in names:
            cursor.execute(f"SELECT * FROM {connection.ops.quote_name(name)}")  # noqa: S608 - The database's own table names.
            lines += [f"{name}: {_row_text(row)}" for row in cursor.fetchall()]
    return "\n".join(lines)


def _row_text(row: tuple[Any, ...]) -> str:
    return " | ".join(
        bytes(value).decode("latin-1") if isinstance(value, bytes | memoryview) else str(value)
        for value in row
    )
