from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0033_mappings_without_groups"),
    ]

    operations = [
        migrations.AddField(
            model_name="user",
            name="confirmed_email",
            field=models.EmailField(
                blank=True, db_default="", default="", editable=False, max_length=254
            ),
        ),
    ]
