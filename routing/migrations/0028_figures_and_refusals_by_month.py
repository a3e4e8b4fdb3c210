"""The figures of generations and refusals in partitions by month, as generations are."""

from importlib import import_module

from django.db import migrations

TABLES = (
    ('routing_generationfact', 'at', 'generation_id'),
    ('routing_failedrequest', 'at', 'id'),
)
months = import_module('routing.migrations.0019_generations_by_month')


def split_by_month(apps, schema_editor):
    for table, moment, key in TABLES:
        months.split_table(schema_editor, table, moment, key)


def join_months(apps, schema_editor):
    for table, _, key in TABLES:
        months.join_table(schema_editor, table, key)


class Migration(migrations.Migration):
    # Each table has two steps: the first reads it while everybody goes on writing.
    atomic = False

    dependencies = [
        ('routing', '0027_provider_credentials'),
    ]

    operations = [
        migrations.RunPython(split_by_month, join_months),
    ]
