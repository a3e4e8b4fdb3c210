from django.db import migrations

from gateway.database.migrations_support import drop_pattern_index


class Migration(migrations.Migration):

    dependencies = [
        ('routing', '0003_extra_parameters'),
    ]

    operations = [
        migrations.RunPython(
            drop_pattern_index('routing_generation'), migrations.RunPython.noop
        ),
    ]
