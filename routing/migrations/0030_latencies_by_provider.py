from django.apps.registry import Apps
from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.models import F


def sum_days_up_again(apps: Apps, editor: BaseDatabaseSchemaEditor) -> None:
    """The narrowest cut has providers now: what it had of former days does not say which. The
    schedule makes these days anew, the newest first, and a wider cut answers until then."""
    apps.get_model("routing", "UsageRolled").objects.update(briefs_from=F("briefs_until"))


class Migration(migrations.Migration):
    dependencies = [
        ("routing", "0029_cache_lifetime_of_providers"),
    ]

    operations = [
        migrations.RunPython(sum_days_up_again, migrations.RunPython.noop),
    ]
