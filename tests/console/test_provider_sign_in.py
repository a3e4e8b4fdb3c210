"""Signing in at an identity provider, a real one over loopback, and answers that sign nobody in."""

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import requests
from django.contrib.sessions.models import Session
from django.core import mail
from django.db import DEFAULT_DB_ALIAS, connections, transaction
from django.test import Client, RequestFactory

from accounts.identity.issuers import Issuer, TokenRefused, fetch_json, verify
from accounts.models import (
    AuditRecord,
    ClaimMapping,
    DeletedScimUser,
    Membership,
    PersonIdentity,
    ScimGroup,
    ScimUser,
    SignInAttempts,
    User,
    WorkspaceMembership,
)
from accounts.services.directory.groups import create_mapping, lock_account, save_group
from accounts.services.directory.users import change_user, create_user, delete_user
from accounts.services.keys import create_key
from accounts.services.organization import admit_member, open_account, open_workspace
from accounts.services.records import SYSTEM
from accounts.sign_in import count_answer, count_try
from tests.support.identity_provider import Provider, begin_sign_in, sign_in
from tests.support.issuer import Issuer as TokenIssuer

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


def is_in(client: Client) -> bool:
    return "_auth_user_id" in client.session


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


def last_reason() -> str:
    record = AuditRecord.objects.filter(object_type="sign_in", action="failed").latest("pk")
    assert record.after
    return str(record.after["reason"])


def test_a_new_person_comes_in_with_account_workspace_and_role(
    provider: Provider, account: Any
) -> None:
    workspace = open_workspace(account=account, slug="lab")
    ClaimMapping.objects.all().delete()
    ClaimMapping.objects.create(
        value="research", account=account, role="org:admin", workspace=workspace,
        workspace_role="admin",
    )  # fmt: skip
    client = Client()

    came = sign_in(client, provider)

    assert came.status_code == 302, last_reason()
    assert came["Location"] == "/console/keys"
    user = User.objects.get(username="ada")
    assert (user.email, user.first_name, user.is_staff) == ("ada@acme.test", "Ada", False)
    assert Membership.objects.get(account=account, user=user).role == "org:admin"
    assert WorkspaceMembership.objects.get(membership__user=user).role == "admin"
    record = AuditRecord.objects.get(object_type="sign_in", action="signed in")
    assert record.after
    assert record.after["methods"] == ["oidc"]
    # The next time it is the same person, whatever the provider calls it now.
    again = Client()
    provider.claims["preferred_username"] = "ada.l"
    provider.restart()
    sign_in(again, provider)
    assert again.session["_auth_user_id"] == client.session["_auth_user_id"]


def test_whose_address_the_provider_has_proved_confirms_it_to_nobody(
    provider: Provider, account: Any, settings: Any
) -> None:
    settings.EMAIL_CONFIRMATION = True
    client = Client()
    sign_in(client, provider)
    assert is_in(client)
    User.objects.update(confirmed_email="")
    del provider.claims["email_verified"]
    provider.restart()

    other = Client()
    for _ in range(2):
        assert "Look into your mail" in sign_in(other, provider).text
    assert (is_in(other), [each.to for each in mail.outbox]) == (False, [["ada@acme.test"]])


def test_whom_no_mapping_fits_does_not_exist_here(provider: Provider) -> None:
    client = Client()

    refused = sign_in(client, provider)

    assert (refused.status_code, is_in(client)) == (403, False)
    assert last_reason() == "no mapping fits the person's claims"
    assert not User.objects.exists()


def test_an_expired_token_is_refused(provider: Provider, account: Any) -> None:
    provider.restart(lifetime=timedelta(seconds=-120))
    client = Client()

    assert sign_in(client, provider).status_code == 403
    assert (is_in(client), "expired" in last_reason()) == (False, True)


