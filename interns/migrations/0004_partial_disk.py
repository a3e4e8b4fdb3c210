from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('interns', '0003_host_url'),
    ]

    # Before the former version serves: boot interns with is_disk_partial, which it never clears.
    operations = [
        migrations.AddField(
            model_name='intern',
            name='is_disk_partial',
            field=models.BooleanField(db_default=False, default=False, editable=False),
        ),
    ]
