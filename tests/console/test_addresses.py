"""E-mail addresses that people confirm by a link before they come in."""

import re
import time
from typing import Any

import pytest
from django.core import mail, signing
from django.test import Client

from accounts.models import AuditRecord, SignInAttempts, User
from accounts.people.addresses import LIFETIME_S, SALT, build_token, trust_provider
from accounts.people.oidc import Identity
from accounts.sign_in import BOUNDS
from console.sign_in_links import build_link_path
from gateway.environment.sign_in import OidcProvider

pytestmark = [pytest.mark.django_db, pytest.mark.both]
PASSWORD = "correct horse"
ADDRESS = "Ada@acme.test"
PROVIDER = OidcProvider("acme", "Acme", "https://id.acme.test", "gateway", "secret")


@pytest.fixture
def ada(settings: Any) -> User:
    settings.EMAIL_CONFIRMATION, settings.PUBLIC_URL = True, "https://gateway.test"
    settings.EMAIL_BACKEND = "django.core.mail.backends.locmem.EmailBackend"
    return User.objects.create_user("ada", ADDRESS, PASSWORD)


def sign_in(name: str = "ada") -> tuple[Client, Any]:
    client = Client(headers={"Accept": "text/html"})
    return client, client.post("/console/sign-in", {"login": name, "password": PASSWORD})


def is_in(client: Client) -> bool:
    return "_auth_user_id" in client.session


def find_link() -> str:
    (found,) = re.findall(r"https://gateway.test(/\S+)", str(mail.outbox[-1].body))
    return str(found)


def test_who_has_an_address_comes_in_once_it_is_confirmed(ada: User) -> None:
    client, answer = sign_in()
    assert (is_in(client), "Look into your mail" in answer.text) == (False, True)
    assert [each.to for each in mail.outbox] == [[ADDRESS]]
    # A second try within minutes sends nothing more, and nothing stays open half way.
    _, again = sign_in()
    assert ("Look into your mail" in again.text, len(mail.outbox)) == (True, 1)
    assert client.get("/console/keys")["Location"].startswith("/?next=")
    link, stranger = find_link(), Client()

    # Mail programs look ahead, which confirms nothing.
    assert "Is this your address?" in stranger.get(link).text
    assert not is_in(sign_in()[0])
    assert "is confirmed" in stranger.post(link).text

    assert not is_in(stranger)
    assert is_in(sign_in()[0])
    assert stranger.post(link).status_code == 410
    actions = AuditRecord.objects.filter(object_type="sign_in", object_id=str(ada.pk))
    assert list(actions.order_by("pk").values_list("action", flat=True)) == [
        "failed", "failed", "failed", "address confirmed", "signed in",
    ]  # fmt: skip


def test_right_passwords_are_no_guesses_while_the_address_is_not_confirmed(ada: User) -> None:
    wrong = {"login": "bob", "password": "wrong"}
    Client().post("/console/sign-in", wrong)

    for _ in range(BOUNDS["pair"].tries + 1):
        assert "Look into your mail" in sign_in()[1].text

    # Those of somebody else there stay: by the user, by the address, and by both.
    counts = SignInAttempts.objects.filter(count__gt=0).values_list("count", flat=True)
    assert list(counts) == [1, 1, 1]


def test_a_link_that_signs_in_waits_until_the_address_is_confirmed(ada: User) -> None:
    client, path = Client(), build_link_path(ada)
    assert "Look into your mail" in client.post(path).text
    assert not is_in(client)
    client.post(find_link())

    client.post(path)

    assert is_in(client)


def test_a_link_is_for_one_address_and_a_day(ada: User) -> None:
    class EarlierSigner(signing.TimestampSigner):
        def timestamp(self) -> str:
            return signing.b62_encode(int(time.time()) - LIFETIME_S - 5)

    of_before = build_token(ada)
    ada.email = "ada@new.test"
    ada.save()
    late = EarlierSigner(salt=SALT).sign_object([ada.public_id, ada.email])

    for token in (of_before, build_token(ada)[:-1], late):
        assert Client().post(f"/console/sign-in/address/{token}").status_code == 410
    ada.refresh_from_db()
    assert ada.confirmed_email == ""


def test_a_changed_address_is_confirmed_anew(ada: User) -> None:
    User.objects.filter(pk=ada.pk).update(confirmed_email=ADDRESS)
    assert is_in(sign_in()[0])

    User.objects.filter(pk=ada.pk).update(email="ada@new.test")

    assert not is_in(sign_in()[0])
    assert mail.outbox[-1].to == ["ada@new.test"]


def test_operators_and_people_without_an_address_are_not_asked(ada: User) -> None:
    User.objects.create_superuser("root", "root@acme.test", PASSWORD)
    User.objects.create_user("bob", "", PASSWORD)

    assert [is_in(sign_in(name)[0]) for name in ("root", "bob")] == [True, True]
    assert mail.outbox == []


def test_nobody_is_asked_unless_the_setting_says_so(ada: User, settings: Any) -> None:
    settings.EMAIL_CONFIRMATION = False

    assert is_in(sign_in()[0])


def test_a_mail_server_that_is_away_is_said_and_asked_again(ada: User, settings: Any) -> None:
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", 1
    client, answer = sign_in()
    assert (answer.status_code, is_in(client)) == (503, False)
    settings.EMAIL_BACKEND = "django.core.mail.backends.locmem.EmailBackend"

    sign_in()

    assert len(mail.outbox) == 1


@pytest.mark.parametrize(
    ("claims", "is_trusted"),
    [
        ({"email": "ada@acme.test", "email_verified": True}, True),
        ({"email": "ada@acme.test", "email_verified": "true"}, True),
        ({"email": "ada@acme.test"}, False),
        ({"email": "ada@acme.test", "email_verified": False}, False),
        ({"email": "eve@acme.test", "email_verified": True}, False),
        ({"email_verified": True}, False),
    ],
)
def test_an_address_that_a_provider_has_proved_is_confirmed(
    ada: User, claims: dict[str, Any], is_trusted: bool
) -> None:
    trust_provider(ada, Identity(PROVIDER, "s-1", claims, "token"))

    client, _ = sign_in()
    assert is_in(client) is is_trusted
