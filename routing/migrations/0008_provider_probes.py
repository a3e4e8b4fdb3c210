import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('routing', '0007_daily_calls'),
    ]

    operations = [
        migrations.AddField(
            model_name='provider',
            name='probe_interval_s',
            field=models.FloatField(blank=True, help_text='How often to ask whether it answers (GET of its models); empty: never.', null=True),
        ),
        migrations.CreateModel(
            name='ProviderProbe',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('at', models.DateTimeField()),
                ('ok', models.BooleanField(null=True)),
                ('since', models.DateTimeField(null=True)),
                ('status', models.PositiveSmallIntegerField(null=True)),
                ('latency_ms', models.PositiveIntegerField(null=True)),
                ('said', models.CharField(default='', max_length=200)),
                ('provider', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='probe', to='routing.provider')),
            ],
        ),
    ]
