"""What claims gave stands apart from what a directory gave."""

from typing import Any

from django.db import migrations, models


def part_groups(apps: Any, schema_editor: Any) -> None:
    """A sign-in has set all groups of whom a provider brought, so that these are of claims."""
    people = apps.get_model("accounts", "ScimUser").objects
    for person in people.filter(attributes__has_key="provider"):
        person.claimed_groups.set(person.groups.all())
        person.groups.clear()


def join_groups(apps: Any, schema_editor: Any) -> None:
    people = apps.get_model("accounts", "ScimUser").objects
    for person in people.filter(claimed_groups__isnull=False).distinct():
        person.groups.add(*person.claimed_groups.all())


class Migration(migrations.Migration):

    dependencies = [
        ('accounts', '0030_workload_tags'),
    ]

    operations = [
        migrations.AddField(
            model_name='scimuser',
            name='claim_mappings',
            field=models.ManyToManyField(blank=True, related_name='people', to='accounts.claimmapping'),
        ),
        migrations.AddField(
            model_name='scimuser',
            name='claimed_groups',
            field=models.ManyToManyField(blank=True, related_name='claimants', to='accounts.scimgroup'),
        ),
        migrations.RunPython(part_groups, join_groups),
    ]
