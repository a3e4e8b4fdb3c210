"""Which accounts, workspaces and roles a person's claims give, and the person, made when new.

People who come by a provider are in the directory of each account. Mappings of claims and of groups
give them workspaces, beside those that a directory put the person into.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final
from uuid import UUID

from django.db import transaction
from django.db.models import Exists, OuterRef, Q

from accounts.models import (
    Account,
    ClaimMapping,
    DeletedScimUser,
    Membership,
    PersonIdentity,
    ScimGroup,
    ScimUser,
    User,
)
from accounts.people.addresses import trust_provider
from accounts.people.oidc import Identity, SignInRefused
from accounts.services.directory.claim_mappings import settle_role
from accounts.services.directory.groups import apply_groups, lock_account
from accounts.services.directory.users import LEFT, PROVIDER, NameTaken, change_user, create_user
from accounts.services.records import command_actor, record_change
from gateway.environment.sign_in import OidcProvider
from gateway.http.jsonio import JsonObject
from gateway.live_settings import settings

_BY: Final = command_actor("sign-in")
_CHARS_MAX: Final = 255
_SWITCHED_OFF: Final = "the account's directory has switched the person off"


class KeptOut(SignInRefused):
    """One account's directory says that the person is not to come in there."""


def admit(identity: Identity) -> User:
    """The person behind an identity, in the accounts that the current claims give.

    Raises `SignInRefused` for somebody to whom no mapping applies, or who was switched off.
    """
    with transaction.atomic():
        user = _find_user(identity)
        wanted = {row.account_id for row in list_mappings(identity)}
        had = set(user.scim_users.values_list("account_id", flat=True)) if user else set()
        accounts = [lock_account(each) for each in sorted(wanted | had)]
        given: dict[UUID, list[ClaimMapping]] = defaultdict(list)
        # Read again: no mapping changes while its account is locked.
        for mapping in list_mappings(identity):
            given[mapping.account_id].append(mapping)
        user = user or _find_user(identity)
        if user is None or _is_gone(user):
            user = _recognize(identity, given) or user
        refusal = None
        try:
            # A person who is refused has got nothing.
            with transaction.atomic():
                user = _join_all(accounts, given, identity, user)
        except SignInRefused as error:
            refusal = error
        for account in accounts:
            if account.pk not in given and user is not None:
                _leave(account, user, identity)
    # What was left stays left, whether or not anything else is there.
    if refusal is not None:
        raise refusal
    assert user is not None
    trust_provider(user, identity)
    return user


def list_mappings(identity: Identity) -> list[ClaimMapping]:
    """Those that fit the claims, with their accounts. One without a provider is of the first."""
    later: tuple[OidcProvider, ...] = settings.OIDC_PROVIDERS[1:]
    is_first = all(each.id != identity.provider.id for each in later)
    names = [identity.provider.id, *([""] if is_first else [])]
    found = []
    for row in ClaimMapping.objects.filter(provider__in=names).select_related("workspace"):
        values = read_values(identity.claims, row.claim)
        if row.value in values or (row.value == "*" and values):
            found.append(row)
    return found


def read_values(claims: Mapping[str, Any], name: str) -> list[str]:
    """The values of a claim, as texts. Parts of a nested claim have dots between."""
    value: Any = claims.get(name)
    if value is None:
        value = claims
        for part in name.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
    values = value if isinstance(value, list) else [value]
    return [str(each)[:_CHARS_MAX] for each in values if isinstance(each, str | int)]


def _find_user(identity: Identity) -> User | None:
    row = PersonIdentity.objects.filter(
        issuer=identity.provider.issuer, subject=identity.subject
    ).select_related("user")
    found = row.first()
    return found.user if found else None


def _is_gone(user: User) -> bool:
    """Whether the person is nobody here any more: all directories deleted them, and they are in no
    account. A person whom a directory brings anew is somebody else, who has the same identity."""
    return not (user.is_staff or user.scim_users.exists() or user.memberships.exists())


def _join_all(
    accounts: Iterable[Account],
    given: Mapping[UUID, list[ClaimMapping]],
    identity: Identity,
    user: User | None,
) -> User:
    """The person, in each account that claims give and that takes them. Raises `SignInRefused`
    where there is none, or the person is switched off."""
    is_in, reason = False, "no mapping fits the person's claims"
    for account in accounts:
        if account.pk not in given:
            continue
        try:
            user, is_in = _join(account, given[account.pk], identity, user), True
        except NameTaken:
            reason = "somebody else has this user name"
        except KeptOut as error:
            reason = str(error)
    if user is None or not is_in:
        raise SignInRefused(reason)
    user.refresh_from_db()
    if not user.is_active:
        raise SignInRefused("the person is switched off")
    _keep_identity(identity, user)
    return user


