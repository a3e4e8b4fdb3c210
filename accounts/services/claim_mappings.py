"""What claims give: what a mapping gave is taken away or moved with the mapping itself."""

from typing import Final

from django.db import transaction

from accounts.models import ClaimMapping
from accounts.services.records import Actor, read_fields
from accounts.services.scim_groups import apply_groups, lock_account

# Another value of one of these is for other people, who are found as they sign in.
_WHO: Final = ("provider", "claim", "value", "account_id")


def save_mapping(*, mapping: ClaimMapping, by: Actor) -> None:
    """Save it. Its people follow to another workspace and role at once."""
    with transaction.atomic():
        before = ClaimMapping.objects.filter(pk=mapping.pk).first()
        accounts = {each.account_id for each in (before, mapping) if each}
        for account_id in sorted(accounts):
            lock_account(account_id)
        mapping.save()
        if before is None:
            return
        if read_fields(before, _WHO) != read_fields(mapping, _WHO):
            mapping.people.clear()
        for account_id in sorted(accounts):
            apply_groups(account_id=account_id, by=by)


def delete_mapping(*, mapping: ClaimMapping, by: Actor) -> None:
    """Delete it. Its people lose at once the workspace that nothing else gives them."""
    with transaction.atomic():
        lock_account(mapping.account_id)
        mapping.delete()
        apply_groups(account_id=mapping.account_id, by=by)
