"""A person's own password: who changes it, what proves it, and what ends with it."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from celery.exceptions import Retry
from django.core import mail
from django.core.cache import cache
from django.test import Client
from django.urls import reverse
from kombu import Connection

from accounts.models import AuditRecord, Membership, PersonIdentity, SignInAttempts, User
from accounts.services.organization import admit_member, open_account
from accounts.sign_in import BOUNDS
from console import tasks
from console.sign_in_links import build_link_path
from console.tasks import mail_link
from console.views import sign_in
from gateway.celery import app as celery
from gateway.environment.sign_in import OidcProvider
from gateway.limits.limits import MINUTE_S
from tests.console.people import BACKEND
from tests.support.windows import within_one

pytestmark = [pytest.mark.django_db, pytest.mark.both]
PASSWORD, NEW = "correct horse", "battery staple"
FORM = {"old": PASSWORD, "new": NEW, "again": NEW}


@pytest.fixture
def person() -> User:
    return User.objects.create_user(username="ada", password=PASSWORD)


def browser(password: str = PASSWORD) -> Client:
    client = Client(headers={"Accept": "text/html", "User-Agent": "Browser/1"})
    client.post(reverse("account_login"), {"login": "ada", "password": password})
    return client


def is_in(client: Client) -> bool:
    return client.get(reverse("mfa_index")).status_code == 200


def change(client: Client, **fields: str) -> Any:
    return client.post(reverse("change_password"), FORM | fields)


def test_a_new_password_ends_all_other_sessions_and_is_on_record(person: User) -> None:
    here, elsewhere = browser(), browser()
    link = build_link_path(person)
    assert reverse("change_password") in here.get(reverse("mfa_index")).text

    done = change(here)

    assert (done.status_code, done["Location"]) == (302, reverse("mfa_index"))
    page = here.get(reverse("mfa_index")).text
    assert ("Your password is changed" in page, page.count("Browser/1")) == (True, 1)
    assert not is_in(elsewhere)
    assert Client().post(link).status_code == 410
    assert [is_in(browser(each)) for each in (PASSWORD, NEW)] == [False, True]
    record = AuditRecord.objects.get(action="password changed")
    assert (record.object_type, record.object_id) == ("sign_in", str(person.pk))
    assert (record.operator, (record.after or {})["agent"]) == (person, "Browser/1")


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"old": "wrong"}, "This is not it"),
        ({"again": "battery stable"}, "This is another one"),
        ({"new": "short", "again": "short"}, "This password is too short"),
        ({"new": "password1", "again": "password1"}, "This password is too common"),
        ({"new": "Gateway-Ada-26", "again": "Gateway-Ada-26"}, "characters have to be left"),
        ({"new": "Acme-Anvil-2026", "again": "Acme-Anvil-2026"}, "characters have to be left"),
    ],
)
def test_what_is_no_new_password_is_said(
    person: User, settings: Any, fields: Any, text: str
) -> None:
    settings.PASSWORD_WORDS = ["Anvil"]
    admit_member(account=open_account(name="Acme Ltd"), username="ada", role=Membership.Role.MEMBER)
    client = browser()

    refused = change(client, **fields)

    assert (refused.status_code, text in refused.text) == (400, True)
    assert is_in(browser())
    failed = AuditRecord.objects.filter(action="failed", object_id=str(person.pk))
    assert failed.exists() == ("old" in fields)


def test_guesses_at_the_old_one_are_bounded(person: User, settings: Any) -> None:
    client = browser()
    for _ in range(BOUNDS["pair"].tries):
        assert change(client, old="wrong").status_code == 400
    SignInAttempts.objects.update(blocked_until=datetime.now(UTC) + timedelta(hours=1))
    assert change(client).status_code == 400
    SignInAttempts.objects.all().delete()
    settings.RATE_SIGN_INS = 2

    def work() -> None:
        # Of an address that runs share with nobody.
        from secrets import randbelow

        place: Any = {"REMOTE_ADDR": f"198.18.{randbelow(256)}.{randbelow(256)}"}
        path = reverse("change_password")
        answers = [client.post(path, FORM | {"old": "wrong"}, **place) for _ in range(3)]
        assert [each.status_code for each in answers] == [400, 400, 429]
        foreign = client.post(path, FORM, headers={"Sec-Fetch-Site": "cross-site"}, **place)
        assert foreign.status_code == 403

    within_one(MINUTE_S, work)


def test_who_came_by_a_link_chooses_a_first_one(person: User) -> None:
    person.set_unusable_password()
    person.save()
    client = Client()
    client.post(build_link_path(person))

    assert "Choose a password" in client.get(reverse("change_password")).text
    assert client.post(reverse("change_password"), {"new": NEW, "again": NEW}).status_code == 302

    assert is_in(browser(NEW))


@pytest.mark.parametrize("is_known", [False, True])
def test_whom_a_provider_lets_in_gets_none(person: User, settings: Any, is_known: bool) -> None:
    client = Client()
    client.force_login(person, backend=BACKEND)
    path = reverse("change_password")
    if is_known:
        person.set_unusable_password()
        PersonIdentity.objects.create(user=person, issuer="https://id.test", subject="s-1")
    else:
        person.email = "ada@acme.test"
        settings.OIDC_PROVIDERS = (
            OidcProvider("acme", "Acme", "https://id.test", "gateway", "x", ("acme.test",)),
        )
    person.save()
    client.force_login(person, backend=BACKEND)
    assert (client.get(path).status_code, client.post(path, FORM).status_code) == (404, 404)
    assert path not in client.get(reverse("mfa_index")).text

    # An operator comes in while the provider is away.
    User.objects.update(is_staff=True)
    assert client.get(path).status_code == 200
    assert client.get(reverse("admin:password_change"))["Location"] == path


def test_who_sets_it_for_somebody_is_on_record(person: User) -> None:
    operator = User.objects.create_superuser("op")
    client, theirs = Client(), browser()
    client.force_login(operator, backend=BACKEND)
    path = reverse("admin:auth_user_password_change", args=[person.pk])
    form = {"password1": NEW, "password2": NEW, "usable_password": "true"}

    weak = form | {"password1": "gateway-ada", "password2": "gateway-ada"}
    assert client.post(path, weak).status_code == 200
    assert not AuditRecord.objects.filter(action="password set").exists()
    assert client.post(path, form).status_code == 302

    record = AuditRecord.objects.get(action="password set")
    assert (record.operator, record.object_id) == (operator, str(person.pk))
    assert (is_in(theirs), is_in(browser(NEW))) == (False, True)


@pytest.fixture
def mailed_user(person: User, settings: Any) -> User:
    """A person whose address is confirmed, at a gateway that sends mail."""
    settings.EMAIL_CONFIRMATION, settings.PUBLIC_URL = True, "https://gateway.test"
    settings.EMAIL_BACKEND = "django.core.mail.backends.locmem.EmailBackend"
    person.email = person.confirmed_email = "Ada@acme.test"
    person.save()
    return person


def test_who_forgot_the_password_has_a_link_mailed_and_chooses_another(
    mailed_user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def note(name: str) -> bool:
        asked.append(name)
        return True

    # What the page does before a worker is asked.
    monkeypatch.setattr(sign_in, "have_link_mailed", note)
    path = reverse("forgotten_password")
    assert path in Client(headers={"Accept": "text/html"}).get("/console/sign-in").text
    pages = [Client().post(path, {"name": name}).text for name in ("ADA@acme.test", "nobody")]
    # Who is here is told to nobody, but for the form's own token.
    assert pages[0] == pages[1]
    assert "If somebody here has this name" in pages[0]

    # The second within minutes sends nothing more.
    assert [mail_link(name) for name in (*asked, "ada")] == [1, 0, 0]

    (message,) = mail.outbox
    assert message.to == ["Ada@acme.test"]
    (link,) = re.findall(r"https://gateway.test(/\S+)", str(message.body))
    client = Client(headers={"Accept": "text/html"})
    assert "Choose a password" in client.post(link, follow=True).text
    assert change(client, old="").status_code == 302
    assert [is_in(browser(each)) for each in (PASSWORD, NEW)] == [False, True]
    records = AuditRecord.objects.filter(object_type="sign_in").order_by("pk")
    actions = [each for each in records.values_list("action", flat=True) if "link" in each]
    assert actions == ["link asked for", "link mailed"]


def test_a_link_of_before_proves_nothing(mailed_user: User) -> None:
    client = Client()
    client.post(build_link_path(mailed_user))
    session = client.session
    session["account_authentication_methods"][0]["at"] -= 601
    session.save()

    assert change(client, old="").status_code == 400


@pytest.mark.parametrize(
    "changes",
    [
        {"confirmed_email": ""},
        # As the account's directory may say.
        {"email": "eve@acme.test"},
        {"is_active": False},
        {"is_staff": True},
        {"email": "", "confirmed_email": ""},
    ],
)
def test_links_go_to_addresses_alone_that_their_people_have_confirmed(
    mailed_user: User, changes: Any
) -> None:
    User.objects.update(**changes)

    assert [mail_link(name) for name in ("ada", "eve@acme.test", "ada@acme.test")] == [0, 0, 0]


def test_a_mail_server_that_is_away_is_asked_again_a_minute_later(
    mailed_user: User, settings: Any
) -> None:
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", 1
    assert mail_link("ada") == 0
    settings.EMAIL_BACKEND = "django.core.mail.backends.locmem.EmailBackend"
    assert mail_link("ada") == 0
    cache.set(f"link:{mailed_user.pk}", 1, 0)
    assert mail_link("ada") == 1


def test_one_thread_mails_links_at_a_time(mailed_user: User) -> None:
    with tasks._mailer, pytest.raises(Retry):
        mail_link.apply(("ada",), throw=True)
    assert mail.outbox == []
    assert mail_link("ada") == 1


def test_a_mailed_link_ends_with_the_address_and_where_a_provider_lets_people_in(
    mailed_user: User, settings: Any
) -> None:
    link = build_link_path(mailed_user)
    User.objects.update(email="ada@new.test", confirmed_email="ada@new.test")
    assert Client().post(link).status_code == 410

    mailed_user.refresh_from_db()
    link = build_link_path(mailed_user)
    provider = OidcProvider("new", "New", "https://id.test", "gateway", "x", ("new.test",))
    settings.OIDC_PROVIDERS = (provider,)
    assert Client().post(link).status_code == 410
    # One that an operator makes from then on is for whom the provider does not let in.
    assert Client().post(build_link_path(mailed_user)).status_code == 302


def test_a_worker_is_told_and_a_queue_that_is_away_is_said(
    mailed_user: User, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask(broker_url: str) -> int:
        # A broker of this test alone, there or away.
        monkeypatch.setattr(celery, "connection_for_write", lambda: Connection(broker_url))
        return Client().post(reverse("forgotten_password"), {"name": " ada "}).status_code

    assert [ask(url) for url in ("memory://", "redis://127.0.0.1:1")] == [200, 503]

    with Connection("memory://") as connection:
        message = connection.SimpleQueue(settings.EVENT_QUEUE).get_nowait()
        # All tests of this process share what such a queue holds.
        message.ack()
    assert message.headers["task"] == mail_link.name
    assert message.payload[0] == ["ada"]
    settings.EMAIL_CONFIRMATION = False
    assert Client().get(reverse("forgotten_password")).status_code == 404
