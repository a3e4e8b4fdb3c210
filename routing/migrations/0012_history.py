import uuid
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("routing", "0011_publishes_data"),
    ]

    operations = [
        migrations.CreateModel(
            name="LateHour",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("hour", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="UsageLine",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("key", models.CharField(max_length=32, unique=True)),
                ("account_id", models.UUIDField(db_index=True)),
                ("workspace_id", models.UUIDField()),
                ("api_key_id", models.BigIntegerField()),
                ("model", models.CharField(max_length=200)),
                ("permaslug", models.CharField(max_length=200)),
                ("variant", models.CharField(max_length=100)),
                ("endpoint_tag", models.CharField(max_length=200)),
                ("provider_name", models.CharField(max_length=100)),
                ("app", models.CharField(max_length=200)),
                ("app_title", models.CharField(max_length=500)),
                ("origin", models.CharField(max_length=200)),
                ("finish_reason", models.CharField(max_length=32)),
                ("context_length_bucket", models.CharField(max_length=16)),
            ],
        ),
        migrations.CreateModel(
            name="UsageRolled",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("until", models.DateTimeField()),
            ],
            options={"verbose_name_plural": "usage rolled up"},
        ),
        migrations.CreateModel(
            name="GenerationContent",
            fields=[
                (
                    "generation_id",
                    models.CharField(max_length=64, primary_key=True, serialize=False),
                ),
                ("account_id", models.UUIDField()),
                ("created_at", models.DateTimeField()),
                ("sealed", models.BinaryField()),
            ],
            options={
                "indexes": [models.Index(models.F("created_at"), name="routing_content_time")],
            },
        ),
        migrations.CreateModel(
            name="GenerationFact",
            fields=[
                (
                    "generation_id",
                    models.CharField(max_length=64, primary_key=True, serialize=False),
                ),
                ("line_id", models.BigIntegerField()),
                ("account_id", models.UUIDField()),
                ("at", models.DateTimeField()),
                ("tokens_prompt", models.BigIntegerField()),
                ("tokens_completion", models.BigIntegerField()),
                ("tokens_reasoning", models.BigIntegerField()),
                ("tokens_cached", models.BigIntegerField()),
                ("charge_nano", models.BigIntegerField()),
                ("cost_nano", models.BigIntegerField()),
                ("is_byok", models.SmallIntegerField()),
                ("cache_saved_nano", models.BigIntegerField()),
                ("data_saved_nano", models.BigIntegerField()),
                ("web_nano", models.BigIntegerField()),
                ("web_cost_nano", models.BigIntegerField()),
                ("guarded", models.SmallIntegerField()),
                ("from_cache", models.SmallIntegerField()),
                ("latency_ms", models.IntegerField(null=True)),
                ("speed_dtps", models.BigIntegerField(null=True)),
                ("external_user", models.CharField(max_length=64)),
            ],
            options={
                "indexes": [
                    models.Index(fields=["account_id", "at"], name="routing_fact_account"),
                    models.Index(fields=["at"], name="routing_fact_at"),
                ],
            },
        ),
        migrations.CreateModel(
            name="GenerationFeedback",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=uuid.uuid4, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("account_id", models.UUIDField()),
                ("generation_id", models.CharField(max_length=64)),
                ("api_key_id", models.BigIntegerField()),
                (
                    "category",
                    models.CharField(
                        choices=[
                            ("latency", "Latency"),
                            ("incoherence", "Incoherence"),
                            ("incorrect_response", "Incorrect response"),
                            ("formatting", "Formatting"),
                            ("billing", "Billing"),
                            ("api_error", "API error"),
                            ("other", "Other"),
                        ],
                        max_length=32,
                    ),
                ),
                ("comment", models.CharField(blank=True, default="", max_length=1000)),
                ("created_at", models.DateTimeField()),
            ],
            options={
                "verbose_name_plural": "generation feedback",
                "indexes": [
                    models.Index(
                        models.F("account_id"),
                        models.OrderBy(models.F("created_at"), descending=True),
                        name="routing_feedback_account_time",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="UsageDay",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("line_id", models.BigIntegerField()),
                ("account_id", models.UUIDField()),
                ("start", models.DateTimeField()),
                ("requests", models.BigIntegerField()),
                ("tokens_prompt", models.BigIntegerField()),
                ("tokens_completion", models.BigIntegerField()),
                ("tokens_reasoning", models.BigIntegerField()),
                ("tokens_cached", models.BigIntegerField()),
                ("charge_nano", models.BigIntegerField()),
                ("cost_nano", models.BigIntegerField()),
                ("byok_requests", models.BigIntegerField()),
                ("byok_fee_nano", models.BigIntegerField()),
                ("byok_cost_nano", models.BigIntegerField()),
                ("cache_saved_nano", models.BigIntegerField()),
                ("data_saved_nano", models.BigIntegerField()),
                ("web_nano", models.BigIntegerField()),
                ("web_cost_nano", models.BigIntegerField()),
                ("guarded", models.BigIntegerField()),
                ("from_cache", models.BigIntegerField()),
                ("latency_ms", models.BigIntegerField()),
                ("latency_count", models.BigIntegerField()),
                ("speed_dtps", models.BigIntegerField()),
                ("speed_count", models.BigIntegerField()),
            ],
            options={
                "indexes": [
                    models.Index(fields=["account_id", "start"], name="routing_usageday_account"),
                    models.Index(fields=["start"], name="routing_usageday_start"),
                ],
            },
        ),
        migrations.CreateModel(
            name="UsageHour",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("line_id", models.BigIntegerField()),
                ("account_id", models.UUIDField()),
                ("start", models.DateTimeField()),
                ("requests", models.BigIntegerField()),
                ("tokens_prompt", models.BigIntegerField()),
                ("tokens_completion", models.BigIntegerField()),
                ("tokens_reasoning", models.BigIntegerField()),
                ("tokens_cached", models.BigIntegerField()),
                ("charge_nano", models.BigIntegerField()),
                ("cost_nano", models.BigIntegerField()),
                ("byok_requests", models.BigIntegerField()),
                ("byok_fee_nano", models.BigIntegerField()),
                ("byok_cost_nano", models.BigIntegerField()),
                ("cache_saved_nano", models.BigIntegerField()),
                ("data_saved_nano", models.BigIntegerField()),
                ("web_nano", models.BigIntegerField()),
                ("web_cost_nano", models.BigIntegerField()),
                ("guarded", models.BigIntegerField()),
                ("from_cache", models.BigIntegerField()),
                ("latency_ms", models.BigIntegerField()),
                ("latency_count", models.BigIntegerField()),
                ("speed_dtps", models.BigIntegerField()),
                ("speed_count", models.BigIntegerField()),
            ],
            options={
                "indexes": [
                    models.Index(fields=["account_id", "start"], name="routing_usagehour_account"),
                    models.Index(fields=["start"], name="routing_usagehour_start"),
                ],
            },
        ),
    ]
