"""Whom an identity provider's answer is here: people of directories, of mappings, and nobody."""

from dataclasses import replace
from typing import Any

import pytest
from django.db import transaction
from django.test import Client

from accounts.models import (
    ClaimMapping,
    DeletedScimUser,
    Membership,
    PersonIdentity,
    ScimGroup,
    ScimUser,
    User,
    WorkspaceMembership,
)
from accounts.services.directory.groups import create_mapping, lock_account, save_group
from accounts.services.directory.users import create_user, delete_user
from accounts.services.keys import create_key
from accounts.services.organization import admit_member, open_account, open_workspace
from accounts.services.records import SYSTEM
from tests.support.identity_provider import Provider, is_in, last_reason, sign_in

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.both,
    # The provider's own libraries.
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
PASSWORD = "correct horse"


@pytest.fixture
def account() -> Any:
    account = open_account(name="acme")
    ClaimMapping.objects.create(value="research", account=account)
    return account


def bring(account: Any, name: str) -> ScimUser:
    """Somebody as the account's directory brings them."""
    fields: dict[str, Any] = {
        "user_name": name,
        "external_id": None,
        "active": True,
        "attributes": {},
    }
    return create_user(account_id=account.pk, fields=fields, by=SYSTEM, may_be_member=True)


def open_group(account: Any, name: str) -> ScimGroup:
    with transaction.atomic():
        lock_account(account.pk)
        group = ScimGroup(account=account, display_name=name)
        return save_group(group=group, members=[], by=SYSTEM)


def places(person: ScimUser) -> set[str]:
    """Workspaces beside the default one that the person is in."""
    rows = WorkspaceMembership.objects.filter(membership__user=person.user_id)
    return set(rows.values_list("workspace__slug", flat=True))


@pytest.mark.parametrize("name", ["ada", "ada@acme.test", "bob", "root"])
def test_nobody_gets_another_persons_place_by_a_name(
    provider: Provider, account: Any, name: str
) -> None:
    there = admit_member(account=account, username="bob", role=Membership.Role.ADMIN)
    User.objects.filter(pk=there.pk).update(email="ada@acme.test")
    root = User.objects.create_superuser("root", "ada@acme.test", PASSWORD)
    Membership.objects.create(account=account, user=root, role=Membership.Role.OWNER)
    provider.claims["preferred_username"] = name
    provider.restart()
    client = Client()

    sign_in(client, provider)

    assert int(client.session["_auth_user_id"]) not in {there.pk, root.pk}
    roles = Membership.objects.filter(account=account, user__in=[there, root])
    assert set(roles.values_list("role", flat=True)) == {"org:admin", "org:owner"}


def test_whom_a_directory_brought_is_the_same_person_and_keeps_what_it_gave(
    provider: Provider, account: Any
) -> None:
    lab, lounge = (open_workspace(account=account, slug=slug) for slug in ("lab", "lounge"))
    person = bring(account, "ada")
    for workspace, name in ((lab, "chemists"), (lounge, "research")):
        group = open_group(account, name)
        create_mapping(
            account_id=account.pk, group_id=group.pk, workspace_id=workspace.pk, role="member",
            by=SYSTEM,
        )  # fmt: skip
    with transaction.atomic():
        lock_account(account.pk)
        save_group(
            group=ScimGroup.objects.get(display_name="chemists"), members=[person], by=SYSTEM
        )
    key, _ = create_key(account=account, name="k", workspace=lab, creator=person.user)
    client = Client()

    sign_in(client, provider)

    assert int(client.session["_auth_user_id"]) == person.user_id
    assert places(person) == {"lab", "lounge"}
    # The provider takes away what it gave, and nothing else.
    ClaimMapping.objects.create(claim="email", value="*", account=account)
    provider.claims["groups"] = []
    provider.restart()
    assert sign_in(Client(), provider).status_code == 302
    assert places(person) == {"lab"}
    key.refresh_from_db()
    assert not key.disabled
    ClaimMapping.objects.all().delete()
    assert sign_in(Client(), provider).status_code == 403
    assert Membership.objects.filter(account=account, user=person.user_id).exists()


