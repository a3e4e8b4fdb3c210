"""When the generation of a feedback began, so that both leave together."""

import django.db.models.functions.datetime
from django.db import migrations, models
from django.db.models import F, OuterRef, Subquery
from django.db.models.functions import Coalesce

from gateway.database.migrations_support import AddFieldOnce, AddIndexConcurrently

# Whoever writes one of these rows waits until all of them are written.
PORTION = 5000


def fill_moments(apps, schema_editor):
    rows = apps.get_model('routing', 'GenerationFeedback').objects
    generations = apps.get_model('routing', 'Generation').objects.filter(pk=OuterRef('generation_id'))
    moment = Coalesce(Subquery(generations.values('created_at')[:1]), F('created_at'))
    left = rows.order_by('pk')
    while portion := list(left.values_list('pk', flat=True)[:PORTION]):
        rows.filter(pk__in=portion).update(generation_at=moment)
        left = rows.filter(pk__gt=portion[-1]).order_by('pk')


class Migration(migrations.Migration):
    # Others write meanwhile; after an abort it is run again from its beginning.
    atomic = False

    dependencies = [
        ('routing', '0020_destinations'),
    ]

    operations = [
        AddFieldOnce(
            model_name='generationfeedback',
            name='generation_at',
            field=models.DateTimeField(db_default=django.db.models.functions.datetime.Now()),
        ),
        migrations.RunPython(fill_moments, migrations.RunPython.noop),
        AddIndexConcurrently(
            model_name='generationfeedback',
            index=models.Index(models.F('generation_at'), name='routing_feedback_generation'),
        ),
    ]
