from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('accounts', '0041_tag_budgets'),
    ]

    operations = [
        migrations.AddField(
            model_name='workspace',
            name='member_key_limits',
            field=models.JSONField(blank=True, default=None, null=True),
        ),
    ]
