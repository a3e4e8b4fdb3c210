import uuid
from typing import Any

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


def nothing_said_is_null(apps: Any, schema_editor: Any) -> None:
    apps.get_model('accounts', 'Workspace').objects.filter(description='').update(description=None)


def nothing_said_is_empty(apps: Any, schema_editor: Any) -> None:
    """Also gives the slugs of deleted workspaces away: without the mark they would clash."""
    workspaces = apps.get_model('accounts', 'Workspace').objects
    workspaces.filter(description=None).update(description='')
    for workspace in workspaces.filter(deleted_at__isnull=False).iterator():
        workspace.slug = f'deleted-{workspace.pk.hex}'
        workspace.save(update_fields=['slug'])


class Migration(migrations.Migration):

    dependencies = [
        ('accounts', '0004_provider_policy'),
    ]

    operations = [
        migrations.AddField(
            model_name='workspace',
            name='created_by',
            field=models.ForeignKey(blank=True, editable=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='workspace',
            name='updated_at',
            field=models.DateTimeField(blank=True, editable=False, null=True),
        ),
        migrations.AddField(
            model_name='workspace',
            name='deleted_at',
            field=models.DateTimeField(blank=True, editable=False, null=True),
        ),
        migrations.AddField(
            model_name='workspace',
            name='default_image_model',
            field=models.CharField(blank=True, db_default='', default='', max_length=200),
        ),
        migrations.AddField(
            model_name='workspace',
            name='disabled_server_tools',
            field=models.JSONField(blank=True, default=None, null=True),
        ),
        migrations.AddField(
            model_name='workspace',
            name='include_byok_in_budgets',
            field=models.BooleanField(db_default=False, default=False),
        ),
        migrations.AddField(
            model_name='workspace',
            name='io_logging_api_key_ids',
            field=models.JSONField(blank=True, default=None, null=True),
        ),
        migrations.AddField(
            model_name='workspace',
            name='io_logging_sampling_rate',
            field=models.FloatField(db_default=1.0, default=1.0),
        ),
        migrations.AddField(
            model_name='workspace',
            name='is_data_discount_logging_enabled',
            field=models.BooleanField(db_default=False, default=False),
        ),
        migrations.AddField(
            model_name='workspace',
            name='is_observability_broadcast_enabled',
            field=models.BooleanField(db_default=False, default=False),
        ),
        migrations.AddField(
            model_name='workspace',
            name='is_observability_io_logging_enabled',
            field=models.BooleanField(db_default=False, default=False),
        ),
        migrations.RemoveConstraint(
            model_name='workspace',
            name='accounts_workspace_slug_once_per_account',
        ),
        migrations.AddConstraint(
            model_name='workspace',
            constraint=models.UniqueConstraint(condition=models.Q(('deleted_at__isnull', True)), fields=('account', 'slug'), name='accounts_workspace_slug_once_per_account'),
        ),
        migrations.AddConstraint(
            model_name='workspace',
            constraint=models.CheckConstraint(condition=models.Q(('is_default', False), ('deleted_at__isnull', True), _connector='OR'), name='accounts_workspace_default_stays'),
        ),
        migrations.AddConstraint(
            model_name='workspace',
            constraint=models.CheckConstraint(condition=models.Q(('io_logging_sampling_rate__gte', 0.0001), ('io_logging_sampling_rate__lte', 1)), name='accounts_workspace_sampling_rate_in_bounds'),
        ),
        migrations.AlterField(
            model_name='workspace',
            name='description',
            field=models.CharField(blank=True, default=None, max_length=500, null=True),
        ),
        migrations.CreateModel(
            name='WorkspaceMembership',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('role', models.CharField(choices=[('admin', 'Admin'), ('member', 'Member')], max_length=8)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('membership', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='workspace_memberships', to='accounts.membership')),
                ('workspace', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='memberships', to='accounts.workspace')),
            ],
            options={
                'constraints': [
                    models.UniqueConstraint(fields=('workspace', 'membership'), name='accounts_workspacemembership_once'),
                    models.CheckConstraint(condition=models.Q(('role__in', ['admin', 'member'])), name='accounts_workspacemembership_role_known'),
                ],
            },
        ),
        migrations.RunPython(nothing_said_is_null, nothing_said_is_empty),
    ]
