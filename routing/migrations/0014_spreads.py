from django.db import migrations, models


def have_days_summed_up_again(apps, schema_editor):
    """Days that are rolled up have no spreads yet. A late hour has its whole day done again, and
    until then the day is read from what it was read from before."""
    days = apps.get_model("routing", "UsageDay").objects.values_list("start", flat=True)
    late = apps.get_model("routing", "LateHour")
    late.objects.bulk_create([late(hour=day) for day in days.distinct().order_by("start")])


class Migration(migrations.Migration):

    dependencies = [
        ('routing', '0013_history_indexes'),
    ]

    operations = [
        migrations.CreateModel(
            name='UsageSpread',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('cut', models.SmallIntegerField()),
                ('measure', models.CharField(max_length=16)),
                ('line_id', models.BigIntegerField()),
                ('account_id', models.UUIDField()),
                ('start', models.DateTimeField()),
                ('bucket', models.BigIntegerField()),
                ('many', models.BigIntegerField()),
                ('figures', models.JSONField()),
            ],
            options={
                'indexes': [models.Index(fields=['account_id', 'cut', 'measure', 'start'], name='routing_spread_account'), models.Index(fields=['start'], name='routing_spread_start')],
            },
        ),
        migrations.RunPython(have_days_summed_up_again, migrations.RunPython.noop),
    ]
