"""A table for what pages count and remember for a while."""

from typing import Any

from django.core.management import call_command
from django.db import migrations

TABLE = "accounts_page_cache"


def make_table(apps: Any, schema_editor: Any) -> None:
    call_command("createcachetable", TABLE, database=schema_editor.connection.alias, verbosity=0)


class Migration(migrations.Migration):
    dependencies = [('accounts', '0025_end_user_budgets')]

    operations = [
        migrations.RunPython(
            make_table,
            lambda apps, schema_editor: schema_editor.execute(f"DROP TABLE {TABLE}"),
        ),
    ]
