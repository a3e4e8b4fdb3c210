"""What migrations of several apps do alike."""

from collections.abc import Callable
from typing import Any

from django.db import transaction
from django.db.migrations.operations import AddField, AddIndex


class AddFieldOnce(AddField):
    """For migrations that are not atomic, which may be run again: a column that is there stays."""

    def database_forwards(self, app_label: Any, schema_editor: Any, *states: Any) -> None:
        connection = schema_editor.connection
        model = states[1].apps.get_model(app_label, self.model_name)
        with connection.cursor() as cursor:
            columns = connection.introspection.get_table_description(cursor, model._meta.db_table)
        if model._meta.get_field(self.name).column not in {each.name for each in columns}:
            # SQLite makes the table anew, of which no half may stay.
            with transaction.atomic(using=connection.alias):
                super().database_forwards(app_label, schema_editor, *states)


class AddIndexConcurrently(AddIndex):
    """An index that is made while others write, where the migration is not atomic and the database
    can; may be run again."""

    def database_forwards(self, app_label: Any, schema_editor: Any, *states: Any) -> None:
        connection = schema_editor.connection
        model = states[1].apps.get_model(app_label, self.model_name)
        if connection.vendor != "postgresql":
            with connection.cursor() as cursor:
                known = connection.introspection.get_constraints(cursor, model._meta.db_table)
            if self.index.name not in known:
                super().database_forwards(app_label, schema_editor, *states)
            return
        with connection.cursor() as cursor:
            # It waits for transactions of before, and nobody waits for it.
            cursor.execute("SHOW lock_timeout")
            (lock_wait,) = cursor.fetchone()
            cursor.execute("SET lock_timeout = 0")
            # What an abort left is there by name and serves nobody.
            cursor.execute(
                "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(%s)",
                [self.index.name],
            )
            found = cursor.fetchone()
            if found == (False,):
                cursor.execute(
                    f"DROP INDEX CONCURRENTLY {schema_editor.quote_name(self.index.name)}"
                )
            if found != (True,):
                schema_editor.add_index(model, self.index, concurrently=True)
            cursor.execute(f"SET lock_timeout = '{lock_wait}'")


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
