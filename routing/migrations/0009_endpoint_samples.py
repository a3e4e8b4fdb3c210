import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('routing', '0008_provider_probes'),
    ]

    operations = [
        migrations.CreateModel(
            name='EndpointSample',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('started_at', models.DateTimeField()),
                ('calls', models.PositiveIntegerField(default=0)),
                ('errors', models.PositiveIntegerField(default=0)),
                ('rate_limited', models.PositiveIntegerField(default=0)),
                ('first_token_p50_ms', models.PositiveIntegerField(null=True)),
                ('first_token_p90_ms', models.PositiveIntegerField(null=True)),
                ('throughput_tps', models.FloatField(null=True)),
                ('endpoint', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='samples', to='routing.endpoint')),
            ],
            options={
                'indexes': [models.Index(fields=['started_at'], name='routing_endpointsample_time')],
                'constraints': [
                    models.UniqueConstraint(fields=('endpoint', 'started_at'), name='routing_endpointsample_once'),
                    models.CheckConstraint(condition=models.Q(('errors__lte', models.F('calls'))), name='routing_endpointsample_errors_are_calls'),
                ],
            },
        ),
    ]
