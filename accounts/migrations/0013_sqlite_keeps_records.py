from typing import Any

from django.db import migrations

# Whoever remakes the table later, as SQLite does for most changes of it, makes these anew.
KEEP = {
    f'accounts_auditrecord_no_{event.lower()}': f"""
CREATE TRIGGER accounts_auditrecord_no_{event.lower()} BEFORE {event} ON accounts_auditrecord
BEGIN
    SELECT RAISE(ABORT, 'audit records are kept as they were written');
END
"""
    for event in ('UPDATE', 'DELETE')
}


def keep_records(apps: Any, schema_editor: Any) -> None:
    """What PostgreSQL has had from the beginning (0006)."""
    if schema_editor.connection.vendor == 'sqlite':
        for trigger in KEEP.values():
            schema_editor.execute(trigger, params=None)


def let_records_go(apps: Any, schema_editor: Any) -> None:
    if schema_editor.connection.vendor == 'sqlite':
        for name in KEEP:
            schema_editor.execute(f'DROP TRIGGER {name}', params=None)


class Migration(migrations.Migration):

    dependencies = [
        ('accounts', '0012_hold_counters'),
    ]

    operations = [
        migrations.RunPython(keep_records, let_records_go),
    ]
