"""What claims give is taken away with the claim, with the mapping, and on databases of before."""

from datetime import UTC, datetime
from importlib import import_module
from typing import Any

import pytest
from django.apps import apps
from django.db import transaction

from accounts.models import (
    ClaimMapping,
    Membership,
    PersonIdentity,
    ScimGroup,
    ScimGroupMapping,
    ScimUser,
    WorkspaceMembership,
)
from accounts.people.admission import admit
from accounts.people.oidc import Identity, SignInRefused
from accounts.services.directory.claim_mappings import delete_mapping, save_mapping
from accounts.services.directory.groups import (
    apply_groups,
    create_mapping,
    fill_groups,
    lock_account,
    save_group,
)
from accounts.services.directory.users import create_user
from accounts.services.organization import admit_member, open_account, open_workspace
from accounts.services.records import SYSTEM
from gateway.environment.sign_in import OidcProvider

pytestmark = [pytest.mark.django_db, pytest.mark.both]
PROVIDER = OidcProvider("acme", "Acme", "https://id.acme.test", "gateway", "secret", ())


@pytest.fixture
def account() -> Any:
    made = open_account(name="acme")
    admit_member(account=made, username="root", role=Membership.Role.OWNER)
    return made


def bring(account: Any, name: str, **attributes: str) -> ScimUser:
    """Somebody of the account's directory; with the attribute `provider`, of that provider."""
    fields: dict[str, Any] = {
        "user_name": name,
        "external_id": None,
        "active": True,
        "attributes": attributes,
    }
    return create_user(account_id=account.pk, fields=fields, by=SYSTEM)


def sign_in(name: str, *groups: str) -> None:
    claims = {"preferred_username": name, "groups": list(groups)}
    admit(Identity(PROVIDER, f"s-{name}", claims, "token"))


def read_role(person: ScimUser) -> str:
    return Membership.objects.get(account=person.account_id, user=person.user_id).role


def list_places(person: ScimUser) -> dict[str, str]:
    """Roles by workspaces beside the default one."""
    rows = WorkspaceMembership.objects.filter(membership__user=person.user_id)
    return dict(rows.values_list("workspace__slug", "role"))


@pytest.mark.parametrize("how", ["claim", "deleted", "other people", "lower role"])
def test_a_role_of_the_account_goes_with_what_gave_it(account: Any, how: str) -> None:
    person = bring(account, "ada")
    mapping = ClaimMapping.objects.create(
        value="leads", account=account, role=Membership.Role.ADMIN
    )
    sign_in("ada", "leads")
    assert read_role(person) == "org:admin"

    if how == "claim":
        with pytest.raises(SignInRefused):
            sign_in("ada")
    elif how == "deleted":
        delete_mapping(mapping=mapping, by=SYSTEM)
    elif how == "other people":
        mapping.value = "others"
        save_mapping(mapping=mapping, by=SYSTEM)
    else:
        mapping.role = Membership.Role.MEMBER
        save_mapping(mapping=mapping, by=SYSTEM)

    assert read_role(person) == "org:member"


def test_no_mapping_takes_a_role_that_another_gives(account: Any) -> None:
    person = bring(account, "ada")
    for value in ("leads", "chiefs"):
        ClaimMapping.objects.create(value=value, account=account, role=Membership.Role.ADMIN)
    sign_in("ada", "leads", "chiefs")

    delete_mapping(mapping=ClaimMapping.objects.get(value="leads"), by=SYSTEM)

    assert read_role(person) == "org:admin"


def test_whom_a_file_of_groups_names_is_nobody_else_s_place(account: Any) -> None:
    bob = admit_member(account=account, username="bob", role=Membership.Role.ADMIN)
    fill_groups(account=account, groups={"staff": ["bob"]}, by=SYSTEM)
    ClaimMapping.objects.create(value="leads", account=account)

    with pytest.raises(SignInRefused, match="somebody else has this user name"):
        sign_in("bob", "leads")

    assert not PersonIdentity.objects.filter(user=bob).exists()


def open_former_group(account: Any, name: str, workspace: Any, role: str) -> ScimGroup:
    """As a sign-in made one for a mapping, without a record."""
    now = datetime.now(UTC)
    group = ScimGroup.objects.create(
        account=account, display_name=name, created_at=now, updated_at=now
    )
    ScimGroupMapping.objects.create(
        group=group, workspace=workspace, role=role, created_at=now, updated_at=now
    )
    return group


def test_workspaces_of_former_sign_ins_go_with_their_mapping(account: Any) -> None:
    lab, lounge, attic = (
        open_workspace(account=account, slug=each) for each in ("lab", "lounge", "attic")
    )
    ada, bob = bring(account, "ada", provider="acme"), bring(account, "bob")
    mapping = ClaimMapping.objects.create(
        claim="email", value="*", account=account, workspace=lab, workspace_role="admin"
    )
    former = open_former_group(account, "Everybody by email", lab, "admin")
    # Its mapping of claims is gone.
    forgotten = open_former_group(account, "research", attic, "member")
    ada.claimed_groups.add(former, forgotten)
    # Somebody of the directory whom a sign-in put there, and a group of the directory's own.
    former.members.add(bob)
    with transaction.atomic():
        lock_account(account.pk)
        own = ScimGroup(account=account, display_name="*")
        save_group(group=own, members=[bob], by=SYSTEM)
    create_mapping(
        account_id=account.pk, group_id=own.pk, workspace_id=lounge.pk, role="member", by=SYSTEM
    )
    assert list_places(ada) == {"lab": "admin", "attic": "member"}
    assert list_places(bob) == {"lab": "admin", "lounge": "member"}

    import_module("accounts.migrations.0033_mappings_without_groups").hand_over_people(apps, None)

    with transaction.atomic():
        lock_account(account.pk)
        apply_groups(account_id=account.pk, by=SYSTEM)
    assert list_places(ada) == {"lab": "admin"}
    assert list_places(bob) == {"lab": "admin", "lounge": "member"}
    mapping.workspace_role = "member"
    save_mapping(mapping=mapping, by=SYSTEM)
    assert list_places(ada) == {"lab": "member"}
    delete_mapping(mapping=mapping, by=SYSTEM)
    assert (list_places(ada), list_places(bob)) == ({}, {"lounge": "member"})
