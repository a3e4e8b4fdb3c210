from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('accounts', '0003_lighter_books'),
    ]

    operations = [
        migrations.AddField(
            model_name='account',
            name='allowed_providers',
            field=models.JSONField(blank=True, default=None, null=True),
        ),
        migrations.AddField(
            model_name='account',
            name='ignored_providers',
            field=models.JSONField(blank=True, default=None, null=True),
        ),
        migrations.AddField(
            model_name='workspace',
            name='default_provider_sort',
            field=models.CharField(blank=True, choices=[('price', 'Price, lowest first'), ('throughput', 'Throughput, highest first'), ('latency', 'Time to first token, shortest first'), ('exacto', 'Success of tool calls, best first')], default=None, max_length=16, null=True),
        ),
        migrations.AddConstraint(
            model_name='workspace',
            constraint=models.CheckConstraint(condition=models.Q(('default_provider_sort__isnull', True), ('default_provider_sort__in', ['price', 'throughput', 'latency', 'exacto']), _connector='OR'), name='accounts_workspace_provider_sort_known'),
        ),
    ]