def test_a_token_for_another_sign_in_is_refused(provider: Provider, account: Any) -> None:
    client = Client()

    client.get(provider.agree(begin_sign_in(client), nonce="of-somebody-else"))

    assert (is_in(client), last_reason()) == (False, "the token was made for another sign-in")


def test_a_code_of_another_client_is_refused(provider: Provider, account: Any) -> None:
    client = Client()

    client.get(provider.agree(begin_sign_in(client), client_id="another"))

    assert (is_in(client), "code for none" in last_reason()) == (False, True)


def test_a_state_is_good_once_and_in_its_own_browser(provider: Provider, account: Any) -> None:
    client, other = Client(), Client()
    back = provider.agree(begin_sign_in(client))
    assert other.get(back).status_code == 403
    assert client.get(back).status_code == 302
    client.post("/console/sign-out")

    assert client.get(back).status_code == 403
    assert (is_in(client), "state" in last_reason()) == (False, True)


def test_who_only_begins_leaves_nothing_here(provider: Provider, account: Any) -> None:
    for _ in range(3):
        assert Client().get("/console/sign-in/at/acme").status_code == 302

    assert not Session.objects.exists()
    assert not SignInAttempts.objects.exists()


def test_a_browser_keeps_five_beginnings_and_the_answered_one_no_longer(
    provider: Provider, account: Any
) -> None:
    client = Client()
    urls = [begin_sign_in(client) for _ in range(7)]

    def list_begun() -> list[str]:
        return [name for name, each in client.cookies.items() if "begun" in name and each.value]

    assert len(list_begun()) == 5
    cookie = client.cookies[list_begun()[-1]]
    flags = cookie["httponly"], cookie["samesite"], cookie["path"], cookie["max-age"]
    assert flags == (True, "Lax", "/console/sign-in/at/", 600)
    assert client.get(provider.agree(urls[-1])).status_code == 302
    assert len(list_begun()) == 4


def test_beginnings_of_long_addresses_fit_into_one_header(provider: Provider) -> None:
    client = Client()
    for _ in range(6):
        begin_sign_in(client, "/console/" + "%C3%BC" * 150)

    sent = [f"{name}={each.coded_value}" for name, each in client.cookies.items() if each.value]
    assert len(sent) == 5
    assert len("; ".join(sent)) < 8190 - 1000


def test_a_cookie_whose_name_is_none_of_ours_is_in_nobodys_way(
    provider: Provider, account: Any
) -> None:
    client = Client()
    back = provider.agree(begin_sign_in(client))
    (name,) = client.cookies
    odd = f"oidc-begun-[1]-{name[-12:]}"
    there = "; ".join([f"{name}={client.cookies[name].value}", *[f"{odd}{n}=x" for n in range(6)]])
    headers = {"Cookie": f"{odd}=x; {there}"}

    assert Client().get("/console/sign-in/at/acme", headers=headers).status_code == 302
    assert client.get(back, headers=headers).status_code == 302


def test_a_copied_cookie_lets_nobody_in_by_the_same_answer(
    provider: Provider, account: Any
) -> None:
    client, other = Client(), Client()
    back = provider.agree(begin_sign_in(client))
    for name, cookie in client.cookies.items():
        other.cookies[name] = cookie.value
    assert client.get(back).status_code == 302

    assert other.get(back).status_code == 403
    assert (is_in(other), last_reason()) == (False, "the state was used")


def test_a_cookie_of_another_state_or_provider_is_none(
    provider: Provider, account: Any, settings: Any
) -> None:
    client = Client()
    first, second = (provider.agree(begin_sign_in(client)) for _ in range(2))
    names = [name for name in client.cookies if "begun" in name]
    # What was sealed for one state under the name of the other's.
    values = [client.cookies[name].value for name in names]
    for name, value in zip(names, reversed(values), strict=True):
        client.cookies[name] = value

    assert {client.get(each).status_code for each in (first, second)} == {403}
    (acme,) = settings.OIDC_PROVIDERS
    settings.OIDC_PROVIDERS = (acme, replace(acme, id="other"))
    other = Client()
    back = provider.agree(begin_sign_in(other)).replace("/at/acme/", "/at/other/")
    assert other.get(back).status_code == 403
    assert (is_in(client), is_in(other)) == (False, False)


