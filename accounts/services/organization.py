"""Accounts: opening them with workspaces and members, and what holds for all of an account."""

import uuid
from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from django.db import transaction

from accounts.models import Account, ApiKey, Membership, User, Workspace
from accounts.models.account import default_workspace_id
from accounts.roles import Action, list_account_roles
from accounts.services.keys import set_disabled
from accounts.services.lost_keys import disable_lost_keys_of
from accounts.services.records import Actor, read_fields, record_change, record_row
from accounts.services.spend_scopes import end_member_budgets
from gateway.http.errors import Conflict, NotFound
from gateway.http.paging import Page

# What its admins say of an account, as its audit records have it.
POLICY_FIELDS: Final = (
    *("allowed_models", "allowed_providers", "ignored_providers"),
    *("data_collection", "zdr", "regional_inference_enabled"),
    *("interns_enabled", "intern_writes_enabled", "vault_writes_enabled"),
    *("is_personal", "is_filtered_model_catalog_enabled"),
)


class LastAdmin(Conflict):
    message = "An account keeps at least one admin: make somebody else one first"


class UserNameTaken(Conflict):
    message = "Somebody has this user name already"


def list_members(account_id: UUID, page: Page) -> tuple[list[Any], int]:
    """One page, newest first, with their users, and how many there are. Raises `NotFound` for a
    personal account."""
    members = Membership.objects.filter(account_id=account_id, account__is_personal=False)
    total = members.count()
    if not total and Account.objects.filter(pk=account_id, is_personal=True).exists():
        raise NotFound
    rows = members.select_related("user").order_by("-created_at", "-pk")
    return list(rows[page.rows]), total


def change_account(*, account_id: UUID, changes: Mapping[str, Any], by: Actor) -> Account:
    """The account with its name or fields of `POLICY_FIELDS` changed."""
    with transaction.atomic():
        account = Account.objects.select_for_update(no_key=True).get(pk=account_id)
        before = read_fields(account, changes)
        for name, value in changes.items():
            setattr(account, name, value)
        account.save(update_fields=list(changes))
        after = read_fields(account, changes)
        record_row("account", by, "updated", account, before, after, account_id=account.pk)
    return account


def add_new_person(*, account_id: UUID, username: str, role: str, by: Actor) -> User:
    """A new person, without a password, as a member. Raises `UserNameTaken`: nobody is made a
    member of an account without having been asked."""
    with transaction.atomic():
        user, is_new = User.objects.get_or_create(username=username)
        if not is_new:
            raise UserNameTaken
        user.set_unusable_password()
        user.save(update_fields=["password"])
        Membership.objects.create(account_id=account_id, user=user, role=role)
        _record_member(by, "added", account_id, user, None, {"role": role})
    return user


def change_role(*, account_id: UUID, user_id: str, role: str, by: Actor) -> None:
    """Give a member another role; keys that it does not allow are disabled. Raises `NotFound` and
    `LastAdmin`."""
    with transaction.atomic():
        membership = _lock_member(account_id, user_id)
        before, membership.role = membership.role, role
        if role not in list_account_roles(Action.MEMBERS):
            keep_an_admin(membership)
        membership.save(update_fields=["role"])
        disable_lost_keys_of(membership, by)
        facts = {"role": before}, {"role": role}
        _record_member(by, "updated", account_id, membership.user, *facts)


def remove_member(*, account_id: UUID, user_id: str, by: Actor) -> None:
    """Let somebody go, with the keys they made. Raises `NotFound` and `LastAdmin`."""
    with transaction.atomic():
        membership = _lock_member(account_id, user_id)
        keep_an_admin(membership)
        user, before = membership.user, {"role": membership.role}
        membership.delete()
        keys = ApiKey.objects.filter(account=account_id, creator=user, disabled=False)
        set_disabled(keys=keys, disabled=True, by=by)
        end_member_budgets(account_id, user.pk)
        _record_member(by, "removed", account_id, user, before, None)


def _lock_member(account_id: UUID, user_id: str) -> Membership:
    """The member of that public id; members of the account change one at a time."""
    Account.objects.select_for_update(no_key=True).get(pk=account_id)
    rows = Membership.objects.filter(account=account_id, user__public_id=user_id)
    found = rows.select_related("user").first()
    if found is None:
        raise NotFound
    return found


def keep_an_admin(leaving: Membership) -> None:
    """Raises `LastAdmin` where nobody else of the account is one."""
    roles = list_account_roles(Action.MEMBERS)
    admins = Membership.objects.filter(account=leaving.account_id, role__in=roles)
    if admins.filter(pk=leaving.pk).exists() and not admins.exclude(pk=leaving.pk).exists():
        raise LastAdmin


def _record_member(
    by: Actor,
    action: str,
    account_id: UUID,
    user: User,
    before: Mapping[str, Any] | None,
    after: Mapping[str, Any] | None,
) -> None:
    record_change(
        by=by,
        action=action,
        object_type="member",
        object_id=user.public_id,
        account_id=account_id,
        before=before,
        after=after,
    )


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
