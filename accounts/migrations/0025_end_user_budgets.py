from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('accounts', '0024_output_filters'),
    ]

    operations = [
        migrations.AddField(
            model_name='workspace',
            name='end_user_budget',
            field=models.JSONField(blank=True, default=None, editable=False, null=True),
        ),
        migrations.AlterField(
            model_name='spendcounter',
            name='scope',
            field=models.CharField(choices=[('key', 'API key'), ('workspace', 'Workspace'), ('guardrail', 'Guardrail'), ('end_user', 'End user')], max_length=16),
        ),
    ]
