from django.db import migrations


class Migration(migrations.Migration):
    # It had a former worker make all days anew, by its own cuts: 0031 does without.
    dependencies = [
        ("routing", "0029_cache_lifetime_of_providers"),
    ]

    operations: list[migrations.operations.base.Operation] = []
