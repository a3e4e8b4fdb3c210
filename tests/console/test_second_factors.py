"""Second factors, who must have one, and where somebody is signed in."""

import io
import json
import re
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from allauth.mfa.totp.internal.auth import format_hotp_value, hotp_value
from allauth.usersessions.models import UserSession
from django.contrib.sessions.models import Session
from django.core.cache import cache
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse

from accounts.models import AuditRecord, Membership, User
from accounts.services.attempts import forget_attempts
from accounts.services.organization import admit_member, open_account
from accounts.tasks import delete_old_sessions
from console.sign_in_links import build_link_path
from gateway.environment.sign_in import SESSION_HOURS

pytestmark = [pytest.mark.django_db, pytest.mark.both]
PASSWORD = "correct horse"
AGENT = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"


@pytest.fixture
def person() -> User:
    # Somebody of another test may have had the number.
    forget_attempts()
    return User.objects.create_superuser(username="ada", password=PASSWORD)


def browser() -> Client:
    return Client(headers={"Accept": "text/html", "User-Agent": AGENT})


def sign_in(client: Client, password: str = PASSWORD) -> Any:
    return client.post(reverse("account_login"), {"login": "ada", "password": password})


def code_of(seed: str) -> str:
    return format_hotp_value(hotp_value(seed, int(time.time()) // 30))


def set_up_app(client: Client) -> tuple[str, list[str]]:
    """The seed of the person's app, and the recovery codes."""
    path = reverse("mfa_activate_totp")
    asked = client.get(path)
    if asked.status_code == 302:
        client.post(asked["Location"], {"password": PASSWORD, "next": path})
        asked = client.get(path)
    (seed,) = re.findall(r'<code id="seed">(\w+)</code>', asked.text)
    done = client.post(path, {"code": code_of(seed)}, follow=True)
    # A code works once: what was used to set the app up is not to be in the way of a test.
    cache.clear()
    return seed, re.findall(r"^(?:<pre id=\"codes\">)?([\w-]{8,})$", done.text, re.MULTILINE)


def list_records(action: str) -> list[Any]:
    rows = AuditRecord.objects.filter(object_type="sign_in", action=action)
    return [row.after for row in rows.order_by("pk")]


def test_a_code_is_asked_for_after_the_password_and_works_once(person: User) -> None:
    first, second, third = browser(), browser(), browser()
    sign_in(first)
    seed, _ = set_up_app(first)

    assert sign_in(second)["Location"] == reverse("mfa_authenticate")
    assert "_auth_user_id" not in second.session
    assert second.get(reverse("admin:index")).status_code == 302
    wrong = second.post(reverse("mfa_authenticate"), {"code": "000000"})
    assert 'role="alert"' in wrong.text
    code = code_of(seed)
    assert second.post(reverse("mfa_authenticate"), {"code": code})["Location"] == "/"
    assert second.get(reverse("admin:index")).status_code == 200
    sign_in(third)
    assert third.post(reverse("mfa_authenticate"), {"code": code}).status_code == 200
    assert "_auth_user_id" not in third.session
    assert [each["methods"] for each in list_records("signed in")] == [
        ["password"],
        ["password", "totp"],
    ]
    assert list_records("second factor failed")[0] == {
        "address": "127.0.0.1", "agent": AGENT, "factor": "totp",
    }  # fmt: skip


def test_codes_cannot_be_guessed(person: User) -> None:
    first, guesser = browser(), browser()
    sign_in(first)
    seed, _ = set_up_app(first)
    sign_in(guesser)
    for number in range(5):
        guesser.post(reverse("mfa_authenticate"), {"code": f"00000{number}"})

    guesser.post(reverse("mfa_authenticate"), {"code": code_of(seed)})

    assert "_auth_user_id" not in guesser.session
    record = AuditRecord.objects.get(object_type="sign_in", action="turned away")
    assert (record.object_id, record.after) == (
        str(person.pk), {"times": 1, "reason": "too many wrong codes"},
    )  # fmt: skip


def test_a_recovery_code_stands_in_once(person: User) -> None:
    first, second, third = browser(), browser(), browser()
    sign_in(first)
    _, codes = set_up_app(first)
    assert len(codes) == 10
    for client in (second, third):
        sign_in(client)
        client.post(reverse("mfa_authenticate"), {"code": codes[0]})

    assert ["_auth_user_id" in client.session for client in (second, third)] == [True, False]


def test_a_link_asks_for_the_second_factor_too(person: User) -> None:
    first, second = browser(), browser()
    sign_in(first)
    set_up_app(first)
    person.refresh_from_db()

    assert second.post(build_link_path(person))["Location"] == reverse("mfa_authenticate")


def test_no_seed_is_readable_in_the_database_or_the_admin(person: User) -> None:
    client = browser()
    sign_in(client)
    seed, codes = set_up_app(client)
    pages = [
        client.get(reverse("admin:mfa_authenticator_changelist")).text,
        *(
            client.get(reverse("admin:mfa_authenticator_change", args=[each.pk])).text
            for each in Authenticator.objects.all()
        ),
    ]
    kept = json.dumps(list(Authenticator.objects.values_list("data", flat=True)))

    for text in (*pages, kept):
        assert seed not in text
        assert codes[0] not in text


def test_proofs_that_come_too_often_are_refused_and_on_record(person: User) -> None:
    client = browser()
    sign_in(client)
    path = reverse("account_reauthenticate")
    answers = [client.post(path, {"password": "wrong"}).status_code for _ in range(11)]

    assert answers == [200] * 10 + [429]
    record = AuditRecord.objects.get(
        object_type="sign_in", action="turned away", object_id=person.pk
    )
    assert (record.after or {})["reason"] == "too many proofs"


@pytest.mark.django_db(transaction=True)
def test_everybody_needs_a_second_factor_where_it_is_set(person: User, settings: Any) -> None:
    settings.EVERYBODY_SECOND_FACTOR = True
    User.objects.filter(pk=person.pk).update(is_staff=False, is_superuser=False)
    admit_member(account=open_account(name="acme"), username="ada", role=Membership.Role.MEMBER)
    by_password, by_provider = browser(), browser()
    sign_in(by_password)
    by_provider.force_login(person, backend="django.contrib.auth.backends.ModelBackend")
    session = by_provider.session
    session["account_authentication_methods"] = [{"method": "oidc", "provider": "acme"}]
    session["account_authentication_methods_user"] = str(person.pk)
    session.save()

    assert by_password.get(reverse("console:keys"))["Location"] == reverse("mfa_index")
    assert "need a second factor" in by_password.get(reverse("mfa_index")).text
    assert by_provider.get(reverse("console:keys")).status_code == 200
    assert "need a second factor" not in by_provider.get(reverse("mfa_index")).text
    set_up_app(by_password)
    assert by_password.get(reverse("console:keys")).status_code == 200


@pytest.mark.django_db(transaction=True)
def test_staff_needs_a_second_factor_where_it_is_set(person: User, settings: Any) -> None:
    settings.STAFF_SECOND_FACTOR = True
    client = browser()
    open_account(name="acme")
    client.post(build_link_path(person))
    for path in ("/", reverse("admin:index"), reverse("console:keys")):
        assert client.get(path)["Location"] == reverse("mfa_index")
    assert "need a second factor" in client.get(reverse("mfa_index")).text

    seed, _ = set_up_app(client)

    assert client.get(reverse("admin:index")).status_code == 200
    client.post(reverse("mfa_reauthenticate"), {"code": code_of(seed)})
    kept = client.post(reverse("mfa_deactivate_totp"))
    assert "Set up another second factor first" in kept.text


def test_changes_of_factors_ask_for_a_proof_again(person: User, settings: Any) -> None:
    client = browser()
    sign_in(client)
    set_up_app(client)
    settings.ACCOUNT_REAUTHENTICATION_TIMEOUT = -1

    for name in ("mfa_deactivate_totp", "mfa_generate_recovery_codes", "mfa_add_webauthn"):
        asked = client.post(reverse(name), {"credential": "{}"})["Location"]
        assert asked.startswith((reverse("mfa_reauthenticate"), reverse("account_reauthenticate")))
    assert Authenticator.objects.filter(type=Authenticator.Type.TOTP).exists()


@pytest.mark.django_db(transaction=True)
def test_a_session_that_used_no_factor_stays_out_once_there_is_one(
    person: User, settings: Any
) -> None:
    settings.STAFF_SECOND_FACTOR = True
    owner, thief = browser(), browser()
    for client in (owner, thief):
        sign_in(client)
    seed, _ = set_up_app(owner)
    assert owner.get(reverse("admin:index")).status_code == 200

    # Nor does whoever knows the password alone set up a factor of his own.
    for name in ("admin:index", "mfa_index", "mfa_add_webauthn", "account_reauthenticate"):
        asked = thief.get(reverse(name))["Location"]
        assert asked.startswith(f"{reverse('mfa_reauthenticate')}?next=")
    assert "code" in thief.get(asked).text
    assert thief.post(asked, {"code": code_of(seed)}).status_code == 302
    assert thief.get(reverse("admin:index")).status_code == 200


def test_the_admin_signs_in_where_all_pages_do(person: User, client: Client) -> None:
    asked = client.get(reverse("admin:index"), follow=True)
    assert asked.redirect_chain[-1][0] == "/console/sign-in?next=/admin/"
    assert "default-src 'none'" in asked["Content-Security-Policy"]
    member = User.objects.create_user(username="eve")
    client.force_login(member, backend="django.contrib.auth.backends.ModelBackend")

    refused = client.get(reverse("admin:index"), follow=True)

    assert (refused.status_code, "for operators" in refused.text) == (403, True)


def test_wrong_passwords_are_on_record_and_names_are_not(person: User, client: Client) -> None:
    for name in ("ada", "my-password"):
        client.post(reverse("account_login"), {"login": name, "password": "wrong"})

    rows = AuditRecord.objects.filter(object_type="sign_in", action="failed").order_by("pk")
    assert [row.object_id for row in rows] == [str(person.pk), "unknown"]
    assert "my-password" not in json.dumps([row.after for row in rows])
    assert not AuditRecord.objects.filter(action="signed in").exists()


def test_a_wrong_passkey_is_on_record_and_nobody_s(person: User, client: Client) -> None:
    claimed = {"type": "public-key", "id": "AAAA", "rawId": "AAAA", "response": {"userHandle": "x"}}
    client.post(reverse("mfa_login_webauthn"), {"credential": json.dumps(claimed)})

    (row,) = AuditRecord.objects.filter(action="passkey failed")
    assert (row.object_id, row.account_id) == ("unknown", None)


def test_admins_see_who_of_their_account_signs_in_and_from_where() -> None:
    account = open_account(name="acme")
    ada = admit_member(account=account, username="ada", role=Membership.Role.ADMIN)
    ada.set_password(PASSWORD)
    ada.save(update_fields=["password"])
    client = browser()
    sign_in(client, "wrong")
    sign_in(client)
    AuditRecord.objects.create(
        account=account, at=datetime.now(UTC), command="test", action="updated",
        object_type="key", object_id="1", address="192.0.2.7", agent="Program/1",
    )  # fmt: skip

    page = client.get(reverse("console:audit"))

    said = ("sign in failed", "sign in signed in", "192.0.2.7", "Program/1")
    assert [text for text in said if text not in page.text] == []
    Membership.objects.create(account=open_account(name="globex"), user=ada)
    sign_in(browser())
    rows = AuditRecord.objects.filter(object_type="sign_in").order_by("pk")
    assert [row.account_id for row in rows] == [account.pk, account.pk, None]


@pytest.mark.parametrize("by_link", [False, True])
def test_a_session_that_is_used_ends_all_the_same(
    person: User, settings: Any, by_link: bool
) -> None:
    settings.SESSION_IDLE_MINUTES = 0
    client = browser()
    if by_link:
        client.post(build_link_path(person))
    else:
        sign_in(client)
    end = Session.objects.get().expire_date

    session = client.session
    session["seen"] = "again"
    session.save()

    assert Session.objects.get().expire_date == end
    age = end - datetime.now(UTC)
    assert timedelta(hours=SESSION_HOURS - 1) < age <= timedelta(hours=SESSION_HOURS)


def test_a_session_that_nobody_uses_ends_sooner(
    person: User, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.SESSION_IDLE_MINUTES = 30
    client, now_s = browser(), time.time()
    sign_in(client)

    def find_minutes_left(minutes: int, **headers: str) -> int:
        # Hours cannot be waited for.
        monkeypatch.setattr("accounts.people.middleware.time.time", lambda: now_s + minutes * 60)
        client.get(reverse("mfa_index"), headers=headers)
        left = Session.objects.get().expire_date.timestamp() - now_s
        return round(left / 60)

    assert find_minutes_left(20, x_tick="1") == 30
    # What a page puts off is worth a write, and never beyond the end of the sign-in.
    assert [find_minutes_left(each) for each in (0, 2, 20)] == [30, 30, 50]
    assert find_minutes_left(SESSION_HOURS * 60 - 5) == SESSION_HOURS * 60


def test_sessions_are_listed_and_ended(person: User) -> None:
    first, second, stranger = browser(), browser(), browser()
    for client in (first, second):
        sign_in(client)
    User.objects.create_user(username="eve", password=PASSWORD)
    stranger.post(reverse("account_login"), {"login": "eve", "password": PASSWORD})
    assert first.get(reverse("mfa_index")).text.count("Firefox on Linux") == 2
    foreign = UserSession.objects.filter(user__username="eve")

    def end(**named: object) -> None:
        asked = first.post(reverse("end_sessions"), named)
        if asked["Location"] != reverse("mfa_index"):
            # Once, for some minutes.
            path, _, query = asked["Location"].partition("?")
            assert (path, foreign.exists()) == (reverse("account_reauthenticate"), True)
            proof = {"password": PASSWORD, "next": reverse("end_sessions")}
            first.post(f"{path}?{query}", proof)

    end(session=foreign.get().pk)
    end()

    def list_statuses() -> list[int]:
        clients = (first, second, stranger)
        return [client.get(reverse("mfa_index")).status_code for client in clients]

    assert list_statuses() == [200, 302, 200]
    foreign_user = foreign.get().user
    form = {"action": "end_sessions", "_selected_action": [foreign_user.pk]}
    first.post(reverse("admin:accounts_user_changelist"), form)
    assert list_statuses() == [200, 302, 302]
    ended = AuditRecord.objects.filter(action="sessions ended").order_by("pk")
    assert [(each.operator, each.object_id) for each in ended] == [
        (person, str(person.pk)), (person, str(foreign_user.pk)),
    ]  # fmt: skip


def test_sessions_that_are_over_leave_the_database(person: User) -> None:
    first, second = browser(), browser()
    for client in (first, second):
        sign_in(client)
    old = Session.objects.filter(session_key=first.session.session_key)
    old.update(expire_date=datetime.now(UTC))

    delete_old_sessions()

    (left,) = Session.objects.all()
    assert left.session_key == second.session.session_key


def test_the_first_operator_comes_by_a_link(client: Client) -> None:
    printed = io.StringIO()
    call_command("create_operator", "--user", "root", "--link", "--json", stdout=printed)
    path = json.loads(printed.getvalue())["path"]

    assert client.post(path).status_code == 302
    assert client.get(reverse("admin:index")).status_code == 200
    assert AuditRecord.objects.filter(command="create_operator", object_type="user").count() == 1
    with pytest.raises((SystemExit, CommandError)):
        call_command("create_operator", "--user", "root", "--link", "--json", stdout=printed)


def test_an_operator_gets_no_weak_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("short\n"))

    with pytest.raises((SystemExit, CommandError)):
        call_command("create_operator", "--user", "root", "--json", stdout=io.StringIO())
    assert not User.objects.exists()