def test_rotated_keys_are_found_and_keys_of_nobody_are_not(
    provider: Provider, account: Any
) -> None:
    issuer = Issuer(provider.issuer, ask_again_s=0)

    def make_token() -> str:
        back = provider.agree(begin_sign_in(Client()))
        form = {
            "grant_type": "authorization_code",
            "client_id": "gateway",
            "client_secret": "secret",
            "code": parse_qs(urlsplit(back).query)["code"][0],
            "redirect_uri": "http://testserver/console/sign-in/at/acme/back",
        }
        return str(
            requests.post(f"{provider.issuer}/oauth2/token", form, timeout=10).json()["id_token"]
        )

    before = make_token()
    assert verify(before, issuer, audience="gateway")["sub"] == "s-1"
    provider.restart()
    after = make_token()

    assert verify(after, issuer, audience="gateway")["sub"] == "s-1"
    with pytest.raises(TokenRefused):
        verify(before, issuer, audience="gateway")
    with pytest.raises(TokenRefused, match="Audience"):
        verify(after, issuer, audience="another")
    provider.stop()
    # Its keys stay good while it is away.
    assert verify(after, issuer, audience="gateway")["sub"] == "s-1"


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


def count_tries() -> list[int]:
    rows = SignInAttempts.objects.filter(count__gt=0)
    return list(rows.order_by("count").values_list("count", flat=True))


def test_answers_to_nothing_that_was_begun_keep_nobody_out(
    provider: Provider, account: Any
) -> None:
    User.objects.create_superuser("root", password=PASSWORD)
    path = "/console/sign-in/at/acme/back?state=guessed&code=guessed"
    answers = [Client().get(path) for _ in range(32)]

    assert {each.status_code for each in answers} == {403}
    assert AuditRecord.objects.filter(object_type="sign_in", action="failed").count() <= 31
    # Nobody began here, so that there is nothing to keep either.
    assert not Session.objects.exists()
    by_password, by_provider = Client(), Client()
    by_password.post("/console/sign-in", {"login": "root", "password": PASSWORD})
    sign_in(by_provider, provider)
    assert (is_in(by_password), is_in(by_provider)) == (True, True)


def test_answers_that_let_nobody_in_are_bounded_apart_from_passwords(
    provider: Provider, account: Any
) -> None:
    User.objects.create_superuser("root", password=PASSWORD)
    for _ in range(30):
        assert count_answer(RequestFactory().get("/"))
    client, by_password = Client(), Client()

    assert sign_in(client, provider).status_code == 429

    assert not is_in(client)
    by_password.post("/console/sign-in", {"login": "root", "password": PASSWORD})
    assert is_in(by_password)


def test_neither_good_answers_nor_silent_providers_take_tries(
    provider: Provider, account: Any
) -> None:
    # Somebody at the address guesses a password, which no colleague's answer forgives.
    assert count_try(name="root", address="127.0.0.1", now=datetime.now(UTC))
    before = count_tries()

    assert sign_in(Client(), provider).status_code == 302

    assert count_tries() == before
    client = Client()
    back = provider.agree(begin_sign_in(client))
    provider.stop()
    assert client.get(back).status_code == 503
    assert count_tries() == before


def test_no_connection_is_held_while_the_provider_is_asked(settings: Any) -> None:
    held: list[bool] = []
    settings.IDENTITY_PRIVATE_HOSTS = ("127.0.0.1",)

    class Watching(TokenIssuer):
        def answer(self, path: str) -> dict[str, Any]:
            held.append(here.connection is not None)
            return super().answer(path)

    User.objects.exists()
    # The wrapper of this thread, which the server's thread only looks at.
    here = connections[DEFAULT_DB_ALIAS]
    issuer = Watching()

    fetch_json(f"{issuer.url}/keys")

    issuer.stop()
    # A file is no server: SQLite's connections are nobody else's.
    assert held == [here.vendor == "sqlite"]


