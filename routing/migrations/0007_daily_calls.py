from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('routing', '0006_price_source'),
    ]

    operations = [
        migrations.CreateModel(
            name='CallsCounted',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('until', models.DateTimeField()),
            ],
            options={'verbose_name_plural': 'calls counted'},
        ),
        migrations.CreateModel(
            name='DailyCalls',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('model', models.CharField(max_length=200)),
                ('day', models.DateField()),
                ('calls', models.BigIntegerField()),
            ],
            options={
                'verbose_name_plural': 'daily calls',
            },
        ),
        migrations.AddConstraint(
            model_name='dailycalls',
            constraint=models.UniqueConstraint(fields=('day', 'model'), name='routing_daily_calls_once_per_model_and_day'),
        ),
    ]
