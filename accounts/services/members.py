"""Roles of members in their account."""

from django.db import transaction

from accounts.models import Membership
from accounts.services.records import Actor, record_change


def set_role(*, membership: Membership, role: str, by: Actor) -> None:
    """Give the member this role in the account."""
    if membership.role == role:
        return
    before, membership.role = membership.role, role
    with transaction.atomic():
        membership.save(update_fields=["role"])
        record_change(
            by=by,
            action="role changed",
            object_type="membership",
            object_id=membership.pk,
            account_id=membership.account_id,
            before={"user": membership.user_id, "role": before},
            after={"user": membership.user_id, "role": role},
        )
