"""Opening accounts and workspaces."""

import uuid

from django.db import transaction

from accounts.models import Account, Membership, User, Workspace
from accounts.models.account import default_workspace_id


def open_account(*, name: str) -> Account:
    """The account of that name with its default workspace; made when there is none."""
    with transaction.atomic():
        account, new = Account.objects.get_or_create(name=name)
        if new:
            Workspace.objects.create(
                id=default_workspace_id(account.pk),
                account=account,
                name="Default Workspace",
                slug="default",
                is_default=True,
            )
    return account


def open_workspace(*, account: Account, slug: str) -> Workspace:
    """The account's workspace of that slug; made when there is none."""
    workspace, _ = Workspace.objects.get_or_create(
        account=account,
        slug=slug,
        defaults={"id": uuid.uuid4(), "name": slug.replace("-", " ").title()},
    )
    return workspace


def admit_member(*, account: Account, username: str, role: Membership.Role) -> User:
    """The user of that name as a member of the account; both made when missing."""
    with transaction.atomic():
        user, new = User.objects.get_or_create(username=username)
        if new:
            user.set_unusable_password()
            user.save(update_fields=["password"])
        Membership.objects.get_or_create(account=account, user=user, defaults={"role": role})
    return user