def test_who_left_the_directory_is_out_at_once(provider: Provider, account: Any) -> None:
    client = Client()
    sign_in(client, provider)
    person = ScimUser.objects.get(account=account)
    key, _ = create_key(
        account=account,
        name="k",
        workspace=account.workspaces.get(),
        creator=person.user,
    )
    with transaction.atomic():
        lock_account(account.pk)
        change_user(row=person, fields={"active": False}, by=SYSTEM)

    assert client.get("/console/keys")["Location"].startswith("/?next=")
    key.refresh_from_db()
    assert key.disabled
    assert sign_in(Client(), provider).status_code == 403
    assert not ScimUser.objects.filter(active=True).exists()


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


def test_whom_a_directory_deleted_is_nobody_new(
    provider: Provider, account: Any, admin_client: Client
) -> None:
    delete(bring(account, "ada"))

    assert sign_in(Client(), provider).status_code == 403
    row = DeletedScimUser.objects.get()
    page = f"/admin/accounts/deletedscimuser/{row.pk}/delete/"
    assert admin_client.post(page, {"post": "yes"}).status_code == 302
    assert sign_in(Client(), provider).status_code == 302


def test_an_operator_lets_somebody_come_again_who_had_come_before(
    provider: Provider, account: Any, admin_client: Client
) -> None:
    sign_in(Client(), provider)
    ScimUser.objects.update(has_own_user=True)
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


def test_a_domain_signs_in_at_its_provider_only_and_operators_by_password(
    provider: Provider, account: Any
) -> None:
    User.objects.create_user("bob", "bob@acme.test", PASSWORD)
    User.objects.create_superuser("root", "root@acme.test", PASSWORD)
    people = {name: Client() for name in ("bob", "root")}
    answers = {
        name: client.post("/console/sign-in", {"login": name, "password": PASSWORD})
        for name, client in people.items()
    }

    assert {name: is_in(client) for name, client in people.items()} == {"bob": False, "root": True}
    assert "/console/sign-in/at/acme" in answers["bob"].text
    assert last_reason() == "signs in at acme only"
    assert "Acme" in Client().get("/console/sign-in").text


def test_a_domain_signs_in_at_no_other_provider_either(
    provider: Provider, account: Any, settings: Any
) -> None:
    (acme,) = settings.OIDC_PROVIDERS
    settings.OIDC_PROVIDERS = (acme, replace(acme, id="other", domains=()))

    def come_by_other() -> Client:
        client = Client()
        client.get(provider.agree(client.get("/console/sign-in/at/other")["Location"]))
        return client

    # A mapping that names no provider is of the first one.
    assert not is_in(come_by_other())
    assert last_reason() == "no mapping fits the person's claims"
    ClaimMapping.objects.create(value="research", account=account, provider="other")
    assert not is_in(come_by_other())
    assert last_reason() == "signs in at acme only"
    assert sign_in(Client(), provider).status_code == 302


def test_signing_out_offers_to_sign_out_there_too(provider: Provider, account: Any) -> None:
    client = Client()
    sign_in(client, provider)

    left = client.post("/console/sign-out")

    (url,) = re.findall(r'href="(http://localhost[^"]+)"', left.text)
    assert "id_token_hint=" in url
    assert not is_in(client)


def test_a_provider_that_is_gone_is_said_on_the_page(provider: Provider, account: Any) -> None:
    provider.stop()

    answer = Client().get("/console/sign-in/at/acme")

    assert (answer.status_code, "does not answer" in answer.text) == (503, True)
    assert PersonIdentity.objects.count() == 0
