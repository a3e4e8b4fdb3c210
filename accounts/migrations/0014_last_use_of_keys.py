from typing import Any

from django.db import migrations, models
from django.db.models import Max

_AT_ONCE = 500


def last_uses_from_the_books(apps: Any, schema_editor: Any) -> None:
    """Keys that were used before this was kept: when their last call was booked."""
    keys = apps.get_model('accounts', 'ApiKey')
    entries = apps.get_model('accounts', 'LedgerEntry').objects.filter(kind='usage')
    last = entries.order_by().values('api_key').annotate(at=Max('created_at'))
    used = [keys(pk=pk, last_used_at=at) for pk, at in last.values_list('api_key', 'at') if pk]
    keys.objects.bulk_update(used, ['last_used_at'], batch_size=_AT_ONCE)


class Migration(migrations.Migration):

    dependencies = [
        ('accounts', '0013_sqlite_keeps_records'),
    ]

    operations = [
        migrations.AddField(
            model_name='apikey',
            name='external_user',
            field=models.CharField(blank=True, editable=False, max_length=256, null=True),
        ),
        migrations.AddField(
            model_name='apikey',
            name='last_used_at',
            field=models.DateTimeField(blank=True, editable=False, null=True),
        ),
        migrations.AddField(
            model_name='byokcredential',
            name='is_byok_only',
            field=models.BooleanField(db_default=False, default=False),
        ),
        migrations.AddField(
            model_name='byokcredential',
            name='is_required',
            field=models.BooleanField(db_default=False, default=False),
        ),
        migrations.AddConstraint(
            model_name='byokcredential',
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ('is_byok_only', False), ('is_fallback', False), _connector='OR'
                ),
                name='accounts_byok_only_is_no_fallback',
            ),
        ),
        migrations.RunPython(last_uses_from_the_books, migrations.RunPython.noop),
    ]
