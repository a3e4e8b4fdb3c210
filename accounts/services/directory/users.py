"""People of a directory: active ones are members; others have neither membership nor working keys,
and stay in the books."""

import secrets
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final
from uuid import UUID

from django.db import transaction
from django.db.models import Q

from accounts.models import (
    Account,
    ApiKey,
    DeletedScimUser,
    Membership,
    ScimGroup,
    ScimUser,
    User,
)
from accounts.services.directory.groups import apply_groups, lock_account
from accounts.services.keys import set_disabled
from accounts.services.records import Actor, read_fields, record_row
from accounts.services.spend_scopes import end_member_budgets
from gateway.http.errors import Conflict, NotFound

_record: Final = partial(record_row, "scim_user")

_FACTS: Final = ("user_name", "external_id", "active", "attributes")
_NAME_CHARS_MAX: Final = 150
# What is noted among the attributes of a person and no directory sends. It is the identity provider
# that brought the person, and the one whose claims took the person out.
PROVIDER: Final = "provider"
LEFT: Final = "left_by_provider"


class NameTaken(Conflict):
    scim_type, message = "uniqueness", "This userName is taken"


def find_user(account_id: UUID, user_id: UUID) -> ScimUser:
    """Raises `NotFound`."""
    rows = ScimUser.objects.filter(account_id=account_id, pk=user_id)
    found = rows.prefetch_related("groups").first()
    if found is None:
        raise NotFound
    return found


def create_user(
    *,
    account_id: UUID,
    fields: Mapping[str, Any],
    by: Actor,
    user: User | None = None,
    may_be_member: bool = False,
) -> ScimUser:
    """A person of the directory, with the columns `fields`: `user`, or somebody new. With
    `may_be_member` whom the directory deleted, by the same `external_id`, is the same person, and
    so is a member of that name or address. Raises `NameTaken`."""
    now = datetime.now(UTC)
    with transaction.atomic():
        account = lock_account(account_id)
        _refuse_name_in_use(account_id, fields["user_name"], None)
        former = _find_deleted(account, fields) if may_be_member else None
        if former is not None:
            user = former.user
        elif may_be_member:
            user = _find_member(account, fields)
        has_own_user = user is None
        if former is not None:
            # Name, address and sign-in are the directory's to set again, unless the person operates
            # the gateway or is of another account by now.
            elsewhere = former.user.memberships.exclude(account=former.account_id)
            is_free = not former.user.is_staff and not elsewhere.exists()
            has_own_user = former.has_own_user and is_free
        row = ScimUser(
            account=account,
            user=user or _make_user(fields),
            has_own_user=has_own_user,
            created_at=now,
            updated_at=now,
            **fields,
        )
        row.save(force_insert=True)
        DeletedScimUser.objects.filter(account=account, user=row.user_id).delete()
        if former is not None and row.has_own_user:
            User.objects.filter(pk=row.user_id).update(**_read_person(fields))
        _follow_activity(row, by, may_switch_on=former is None or former.switched_off)
        _record(by, "created", row, None, read_fields(row, _FACTS))
    return row


def change_user(*, row: ScimUser, fields: Mapping[str, Any], by: Actor) -> ScimUser:
    """The person with these columns. The account is locked. Raises `NameTaken`."""
    before = read_fields(row, _FACTS)
    if all(before[name] == value for name, value in fields.items()):
        return row
    _refuse_name_in_use(row.account_id, fields.get("user_name", row.user_name), row.pk)
    was_active = row.active
    for name, value in fields.items():
        setattr(row, name, value)
    row.updated_at = datetime.now(UTC)
    row.save(update_fields=[*fields, "updated_at"])
    if row.has_own_user:
        User.objects.filter(pk=row.user_id).update(**_read_person(fields))
    if row.active != was_active:
        _follow_activity(row, by)
        apply_groups(account_id=row.account_id, by=by)
    _record(by, "updated", row, before, read_fields(row, _FACTS))
    return row


def keep_notes(row: ScimUser, fields: Mapping[str, Any], *, says_active: bool) -> dict[str, Any]:
    """The columns that a directory sent, with what is noted here of the person.

    Where the directory says whether the person is active, no provider has the say any more.
    """
    names = (PROVIDER,) if says_active else (PROVIDER, LEFT)
    notes = {name: row.attributes[name] for name in names if name in row.attributes}
    return {**fields, "attributes": {**fields["attributes"], **notes}}


