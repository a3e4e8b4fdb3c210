"""What claims give is taken away with the claim, with the mapping, and on databases of before."""

from typing import Any

import pytest

from accounts.models import (
    ClaimMapping,
    Membership,
    PersonIdentity,
    ScimUser,
)
from accounts.people.admission import admit
from accounts.people.oidc import Identity, SignInRefused
from accounts.services.directory.claim_mappings import delete_mapping, save_mapping
from accounts.services.directory.groups import (
    fill_groups,
)
from accounts.services.directory.users import create_user
from accounts.services.organization import admit_member, open_account
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
