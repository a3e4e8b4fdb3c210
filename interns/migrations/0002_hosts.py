from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('interns', '0001_interns'),
    ]

    operations = [
        migrations.AddField(
            model_name='intern',
            name='disk_host',
            field=models.CharField(db_default='local', default='local', editable=False, max_length=253),
        ),
        migrations.AddField(
            model_name='intern',
            name='host',
            field=models.CharField(db_default='local', default='local', editable=False, max_length=253),
        ),
        migrations.AddField(
            model_name='workspacearchive',
            name='boot_id',
            field=models.UUIDField(null=True),
        ),
        migrations.AlterField(
            model_name='workspacearchive',
            name='source',
            field=models.CharField(choices=[('teardown', 'Teardown'), ('stopped', 'While it was stopped'), ('operator', 'Added by hand')], default='teardown', max_length=16),
        ),
        migrations.CreateModel(
            name='InternHost',
            fields=[
                ('name', models.CharField(max_length=253, primary_key=True, serialize=False)),
                ('home_id', models.UUIDField()),
                ('memory_bytes', models.BigIntegerField()),
                ('free_memory_bytes', models.BigIntegerField()),
                ('interns', models.PositiveIntegerField(default=0)),
                ('draining', models.BooleanField(default=False)),
                ('alive_since', models.DateTimeField()),
                ('last_seen_at', models.DateTimeField()),
            ],
            options={
                'constraints': [models.CheckConstraint(condition=models.Q(('free_memory_bytes__gte', 0), ('memory_bytes__gte', 0)), name='interns_host_memory_not_negative')],
            },
        ),
    ]
