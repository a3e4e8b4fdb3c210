"""Workspaces that sign-ins gave by a group of their own making go with the mapping of claims."""

from typing import Any

from django.db import migrations


def hand_over_people(apps: Any, schema_editor: Any) -> None:
    """A sign-in made a group for each mapping of claims, and mapped it to the workspace.

    What a directory, a file or a person makes is on record; what those sign-ins made is not.
    """
    groups, mappings, claims, people, records = (
        apps.get_model("accounts", name).objects
        for name in ("ScimGroup", "ScimGroupMapping", "ClaimMapping", "ScimUser", "AuditRecord")
    )
    for group in groups.filter(
        external_id=None, deleted_at=None, mappings__isnull=False
    ).distinct():
        if records.filter(object_type="scim_group", object_id=str(group.pk)).exists():
            continue
        # Sign-ins alone have put people into it, those of a directory among them.
        for person in group.members.all():
            person.claimed_groups.add(group)
        group.members.clear()
        for mapping in mappings.filter(group=group):
            if records.filter(object_type="scim_mapping", object_id=str(mapping.pk)).exists():
                continue
            for claim in claims.filter(account=group.account_id, workspace=mapping.workspace_id):
                everybody = f"Everybody by {claim.claim}"
                if group.display_name == (everybody if claim.value == "*" else claim.value):
                    claim.people.add(*people.filter(claimed_groups=group))
            mapping.delete()


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0032_origin_of_audit_records"),
    ]

    operations = [
        # The version before knows people of mappings too, so that nothing is to be put back.
        migrations.RunPython(hand_over_people, migrations.RunPython.noop),
    ]
