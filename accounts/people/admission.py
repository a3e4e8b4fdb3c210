"""Which accounts, workspaces and roles a person's claims give, and the person, made when new.

Whoever comes in by a provider is in the directory of each account: workspaces follow from groups
and their mappings, as they do for people that a directory brings.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

from django.db import transaction

from accounts.models import (
    Account,
    ClaimMapping,
    Membership,
    PersonIdentity,
    ScimGroup,
    ScimGroupMapping,
    ScimUser,
    User,
)
from accounts.people.oidc import Identity, SignInRefused
from accounts.services.organization import LastAdmin, change_role
from accounts.services.records import command_actor
from accounts.services.scim_groups import apply_groups, lock_account
from accounts.services.scim_users import change_user, create_user

_BY: Final = command_actor("sign-in")
_CHARS_MAX: Final = 255
_LEFT: Final = "left_by_provider"


def admit(identity: Identity) -> User:
    """The person behind an identity, in the accounts that the claims of now give.

    Raises `SignInRefused` for somebody to whom no mapping applies, or who was switched off.
    """
    with transaction.atomic():
        user = _find_known(identity)
        by_account: dict[UUID, list[ClaimMapping]] = defaultdict(list)
        for mapping in list_mappings(identity):
            by_account[mapping.account_id].append(mapping)
        if not by_account and user is None:
            raise SignInRefused("no mapping fits the person's claims")
        for account_id, rows in sorted(by_account.items()):
            user = _join(lock_account(account_id), rows, identity, user)
        assert user is not None
        _leave_others(user, identity, by_account.keys())
        PersonIdentity.objects.get_or_create(
            issuer=identity.provider.issuer, subject=identity.subject, defaults={"user": user}
        )
    # What was left stays left, whether or not anything else is there.
    user.refresh_from_db()
    if not user.is_active:
        raise SignInRefused("the person is switched off")
    return user


def list_mappings(identity: Identity) -> list[ClaimMapping]:
    """Those that fit the claims, with their accounts."""
    rows = ClaimMapping.objects.filter(provider__in=["", identity.provider.id])
    return [row for row in rows.select_related("workspace") if _fits(row, identity.claims)]


def read_values(claims: Mapping[str, Any], name: str) -> list[str]:
    """The values of a claim, as texts. Parts of a nested claim have dots between."""
    value: Any = claims.get(name)
    if value is None:
        value = claims
        for part in name.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
    values = value if isinstance(value, list) else [value]
    return [str(each)[:_CHARS_MAX] for each in values if isinstance(each, str | int)]


def _fits(mapping: ClaimMapping, claims: Mapping[str, Any]) -> bool:
    values = read_values(claims, mapping.claim)
    return bool(values) if mapping.value == "*" else mapping.value in values


def _find_known(identity: Identity) -> User | None:
    row = PersonIdentity.objects.filter(
        issuer=identity.provider.issuer, subject=identity.subject
    ).select_related("user")
    found = row.first()
    return found.user if found else None


def _join(
    account: Account, mappings: Iterable[ClaimMapping], identity: Identity, user: User | None
) -> User:
    """A member of the account, with the highest role and the groups that these mappings give."""
    person = _find_person(account, identity, user)
    if not person.active:
        raise SignInRefused("the account's directory has switched the person off")
    role, user_id = _find_role(mappings), person.user.public_id
    if Membership.objects.get(account=account, user=person.user_id).role != role:
        # An account keeps an admin, whatever a provider says.
        with suppress(LastAdmin):
            change_role(account_id=account.pk, user_id=user_id, role=role, by=_BY)
    wanted: set[Any] = {_open_group(account, each).pk for each in mappings if each.workspace}
    named = ScimGroup.objects.filter(
        account=account, display_name__in=read_values(identity.claims, "groups")
    )
    wanted |= set(named.values_list("pk", flat=True))
    if set(person.groups.values_list("pk", flat=True)) != wanted:
        person.groups.set(wanted)
        apply_groups(account_id=account.pk, by=_BY)
    return person.user


def _find_person(account: Account, identity: Identity, user: User | None) -> ScimUser:
    """The person in the account's directory, made when new.

    Whom a directory brought is the same person by the user name, and nobody else is: a provider
    that lets people choose their address gives nobody another's place.
    """
    rows = ScimUser.objects.filter(account=account).select_related("user")
    claims = identity.claims
    if user is not None:
        found = rows.filter(user=user).first()
    else:
        name = str(claims.get("preferred_username") or _find_address(claims) or identity.subject)
        found = rows.filter(user_name__iexact=name[:_CHARS_MAX], user__is_staff=False).first()
        if found is not None and PersonIdentity.objects.filter(user=found.user_id).exists():
            raise SignInRefused("somebody else has this user name")
    if found is not None:
        if not found.active and found.attributes.get(_LEFT) == identity.provider.id:
            # The claims had taken the person out, and give it back. A directory had not.
            kept = {name: each for name, each in found.attributes.items() if name != _LEFT}
            change_user(row=found, fields={"active": True, "attributes": kept}, by=_BY)
        return found
    return create_user(account_id=account.pk, fields=_read_fields(identity), by=_BY, user=user)


def _read_fields(identity: Identity) -> dict[str, Any]:
    claims = identity.claims
    address = _find_address(claims)
    name = str(claims.get("preferred_username") or address or identity.subject)
    return {
        "user_name": name[:_CHARS_MAX],
        "external_id": identity.subject[:_CHARS_MAX],
        "active": True,
        "attributes": {
            "provider": identity.provider.id,
            "name": {
                "givenName": str(claims.get("given_name") or ""),
                "familyName": str(claims.get("family_name") or ""),
            },
            "emails": [{"value": address, "primary": True}] if address else [],
        },
    }


def _find_address(claims: Mapping[str, Any]) -> str:
    """The e-mail address, where the provider does not say that it is unproved."""
    return str(claims.get("email") or "") if claims.get("email_verified", True) else ""


def _find_role(mappings: Iterable[ClaimMapping]) -> str:
    given = {mapping.role for mapping in mappings}
    return next(role for role in Membership.Role.values if role in given)


def _open_group(account: Account, mapping: ClaimMapping) -> ScimGroup:
    """The directory group that stands for a mapping to a workspace, mapped as the mapping says."""
    now = datetime.now(UTC)
    group, _ = ScimGroup.objects.get_or_create(
        account=account,
        display_name=mapping.value if mapping.value != "*" else f"Everybody by {mapping.claim}",
        defaults={"created_at": now, "updated_at": now},
    )
    ScimGroupMapping.objects.update_or_create(
        group=group,
        workspace=mapping.workspace,
        defaults={"role": mapping.workspace_role, "updated_at": now},
        create_defaults={"role": mapping.workspace_role, "created_at": now, "updated_at": now},
    )
    return group


def _leave_others(user: User, identity: Identity, accounts: Iterable[UUID]) -> None:
    """Out of accounts that the provider gave before and the claims of now do not."""
    rows = ScimUser.objects.filter(
        user=user, active=True, attributes__provider=identity.provider.id
    )
    for row in rows.exclude(account__in=accounts):
        lock_account(row.account_id)
        left = row.attributes | {_LEFT: identity.provider.id}
        change_user(row=row, fields={"active": False, "attributes": left}, by=_BY)
