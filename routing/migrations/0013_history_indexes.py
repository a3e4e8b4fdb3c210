from django.db import migrations

from gateway.database.migrations_support import drop_pattern_index


def with_figures_in_the_index(apps, schema_editor):
    """Percentiles read nothing else of a fact, so on PostgreSQL they need not touch the table."""
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute("DROP INDEX routing_fact_account")
        schema_editor.execute(
            "CREATE INDEX routing_fact_account ON routing_generationfact"
            " (account_id, at) INCLUDE (line_id, latency_ms, speed_dtps)"
        )


class Migration(migrations.Migration):

    dependencies = [
        ('routing', '0012_history'),
    ]

    operations = [
        migrations.RunPython(with_figures_in_the_index, migrations.RunPython.noop),
        *[
            migrations.RunPython(drop_pattern_index(table), migrations.RunPython.noop)
            for table in (
                'routing_generationfact', 'routing_generationcontent', 'routing_usageline'
            )
        ],
    ]
