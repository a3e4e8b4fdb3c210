"""When the generation of a feedback began, so that both leave together."""

import django.db.models.functions.datetime
from django.db import migrations, models
from django.db.models import F, OuterRef, Subquery
from django.db.models.functions import Coalesce


def fill_moments(apps, schema_editor):
    feedback = apps.get_model('routing', 'GenerationFeedback')
    generations = apps.get_model('routing', 'Generation').objects.filter(pk=OuterRef('generation_id'))
    moment = Subquery(generations.values('created_at')[:1])
    feedback.objects.update(generation_at=Coalesce(moment, F('created_at')))


class Migration(migrations.Migration):

    dependencies = [
        ('routing', '0020_destinations'),
    ]

    operations = [
        migrations.AddField(
            model_name='generationfeedback',
            name='generation_at',
            field=models.DateTimeField(db_default=django.db.models.functions.datetime.Now()),
        ),
        migrations.RunPython(fill_moments, migrations.RunPython.noop),
        migrations.AddIndex(
            model_name='generationfeedback',
            index=models.Index(models.F('generation_at'), name='routing_feedback_generation'),
        ),
    ]
