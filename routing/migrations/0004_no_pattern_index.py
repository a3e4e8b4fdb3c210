from django.db import migrations

from gateway.database.migrations_support import without_pattern_index


class Migration(migrations.Migration):

    dependencies = [
        ('routing', '0003_extra_parameters'),
    ]

    operations = [
        migrations.RunPython(
            without_pattern_index('routing_generation'), migrations.RunPython.noop
        ),
    ]
