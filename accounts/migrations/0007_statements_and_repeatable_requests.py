import django.db.models.deletion
import uuid
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('accounts', '0006_former_hashes_and_audit_records'),
    ]

    operations = [
        migrations.CreateModel(
            name='PurchaseFee',
            fields=[
                ('entry', models.OneToOneField(on_delete=django.db.models.deletion.PROTECT, primary_key=True, related_name='purchase_fee', serialize=False, to='accounts.ledgerentry')),
                ('paid_nano', models.BigIntegerField()),
                ('fee_nano', models.BigIntegerField()),
            ],
        ),
        migrations.CreateModel(
            name='RepeatableRequest',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('path', models.CharField(max_length=200)),
                ('body_hash', models.CharField(max_length=64)),
                ('lease_id', models.UUIDField()),
                ('lease_until', models.DateTimeField()),
                ('generation_id', models.CharField(max_length=64, null=True)),
                ('made', models.CharField(blank=True, default='', max_length=64)),
                ('status', models.PositiveSmallIntegerField(null=True)),
                ('sealed_answer', models.TextField(null=True)),
                ('answer_until', models.DateTimeField(null=True)),
                ('created_at', models.DateTimeField()),
                ('finished_at', models.DateTimeField(null=True)),
                ('expires_at', models.DateTimeField()),
            ],
        ),
        migrations.AddIndex(
            model_name='ledgerentry',
            index=models.Index(models.F('account'), models.F('created_at'), condition=models.Q(('kind__in', ('purchase', 'grant', 'transfer_in', 'refund', 'expiry', 'transfer_out', 'usage_reversal'))), name='accounts_entry_singles'),
        ),
        migrations.AddConstraint(
            model_name='purchasefee',
            constraint=models.CheckConstraint(condition=models.Q(('fee_nano__gt', 0), ('paid_nano__gt', models.F('fee_nano'))), name='accounts_purchasefee_below_the_payment'),
        ),
        migrations.AddField(
            model_name='repeatablerequest',
            name='account',
            field=models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='accounts.account'),
        ),
        migrations.AddField(
            model_name='repeatablerequest',
            name='api_key',
            field=models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='accounts.apikey'),
        ),
        migrations.AddIndex(
            model_name='repeatablerequest',
            index=models.Index(models.F('expires_at'), name='accounts_repeatable_expiry'),
        ),
        migrations.AddIndex(
            model_name='repeatablerequest',
            index=models.Index(models.F('answer_until'), condition=models.Q(('sealed_answer__isnull', False)), name='accounts_repeatable_answers'),
        ),
        migrations.AddConstraint(
            model_name='repeatablerequest',
            constraint=models.CheckConstraint(condition=models.Q(('sealed_answer__isnull', True), ('answer_until__isnull', False), _connector='OR'), name='accounts_repeatablerequest_answer_has_an_end'),
        ),
    ]
