from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('accounts', '0021_playground_keys'),
    ]

    operations = [
        migrations.AddField(
            model_name='guardrail',
            name='budget_enforcement',
            field=models.CharField(choices=[('block', 'Refuse requests'), ('warn', 'Only tell')], db_default='block', default='block', max_length=5),
        ),
        migrations.AddConstraint(
            model_name='guardrail',
            constraint=models.CheckConstraint(condition=models.Q(('budget_enforcement__in', ['block', 'warn'])), name='accounts_guardrail_budget_enforcement_known'),
        ),
    ]
