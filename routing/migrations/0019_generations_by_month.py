"""Generations in partitions by month on PostgreSQL, so that old ones are dropped and not deleted.

The rows that are there stay where they are, as the partition of all time up to the month after
next. A partition has the primary key of its own: whoever writes a record again writes the same
moment, and so meets it in the same partition.
"""

from datetime import UTC, datetime

from django.db import migrations, transaction

TABLE = 'routing_generation'
BEFORE = f'{TABLE}_before'
# Whoever writes waits behind this lock, and this lock behind whoever reads.
LOCK = "SET LOCAL lock_timeout = '5s'"


def split_by_month(apps, schema_editor):
    if schema_editor.connection.vendor != 'postgresql':
        return
    now = datetime.now(UTC)
    months = now.year * 12 + now.month + 1
    bound = f'{months // 12:04}-{months % 12 + 1:02}-01 00:00:00+00'
    with schema_editor.connection.cursor() as cursor:
        if is_split(cursor):
            return
        # Checked while everybody goes on writing: what is attached is not read again then.
        cursor.execute(f'ALTER TABLE {TABLE} DROP CONSTRAINT IF EXISTS {BEFORE}')
        cursor.execute(
            f"ALTER TABLE {TABLE} ADD CONSTRAINT {BEFORE} CHECK (created_at < '{bound}') NOT VALID"
        )
        cursor.execute(f'ALTER TABLE {TABLE} VALIDATE CONSTRAINT {BEFORE}')
        with transaction.atomic(using=schema_editor.connection.alias):
            cursor.execute(LOCK)
            cursor.execute(f'LOCK TABLE {TABLE} IN ACCESS EXCLUSIVE MODE')
            indexes = list_indexes(cursor)
            cursor.execute(f'ALTER TABLE {TABLE} RENAME TO {BEFORE}')
            for name, _ in indexes:
                cursor.execute(f'ALTER INDEX {name} RENAME TO {name}_before')
            cursor.execute(
                f'CREATE TABLE {TABLE} (LIKE {BEFORE} INCLUDING DEFAULTS)'
                ' PARTITION BY RANGE (created_at)'
            )
            cursor.execute(
                f"ALTER TABLE {TABLE} ATTACH PARTITION {BEFORE}"
                f" FOR VALUES FROM (MINVALUE) TO ('{bound}')"
            )
            cursor.execute(f'ALTER TABLE {BEFORE} DROP CONSTRAINT {BEFORE}')
            for _, definition in indexes:
                cursor.execute(definition)
            cursor.execute(
                f'CREATE TABLE {TABLE}_default PARTITION OF {TABLE} (PRIMARY KEY (id)) DEFAULT'
            )


def join_months(apps, schema_editor):
    if schema_editor.connection.vendor != 'postgresql':
        return
    with schema_editor.connection.cursor() as cursor:
        if not is_split(cursor):
            return
        with transaction.atomic(using=schema_editor.connection.alias):
            cursor.execute(LOCK)
            cursor.execute(f'LOCK TABLE {TABLE} IN ACCESS EXCLUSIVE MODE')
            indexes = list_indexes(cursor)
            cursor.execute(f'CREATE TABLE {TABLE}_whole (LIKE {TABLE} INCLUDING DEFAULTS)')
            cursor.execute(f'INSERT INTO {TABLE}_whole SELECT * FROM {TABLE}')
            cursor.execute(f'DROP TABLE {TABLE}')
            cursor.execute(f'ALTER TABLE {TABLE}_whole RENAME TO {TABLE}')
            cursor.execute(
                f'ALTER TABLE {TABLE} ADD CONSTRAINT {TABLE}_pkey PRIMARY KEY (id)'
            )
            for _, definition in indexes:
                cursor.execute(definition)


def is_split(cursor):
    cursor.execute(f"SELECT relkind = 'p' FROM pg_class WHERE oid = '{TABLE}'::regclass")
    return cursor.fetchone()[0]


def list_indexes(cursor):
    """Names and definitions, but for the primary key's."""
    cursor.execute(
        'SELECT c.relname, pg_get_indexdef(c.oid) FROM pg_index i'
        f" JOIN pg_class c ON c.oid = i.indexrelid WHERE i.indrelid = '{TABLE}'::regclass"
        ' AND NOT i.indisprimary ORDER BY 1'
    )
    return cursor.fetchall()


class Migration(migrations.Migration):
    # Two steps of its own: the first reads the table while everybody goes on writing.
    atomic = False

    dependencies = [
        ('routing', '0018_forgotten_before'),
    ]

    operations = [
        migrations.RunPython(split_by_month, join_months),
    ]
