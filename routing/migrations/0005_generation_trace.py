from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('routing', '0004_no_pattern_index'),
    ]

    operations = [
        migrations.AddField(
            model_name='generation',
            name='trace',
            field=models.TextField(db_default='{}', default='{}'),
        ),
    ]
