from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('routing', '0023_first_byte_of_models'),
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
