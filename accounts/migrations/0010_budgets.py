import uuid
from typing import Any

import django.db.models.deletion
from django.db import migrations, models

_AT_ONCE = 500


def counters_follow_their_keys(apps: Any, schema_editor: Any) -> None:
    """Keys whose limits include BYOK have counters that do not say so yet."""
    counters = apps.get_model('accounts', 'SpendCounter').objects.filter(scope='key')
    keys = apps.get_model('accounts', 'ApiKey').objects.filter(include_byok_in_limit=True)
    names = [str(pk) for pk in keys.values_list('pk', flat=True)]
    for begin in range(0, len(names), _AT_ONCE):
        counters.filter(scope_id__in=names[begin : begin + _AT_ONCE]).update(counts_byok=True)


class Migration(migrations.Migration):

    dependencies = [
        ('accounts', '0009_byok_credentials'),
    ]

    operations = [
        migrations.CreateModel(
            name='WorkspaceBudget',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('interval', models.CharField(choices=[('lifetime', 'Lifetime'), ('monthly', 'Monthly (UTC)'), ('weekly', 'Weekly (Monday, UTC)'), ('daily', 'Daily (UTC)')], max_length=8)),
                ('limit_nano', models.BigIntegerField()),
                ('created_at', models.DateTimeField()),
                ('updated_at', models.DateTimeField()),
            ],
        ),
        migrations.AddField(
            model_name='account',
            name='limits_version',
            field=models.BigIntegerField(db_default=0, default=0, editable=False),
        ),
        migrations.AddField(
            model_name='hold',
            name='byok_nano',
            field=models.BigIntegerField(db_default=0, default=0),
        ),
        migrations.AddField(
            model_name='ledgerentry',
            name='byok_nano',
            field=models.BigIntegerField(db_default=0, default=0),
        ),
        migrations.AddField(
            model_name='ledgerentry',
            name='day',
            field=models.DateField(db_default=None, default=None, null=True),
        ),
        migrations.AddField(
            model_name='spendcounter',
            name='account',
            field=models.ForeignKey(db_constraint=False, db_index=False, null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='accounts.account'),
        ),
        migrations.AddField(
            model_name='spendcounter',
            name='byok_held_nano',
            field=models.BigIntegerField(db_default=0, default=0),
        ),
        migrations.AddField(
            model_name='spendcounter',
            name='byok_spent_nano',
            field=models.BigIntegerField(db_default=0, default=0),
        ),
        migrations.AddField(
            model_name='spendcounter',
            name='counts_byok',
            field=models.BooleanField(db_default=False, default=False),
        ),
        migrations.AddField(
            model_name='spendcounter',
            name='workspace',
            field=models.ForeignKey(db_constraint=False, db_index=False, null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='accounts.workspace'),
        ),
        migrations.AlterField(
            model_name='spendcounter',
            name='scope',
            field=models.CharField(choices=[('key', 'API key'), ('workspace', 'Workspace'), ('guardrail', 'Guardrail')], max_length=16),
        ),
        migrations.AddConstraint(
            model_name='spendcounter',
            constraint=models.CheckConstraint(condition=models.Q(('byok_held_nano__gte', 0)), name='accounts_spendcounter_byok_held_not_negative'),
        ),
        migrations.AddField(
            model_name='workspacebudget',
            name='workspace',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='budgets', to='accounts.workspace'),
        ),
        migrations.AddConstraint(
            model_name='workspacebudget',
            constraint=models.UniqueConstraint(fields=('workspace', 'interval'), name='accounts_workspacebudget_once_per_interval'),
        ),
        migrations.AddConstraint(
            model_name='workspacebudget',
            constraint=models.CheckConstraint(condition=models.Q(('limit_nano__gt', 0)), name='accounts_workspacebudget_limit_positive'),
        ),
        migrations.AddConstraint(
            model_name='workspacebudget',
            constraint=models.CheckConstraint(condition=models.Q(('interval__in', ['lifetime', 'monthly', 'weekly', 'daily'])), name='accounts_workspacebudget_interval_known'),
        ),
        migrations.RunPython(counters_follow_their_keys, migrations.RunPython.noop),
    ]
