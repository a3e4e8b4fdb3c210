from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('routing', '0021_feedback_leaves_with_its_generation'),
    ]

    operations = [
        migrations.AddField(
            model_name='failedrequest',
            name='tags',
            field=models.JSONField(null=True),
        ),
        migrations.AddField(
            model_name='generationfact',
            name='tags',
            field=models.JSONField(null=True),
        ),
    ]