def test_whom_a_directory_brought_is_known_by_its_own_id_where_a_claim_has_it(
    provider: Provider, account: Any, settings: Any
) -> None:
    (acme,) = settings.OIDC_PROVIDERS
    settings.OIDC_PROVIDERS = (replace(acme, external_id_claim="oid"),)
    # Whoever may choose the name.
    person = bring(account, "ada")
    assert sign_in(Client(), provider).status_code == 403
    assert last_reason() == "somebody else has this user name"
    ScimUser.objects.filter(pk=person.pk).update(external_id="e-1", user_name="ada@acme.test")
    provider.claims["oid"] = "e-1"
    provider.restart()
    settings.OIDC_PROVIDERS = (replace(settings.OIDC_PROVIDERS[0], external_id_claim="oid"),)
    client = Client()

    assert sign_in(client, provider).status_code == 302

    assert client.session["_auth_user_id"] == str(person.user_id)


def test_a_directory_of_one_account_gives_no_place_in_another(
    provider: Provider, account: Any
) -> None:
    other = open_account(name="globex")
    there = admit_member(account=other, username="ada", role=Membership.Role.ADMIN)
    Membership.objects.create(account=account, user=there)
    bring(account, "ada")
    client = Client()

    assert sign_in(client, provider).status_code == 403

    assert (is_in(client), last_reason()) == (False, "somebody else has this user name")
    assert not PersonIdentity.objects.exists()


def test_an_account_with_somebody_else_of_the_name_is_passed_over(
    provider: Provider, account: Any
) -> None:
    sign_in(Client(), provider)
    other = open_account(name="globex")
    ClaimMapping.objects.create(value="research", account=other)
    bring(other, "ada")
    client = Client()

    assert sign_in(client, provider).status_code == 302

    user = User.objects.get(pk=client.session["_auth_user_id"])
    assert [each.account for each in user.memberships.all()] == [account]


def test_a_mapping_takes_its_workspace_along(
    provider: Provider, account: Any, admin_client: Client
) -> None:
    lab, lounge = (open_workspace(account=account, slug=slug) for slug in ("lab", "lounge"))
    mapping = ClaimMapping.objects.create(value="research", account=account, workspace=lab)
    sign_in(Client(), provider)
    person = ScimUser.objects.get(account=account)
    assert places(person) == {"lab"}
    page = f"/admin/accounts/claimmapping/{mapping.pk}"
    body = {
        "provider": "", "claim": "groups", "value": "research", "account": account.pk,
        "role": "org:member", "workspace": lounge.pk, "workspace_role": "admin",
    }  # fmt: skip

    assert admin_client.post(f"{page}/change/", body).status_code == 302

    assert places(person) == {"lounge"}
    assert WorkspaceMembership.objects.get(membership__user=person.user).role == "admin"
    assert admin_client.post(f"{page}/delete/", {"post": "yes"}).status_code == 302
    assert places(person) == set()
    assert sign_in(Client(), provider).status_code == 302
    assert places(person) == set()


def test_an_unproved_address_fits_no_mapping(provider: Provider) -> None:
    ClaimMapping.objects.create(
        claim="email", value="ada@acme.test", account=open_account(name="acme")
    )
    provider.claims["email_verified"] = False
    provider.restart()

    assert sign_in(Client(), provider).status_code == 403
    assert not User.objects.exists()


def delete(person: ScimUser) -> None:
    """As the account's directory does it."""
    with transaction.atomic():
        lock_account(person.account_id)
        delete_user(row=person, by=SYSTEM)


