"""What claims give: what a mapping gave is taken away or moved with the mapping itself."""

from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from django.db import transaction

from accounts.models import ClaimMapping, Membership, ScimUser
from accounts.services.directory.groups import apply_groups, lock_account
from accounts.services.organization import LastAdmin, change_role
from accounts.services.records import Actor, read_fields

# Another value of one of these is for other people, who are found as they sign in.
_WHO: Final = ("provider", "claim", "value", "account_id")


def save_mapping(*, mapping: ClaimMapping, by: Actor) -> None:
    """Save it. Its people follow to another workspace and other roles at once."""
    with transaction.atomic():
        before = ClaimMapping.objects.filter(pk=mapping.pk).first()
        accounts = {each.account_id for each in (before, mapping) if each}
        for account_id in sorted(accounts):
            lock_account(account_id)
        mapping.save()
        if before is None:
            return
        people = list(mapping.people.all())
        is_for_others = read_fields(before, _WHO) != read_fields(mapping, _WHO)
        if is_for_others:
            mapping.people.clear()
        for account_id in sorted(accounts):
            apply_groups(account_id=account_id, by=by)
        if is_for_others or before.role != mapping.role:
            _settle_roles(people, {before.role, mapping.role}, by)


def delete_mapping(*, mapping: ClaimMapping, by: Actor) -> None:
    """Delete it. Its people lose at once the workspace that nothing else gives them, and the role
    that no other claim gives."""
    with transaction.atomic():
        lock_account(mapping.account_id)
        people = list(mapping.people.all())
        mapping.delete()
        apply_groups(account_id=mapping.account_id, by=by)
        _settle_roles(people, {mapping.role}, by)


def settle_role(person: ScimUser, *, by: Actor) -> None:
    """Give a member the highest role in the account that claims give, the lowest where none do.

    An account keeps an admin, whatever a provider says.
    """
    member = Membership.objects.filter(account=person.account_id, user=person.user_id).first()
    given = set(person.claim_mappings.values_list("role", flat=True))
    role = next((each for each in Membership.Role.values if each in given), Membership.Role.MEMBER)
    if member is not None and member.role != role:
        user_id = person.user.public_id
        with suppress(LastAdmin):
            change_role(account_id=person.account_id, user_id=user_id, role=role, by=by)


def _settle_roles(people: Iterable[ScimUser], roles: set[str], by: Actor) -> None:
    """Settle those of people of a mapping that had or has these roles. The lowest one raised and
    raises nobody."""
    if roles != {Membership.Role.MEMBER}:
        for person in people:
            settle_role(person, by=by)
