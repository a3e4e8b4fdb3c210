"""What migrations of several apps do alike."""

from collections.abc import Callable
from typing import Any


def drop_pattern_index(table: str) -> Callable[[Any, Any], None]:
    """For `RunPython`: drop the second index that Django gives a text key on PostgreSQL.

    It serves `LIKE` on the key, which nothing asks, and costs every row written.
    """

    def drop(apps: Any, schema_editor: Any) -> None:
        if schema_editor.connection.vendor != "postgresql":
            return
        with schema_editor.connection.cursor() as cursor:
            cursor.execute(
                "SELECT indexname FROM pg_indexes WHERE schemaname = current_schema()"
                r" AND tablename = %s AND indexname LIKE '%%\_like'",
                [table],
            )
            names = [row[0] for row in cursor.fetchall()]
        for name in names:
            schema_editor.execute(f"DROP INDEX {schema_editor.quote_name(name)}")

    return drop