def delete_user(*, row: ScimUser, by: Actor) -> None:
    """Out of the directory, and out of the account, into which no claims bring the person back.
    The account is locked."""
    before, account_id, now = read_fields(row, _FACTS), row.account_id, datetime.now(UTC)
    row.active = False
    person = User.objects.filter(pk=row.user_id, is_active=True)
    was_on = person.exists()
    _follow_activity(row, by)
    ScimGroup.objects.filter(members=row).update(updated_at=now)
    DeletedScimUser.objects.update_or_create(
        account_id=account_id,
        user_id=row.user_id,
        defaults={
            "user_name": row.user_name,
            "external_id": row.external_id,
            "has_own_user": row.has_own_user,
            "switched_off": was_on and not person.exists(),
            "deleted_at": now,
        },
    )
    _record(by, "deleted", row, before, None)
    row.delete()
    apply_groups(account_id=account_id, by=by)


def forget_deletion(row: DeletedScimUser) -> None:
    """Let whom a directory deleted come again by a provider."""
    with transaction.atomic():
        if row.switched_off:
            User.objects.filter(pk=row.user_id).update(is_active=True)
        row.delete()


def _follow_activity(row: ScimUser, by: Actor, *, may_switch_on: bool = True) -> None:
    """Membership, keys and sign-in as `active` says. Keys that were disabled stay so."""
    account_id, user_id = row.account_id, row.user_id
    memberships = Membership.objects.filter(account=account_id, user=user_id)
    if row.active:
        Membership.objects.get_or_create(account_id=account_id, user_id=user_id)
        if row.has_own_user and may_switch_on:
            User.objects.filter(pk=user_id).update(is_active=True)
        return
    keys = ApiKey.objects.filter(account=account_id, creator=user_id, disabled=False)
    set_disabled(keys=keys, disabled=True, by=by)
    memberships.delete()
    end_member_budgets(account_id, user_id)
    is_elsewhere = Membership.objects.filter(user=user_id).exists()
    if row.has_own_user and not is_elsewhere:
        # Who may operate the gateway is not for a team's directory to say.
        User.objects.filter(pk=user_id, is_staff=False).update(is_active=False)


def _find_deleted(account: Account, fields: Mapping[str, Any]) -> DeletedScimUser | None:
    """The one that has the directory's own id of this person. A name may go to somebody else."""
    if not fields["external_id"]:
        return None
    rows = DeletedScimUser.objects.filter(account=account, external_id=fields["external_id"])
    rows = rows.exclude(user__scim_users__account=account).select_related("user")
    return rows.order_by("-deleted_at").first()


def _find_member(account: Account, fields: Mapping[str, Any]) -> User | None:
    """The member that the directory speaks of, if nobody else of the directory is that member.

    Only members: no directory gets at people of other accounts by naming them. An address from a
    provider names nobody, because some let people choose it.
    """
    name = fields["user_name"]
    match = Q(username__iexact=name) | Q(email__iexact=name, identities=None)
    members = User.objects.filter(match, memberships__account=account)
    return members.exclude(scim_users__account=account).order_by("pk").first()


def _make_user(fields: Mapping[str, Any]) -> User:
    name = fields["user_name"][:_NAME_CHARS_MAX]
    if User.objects.filter(username__iexact=name).exists():
        # Somebody of another account, or who was here before.
        name = f"{name[: _NAME_CHARS_MAX - 7]}#{secrets.token_hex(3)}"
    user = User(username=name, **_read_person(fields))
    user.set_unusable_password()
    user.save()
    return user


def _read_person(fields: Mapping[str, Any]) -> dict[str, str]:
    """Columns of the user that the directory's attributes fill."""
    attributes = fields.get("attributes") or {}
    name = attributes.get("name") or {}
    emails = [each for each in attributes.get("emails") or [] if each.get("value")]
    first = next((each for each in emails if each.get("primary")), emails[0] if emails else {})
    return {
        "first_name": str(name.get("givenName") or "")[:150],
        "last_name": str(name.get("familyName") or "")[:150],
        "email": str(first.get("value") or "")[:254],
    }


def _refuse_name_in_use(account_id: UUID, name: str, own: UUID | None) -> None:
    taken = ScimUser.objects.filter(account_id=account_id, user_name__iexact=name)
    if taken.exclude(pk__in=[own] if own else []).exists():
        raise NameTaken
