from typing import Any

import django.core.serializers.json
import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

_KEEP = """
CREATE FUNCTION accounts_keep_auditrecords() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'audit records are kept as they were written'
        USING ERRCODE = 'restrict_violation';
END
$$;
CREATE TRIGGER accounts_auditrecord_append_only BEFORE UPDATE OR DELETE ON accounts_auditrecord
    FOR EACH ROW EXECUTE FUNCTION accounts_keep_auditrecords();
"""
_LET_GO = """
DROP TRIGGER accounts_auditrecord_append_only ON accounts_auditrecord;
DROP FUNCTION accounts_keep_auditrecords();
"""


def keep_records(apps: Any, schema_editor: Any) -> None:
    """SQLite goes without: a trigger there would also refuse to flush a database for tests."""
    if schema_editor.connection.vendor == 'postgresql':
        schema_editor.execute(_KEEP)


def let_records_go(apps: Any, schema_editor: Any) -> None:
    if schema_editor.connection.vendor == 'postgresql':
        schema_editor.execute(_LET_GO)


class Migration(migrations.Migration):

    dependencies = [
        ('accounts', '0005_workspace_settings'),
    ]

    operations = [
        migrations.CreateModel(
            name='FormerHash',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('hash', models.CharField(editable=False, max_length=64, unique=True)),
                ('valid_until', models.DateTimeField()),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('api_key', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='former_hashes', to='accounts.apikey')),
            ],
            options={
                'verbose_name_plural': 'former hashes',
            },
        ),
        migrations.CreateModel(
            name='AuditRecord',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('at', models.DateTimeField()),
                ('command', models.CharField(blank=True, default='', max_length=64)),
                ('action', models.CharField(max_length=32)),
                ('object_type', models.CharField(max_length=32)),
                ('object_id', models.CharField(max_length=64)),
                ('before', models.JSONField(encoder=django.core.serializers.json.DjangoJSONEncoder, null=True)),
                ('after', models.JSONField(encoder=django.core.serializers.json.DjangoJSONEncoder, null=True)),
                ('account', models.ForeignKey(db_constraint=False, db_index=False, null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='accounts.account')),
                ('management_key', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='accounts.apikey')),
                ('operator', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'indexes': [
                    models.Index(models.F('account'), models.OrderBy(models.F('id'), descending=True), name='accounts_record_account'),
                    models.Index(models.F('object_type'), models.F('object_id'), models.OrderBy(models.F('id'), descending=True), name='accounts_record_object'),
                ],
                'constraints': [
                    models.CheckConstraint(condition=models.Q(models.Q(('command', ''), ('management_key__isnull', True), ('operator__isnull', False)), models.Q(('command', ''), ('management_key__isnull', False), ('operator__isnull', True)), models.Q(('management_key__isnull', True), ('operator__isnull', True), models.Q(('command', ''), _negated=True)), _connector='OR'), name='accounts_auditrecord_one_author'),
                ],
            },
        ),
        migrations.RunPython(keep_records, let_records_go),
    ]
