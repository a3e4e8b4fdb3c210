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
from django.test import Client, RequestFactory

from accounts.identity.issuers import Issuer, TokenRefused, verify
from accounts.models import (
    AuditRecord,
    ClaimMapping,
    Membership,
    PersonIdentity,
    SignInAttempts,
    User,
    WorkspaceMembership,
)
from accounts.services.organization import open_account, open_workspace
from accounts.sign_in import count_answer, count_try
from tests.support.identity_provider import (
    CLAIMS,
    Provider,
    begin_sign_in,
    is_in,
    last_reason,
    sign_in,
)

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


@pytest.mark.parametrize(
    ("lifetime", "asked", "reason"),
    [
        (timedelta(seconds=-120), {}, "expired"),
        (None, {"nonce": "of-somebody-else"}, "the token was made for another sign-in"),
        (None, {"client_id": "another"}, "code for none"),
    ],
)
def test_an_answer_of_another_time_sign_in_or_client_is_refused(
    provider: Provider, account: Any, lifetime: timedelta | None, asked: Any, reason: str
) -> None:
    if lifetime is not None:
        provider.restart(lifetime=lifetime)
    client = Client()

    refused = client.get(provider.agree(begin_sign_in(client), **asked))

    assert (refused.status_code, is_in(client)) == (403, False)
    assert reason in last_reason()


@pytest.mark.parametrize(
    ("asked", "weak", "strong"),
    [
        ({"acr_values": ("phr", "phrh")}, {"acr": "pwd"}, {"acr": "phrh"}),
        ({"amr_values": ("mfa", "hwk")}, {"amr": ["pwd"]}, {"amr": ["pwd", "mfa"]}),
        ({"amr_values": ("mfa",)}, {}, {"amr": ["mfa"]}),
        ({"max_age_s": 60}, {"auth_time": 1_000_000_000}, {"auth_time": 2**32}),
    ],
)
def test_who_proved_less_at_the_provider_than_is_asked_for_is_refused(
    provider: Provider, account: Any, settings: Any, asked: Any, weak: Any, strong: Any
) -> None:
    for claims, comes_in in ((weak, False), (strong, True)):
        provider.claims = CLAIMS | claims
        provider.restart()
        (plain,) = settings.OIDC_PROVIDERS
        settings.OIDC_PROVIDERS = (replace(plain, **asked),)
        client = Client()

        query = parse_qs(urlsplit(begin_sign_in(client)).query)
        sign_in(client, provider)

        assert is_in(client) == comes_in
        assert query.get("max_age", ["60"]) == ["60"]
        assert query.get("acr_values", ["phr phrh"]) == ["phr phrh"]


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


@pytest.mark.parametrize("prefix", ["", "__Host-"])
def test_a_browser_keeps_five_beginnings_and_the_answered_one_no_longer(
    provider: Provider, account: Any, settings: Any, prefix: str
) -> None:
    settings.COOKIE_PREFIX = prefix
    client = Client()
    urls = [begin_sign_in(client) for _ in range(7)]

    def list_begun() -> list[str]:
        cookies = client.cookies.items()
        return [name for name, each in cookies if name.startswith(f"{prefix}oidc-") and each.value]

    assert len(list_begun()) == 5
    cookie = client.cookies[list_begun()[-1]]
    flags = cookie["httponly"], cookie["samesite"], cookie["path"], cookie["max-age"]
    assert flags == (True, "Lax", "/", 600)
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
