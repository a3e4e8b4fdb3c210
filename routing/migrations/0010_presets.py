import uuid

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0006_former_hashes_and_audit_records"),
        ("routing", "0009_endpoint_samples"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="Preset",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=uuid.uuid4, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("slug", models.CharField(editable=False, max_length=100)),
                ("name", models.CharField(max_length=100)),
                (
                    "description",
                    models.CharField(blank=True, default=None, max_length=500, null=True),
                ),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("active", "Active"),
                            ("disabled", "Disabled: requests do not find it"),
                            ("archived", "Archived: and it takes no new version"),
                        ],
                        default="active",
                        max_length=16,
                    ),
                ),
                ("status_updated_at", models.DateTimeField(editable=False, null=True)),
                ("latest_version", models.PositiveIntegerField(default=1, editable=False)),
                ("created_at", models.DateTimeField(editable=False)),
                ("updated_at", models.DateTimeField(editable=False)),
            ],
        ),
        migrations.CreateModel(
            name="PresetVersion",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=uuid.uuid4, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("version", models.PositiveIntegerField()),
                ("config", models.TextField(default="{}")),
                ("system_prompt", models.TextField(blank=True, default="")),
                ("created_at", models.DateTimeField()),
            ],
        ),
        migrations.AddField(
            model_name="generation",
            name="preset_id",
            field=models.CharField(max_length=36, null=True),
        ),
        migrations.AddIndex(
            model_name="generation",
            index=models.Index(
                models.F("preset_id"),
                models.OrderBy(models.F("created_at"), descending=True),
                condition=models.Q(("preset_id__isnull", False)),
                name="routing_generation_preset",
            ),
        ),
        migrations.AddField(
            model_name="preset",
            name="account",
            field=models.ForeignKey(
                db_index=False,
                editable=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="presets",
                to="accounts.account",
            ),
        ),
        migrations.AddField(
            model_name="preset",
            name="creator",
            field=models.ForeignKey(
                db_index=False,
                editable=False,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddField(
            model_name="preset",
            name="workspace",
            field=models.ForeignKey(
                db_index=False,
                editable=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="presets",
                to="accounts.workspace",
            ),
        ),
        migrations.AddField(
            model_name="presetversion",
            name="creator",
            field=models.ForeignKey(
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddField(
            model_name="presetversion",
            name="preset",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.DO_NOTHING,
                related_name="versions",
                to="routing.preset",
            ),
        ),
        migrations.AddField(
            model_name="preset",
            name="designated_version",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.DO_NOTHING,
                related_name="+",
                to="routing.presetversion",
            ),
        ),
        migrations.AddConstraint(
            model_name="presetversion",
            constraint=models.UniqueConstraint(
                fields=("preset", "version"), name="routing_presetversion_number_once"
            ),
        ),
        migrations.AddConstraint(
            model_name="presetversion",
            constraint=models.CheckConstraint(
                condition=models.Q(("version__gte", 1)), name="routing_presetversion_from_one"
            ),
        ),
        migrations.AddIndex(
            model_name="preset",
            index=models.Index(
                models.F("workspace"),
                models.OrderBy(models.F("updated_at"), descending=True),
                models.F("id"),
                name="routing_preset_workspace",
            ),
        ),
        migrations.AddIndex(
            model_name="preset",
            index=models.Index(
                models.F("account"),
                models.OrderBy(models.F("updated_at"), descending=True),
                models.F("id"),
                name="routing_preset_account",
            ),
        ),
        migrations.AddConstraint(
            model_name="preset",
            constraint=models.UniqueConstraint(
                fields=("workspace", "slug"), name="routing_preset_slug_once_per_workspace"
            ),
        ),
        migrations.AddConstraint(
            model_name="preset",
            constraint=models.CheckConstraint(
                condition=models.Q(("status__in", ["active", "disabled", "archived"])),
                name="routing_preset_status_known",
            ),
        ),
    ]