def _keep_identity(identity: Identity, user: User) -> None:
    row, is_new = PersonIdentity.objects.get_or_create(
        issuer=identity.provider.issuer, subject=identity.subject, defaults={"user": user}
    )
    if is_new or row.user_id == user.pk:
        return
    before, row.user = row.user_id, user
    row.save(update_fields=["user"])
    record_change(
        by=_BY,
        action="updated",
        object_type="identity",
        object_id=row.pk,
        account_id=None,
        before={"user_id": before},
        after={"user_id": user.pk},
    )


def _join(
    account: Account, mappings: Iterable[ClaimMapping], identity: Identity, user: User | None
) -> User:
    """A member of the account, with the highest role and the groups that these mappings give.

    Raises `NameTaken` where somebody else of the account has the person's name, and `KeptOut`.
    """
    person = _find_person(account, identity, user)
    if not person.active:
        raise KeptOut(_SWITCHED_OFF)
    _, is_new = Membership.objects.get_or_create(account=account, user=person.user)
    groups = ScimGroup.objects.filter(
        account=account, display_name__in=read_values(identity.claims, "groups")
    )
    # Groups that a directory put the person into are its own to take away.
    given: list[tuple[Any, set[Any]]] = [
        (person.claimed_groups, set(groups)),
        (person.claim_mappings, set(mappings)),
    ]
    if is_new or any(set(there.all()) != rows for there, rows in given):
        for there, rows in given:
            there.set(rows)
        apply_groups(account_id=account.pk, by=_BY)
    settle_role(person, by=_BY)
    return person.user


def _find_person(account: Account, identity: Identity, user: User | None) -> ScimUser:
    """The person in the account's directory, made when new. Raises `NameTaken`, `KeptOut`."""
    found = ScimUser.objects.filter(account=account, user=user).first() if user else None
    if found is None:
        fields = _read_fields(identity)
        same = Q(user=user) | Q(user_name__iexact=fields["user_name"])
        same |= Q(external_id=fields["external_id"])
        if claim := identity.provider.external_id_claim:
            own_id = Q(external_id__in=read_values(identity.claims, claim))
            same |= own_id
            # Of that id the person may have another name there, and have come in elsewhere since.
            if ScimUser.objects.filter(own_id, account=account, active=False).exists():
                raise KeptOut(_SWITCHED_OFF)
        if DeletedScimUser.objects.filter(same, account=account).exists():
            raise KeptOut("the account's directory has deleted the person")
        return create_user(account_id=account.pk, fields=fields, by=_BY, user=user)
    if not found.active and found.attributes.get(LEFT) == identity.provider.id:
        # The claims had taken the person out, and give it back. A directory had not.
        kept = {name: each for name, each in found.attributes.items() if name != LEFT}
        change_user(row=found, fields={"active": True, "attributes": kept}, by=_BY)
    return found


def _recognize(identity: Identity, accounts: Collection[UUID]) -> User | None:
    """Somebody whom a directory of these accounts brought under the id that a claim has, or under
    the person's user name where no claim is set to have it.

    So a provider that lets people choose their names gives nobody the place of another. It is never
    a member without a directory, an operator, a person whom a provider brought, or somebody of
    another account.
    """
    # A file of groups names members of whom no directory has said anything.
    only_named = Q(has_own_user=False, attributes={}) & (Q(external_id=None) | Q(external_id=""))
    elsewhere = Membership.objects.filter(user=OuterRef("user")).exclude(account__in=accounts)
    rows = ScimUser.objects.exclude(Exists(elsewhere)).exclude(only_named)
    if claim := identity.provider.external_id_claim:
        rows = rows.filter(external_id__in=read_values(identity.claims, claim))
    else:
        rows = rows.filter(user_name__iexact=_read_fields(identity)["user_name"])
    rows = rows.filter(account__in=accounts, user__is_staff=False, user__identities=None)
    found = rows.select_related("user").order_by("account").first()
    return found.user if found else None


def _read_fields(identity: Identity) -> JsonObject:
    claims = identity.claims
    address = str(claims.get("email") or "")
    name = str(claims.get("preferred_username") or address or identity.subject)
    return {
        "user_name": name[:_CHARS_MAX],
        "external_id": identity.subject[:_CHARS_MAX],
        "active": True,
        "attributes": {
            PROVIDER: identity.provider.id,
            "name": {
                "givenName": str(claims.get("given_name") or ""),
                "familyName": str(claims.get("family_name") or ""),
            },
            "emails": [{"value": address, "primary": True}] if address else [],
        },
    }


def _leave(account: Account, user: User, identity: Identity) -> None:
    """Take away the account, which the claims do not give, where the provider gave it before; else
    what claims gave there."""
    row = ScimUser.objects.filter(account=account, user=user).first()
    if row is None:
        return
    came_by_claims = row.claim_mappings.exists()
    row.claimed_groups.clear()
    row.claim_mappings.clear()
    if row.active and row.attributes.get(PROVIDER) == identity.provider.id:
        left = row.attributes | {LEFT: identity.provider.id}
        change_user(row=row, fields={"active": False, "attributes": left}, by=_BY)
    else:
        apply_groups(account_id=account.pk, by=_BY)
        if came_by_claims:
            settle_role(row, by=_BY)
