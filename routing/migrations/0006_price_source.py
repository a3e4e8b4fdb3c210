from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('routing', '0005_generation_trace'),
    ]

    operations = [
        migrations.AddField(
            model_name='endpoint',
            name='price_source',
            field=models.CharField(choices=[('hand', 'set by hand'), ('book', 'price book (refresh_prices)')], db_default='hand', default='hand', max_length=8),
        ),
        migrations.AddConstraint(
            model_name='endpoint',
            constraint=models.CheckConstraint(condition=models.Q(('price_source__in', ['hand', 'book'])), name='routing_endpoint_price_source_known'),
        ),
    ]