@pytest.mark.parametrize("is_met", [False, True])
def test_whom_a_directory_deleted_stays_out_and_comes_back_with_it(
    provider: Provider, account: Any, is_met: bool
) -> None:
    other = open_account(name="globex")
    sign_in(Client(), provider)
    person = ScimUser.objects.get(account=account)
    if is_met:
        # Somebody of another account too, so that the person is never switched off as such.
        ScimUser.objects.update(has_own_user=False)
        Membership.objects.create(account=other, user=person.user)
    delete(person)

    for _ in range(2):
        assert sign_in(Client(), provider).status_code == 403
        assert last_reason() == "the account's directory has deleted the person"
    assert not ScimUser.objects.exists()
    assert not Membership.objects.filter(account=account).exists()
    fields = {"user_name": "ada", "external_id": "s-1", "active": True, "attributes": {}}
    create_user(account_id=account.pk, fields=fields, by=SYSTEM, may_be_member=True)
    client = Client()
    sign_in(client, provider)
    assert client.session["_auth_user_id"] == str(person.user_id)


@pytest.mark.parametrize("is_met", [False, True])
def test_who_comes_back_as_somebody_new_signs_in_as_that(
    provider: Provider, account: Any, is_met: bool
) -> None:
    sign_in(Client(), provider)
    ScimUser.objects.update(has_own_user=not is_met)
    former = ScimUser.objects.get(account=account)
    delete(former)
    person = bring(account, "ada")
    assert person.user_id != former.user_id
    client = Client()

    for _ in range(2):
        assert sign_in(client, provider).status_code == 302

    assert client.session["_auth_user_id"] == str(person.user_id)
    assert PersonIdentity.objects.get().user_id == person.user_id


@pytest.mark.parametrize("had_come", [False, True])
def test_whom_a_directory_deleted_comes_again_once_an_operator_lets_them(
    provider: Provider, account: Any, admin_client: Client, had_come: bool
) -> None:
    if had_come:
        sign_in(Client(), provider)
        ScimUser.objects.update(has_own_user=True)
    else:
        bring(account, "ada")
    delete(ScimUser.objects.get(account=account))
    assert sign_in(Client(), provider).status_code == 403
    row = DeletedScimUser.objects.get()

    page = f"/admin/accounts/deletedscimuser/{row.pk}/delete/"
    assert admin_client.post(page, {"post": "yes"}).status_code == 302

    assert sign_in(Client(), provider).status_code == 302


def test_an_account_whose_directory_keeps_a_person_out_is_passed_over(
    provider: Provider, account: Any
) -> None:
    other = open_account(name="globex")
    ClaimMapping.objects.create(value="research", account=other)
    sign_in(Client(), provider)
    delete(ScimUser.objects.get(account=account))
    client = Client()

    assert sign_in(client, provider).status_code == 302

    assert [each.account for each in Membership.objects.all()] == [other]


def test_who_is_switched_off_gets_nothing_by_coming(provider: Provider, account: Any) -> None:
    sign_in(Client(), provider)
    User.objects.update(is_active=False)
    other = open_account(name="globex")
    ClaimMapping.objects.create(value="research", account=other, role="org:admin")

    assert sign_in(Client(), provider).status_code == 403

    assert last_reason() == "the person is switched off"
    assert not Membership.objects.filter(account=other).exists()
    assert not ScimUser.objects.filter(account=other).exists()


def test_who_moves_to_another_account_is_not_switched_off(provider: Provider, account: Any) -> None:
    sign_in(Client(), provider)
    for name in ("globex", "initech", "umbrella"):
        ClaimMapping.objects.all().delete()
        there = open_account(name=name)
        ClaimMapping.objects.create(value="research", account=there)

        assert sign_in(Client(), provider).status_code == 302

        assert [each.account for each in Membership.objects.all()] == [there]


def test_claims_take_away_what_they_no_longer_give(provider: Provider, account: Any) -> None:
    sign_in(Client(), provider)
    provider.claims["groups"] = []
    provider.restart()
    assert sign_in(Client(), provider).status_code == 403
    assert not Membership.objects.filter(account=account).exists()

    provider.claims["groups"] = ["research"]
    provider.restart()

    assert sign_in(Client(), provider).status_code == 302
    assert Membership.objects.filter(account=account).count() == 1
