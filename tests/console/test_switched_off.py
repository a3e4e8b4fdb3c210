"""Whom a directory switched off comes in by no claims of a provider, whatever these name."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from django.test import Client

from accounts.models import ClaimMapping, Membership, ScimUser, User
from accounts.services.keys import create_key
from accounts.services.organization import open_account
from gateway.http.jsonio import dumps
from tests.accounts.office import Office, open_office
from tests.support.identity_provider import Provider, is_in, last_reason, sign_in

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.both,
    # The provider's own libraries.
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
SCHEMAS = "urn:ietf:params:scim"


@pytest.fixture
def office(db: None) -> Office:
    office = open_office("acme")
    ClaimMapping.objects.create(value="research", account=office.account)
    return office


class Directory:
    """The account's, over HTTP."""

    def __init__(self, office: Office) -> None:
        self._office = office
        _, key = create_key(account=office.account, name="d", workspace=None, scopes=["scim"])
        self._client = Client(headers={"Authorization": f"Bearer {key}"})

    def bring(self) -> None:
        body = {"schemas": [f"{SCHEMAS}:schemas:core:2.0:User"], "userName": "ada"}
        self._send("post", "/scim/v2/Users", body | {"externalId": "e-1"})

    def switch(self, *, active: bool) -> None:
        person = ScimUser.objects.get(account=self._office.account)
        body = {
            "schemas": [f"{SCHEMAS}:api:messages:2.0:PatchOp"],
            "Operations": [{"op": "replace", "path": "active", "value": active}],
        }
        self._send("patch", f"/scim/v2/Users/{person.pk}", body)

    def _send(self, method: str, path: str, body: Any) -> None:
        send = getattr(self._client, method)
        answer = send(path, dumps(body), content_type="application/scim+json")
        assert answer.status_code in (200, 201), answer.content


def never_came(provider: Provider, directory: Directory) -> None:
    directory.bring()


def came(provider: Provider, directory: Directory) -> None:
    assert sign_in(Client(), provider).status_code == 302


def was_taken_out_by_claims(provider: Provider, directory: Directory) -> None:
    """Whom claims that give the account again would bring back."""
    came(provider, directory)
    provider.claims["groups"] = []
    provider.restart()
    assert sign_in(Client(), provider).status_code == 403
    provider.claims["groups"] = ["research"]
    provider.restart()


@pytest.mark.parametrize("happened", [never_came, came, was_taken_out_by_claims])
def test_nobody_comes_in_whom_the_directory_switched_off(
    provider: Provider, office: Office, happened: Callable[[Provider, Directory], None]
) -> None:
    directory = Directory(office)
    happened(provider, directory)
    person = ScimUser.objects.get(account=office.account)

    directory.switch(active=False)

    client = Client()
    assert sign_in(client, provider).status_code == 403
    assert last_reason() == "the account's directory has switched the person off"
    # Nor does another account that the claims name beside it bring the person in.
    other = open_account(name="globex")
    ClaimMapping.objects.create(value="research", account=other, role="org:admin")
    assert sign_in(client, provider).status_code == 403
    if person.user.identities.exists():
        # Nor one that they name alone, where the person is known by more than a name.
        ClaimMapping.objects.filter(account=office.account).delete()
        assert sign_in(client, provider).status_code == 403
        assert last_reason() == "the person is switched off"
    assert not is_in(client)
    assert not Membership.objects.filter(user=person.user).exists()
    assert not ScimUser.objects.filter(active=True).exists()
    # Nor is there anybody new.
    assert User.objects.filter(is_active=True).get() == office.admin

    ClaimMapping.objects.get_or_create(value="research", account=office.account)
    directory.switch(active=True)
    assert sign_in(client, provider).status_code == 302
    assert client.session["_auth_user_id"] == str(person.user_id)


def test_who_came_in_elsewhere_stays_out_where_the_directory_switched_them_off(
    provider: Provider, office: Office, settings: Any
) -> None:
    """Each account's directory says who is in that account: another one is another's to give."""
    directory, other = Directory(office), open_account(name="globex")
    directory.bring()
    directory.switch(active=False)
    there = ClaimMapping.objects.get()
    ClaimMapping.objects.update(account=other)
    provider.claims |= {"preferred_username": "ada.l", "oid": "e-1"}
    provider.restart()
    (plain,) = settings.OIDC_PROVIDERS
    settings.OIDC_PROVIDERS = (replace(plain, external_id_claim="oid"),)
    client = Client()
    assert sign_in(client, provider).status_code == 302
    person = User.objects.get(pk=client.session["_auth_user_id"])

    ClaimMapping.objects.create(value="research", account=there.account)

    assert sign_in(Client(), provider).status_code == 302
    accounts = Membership.objects.filter(user=person).values_list("account__name", flat=True)
    assert list(accounts) == ["globex"]
