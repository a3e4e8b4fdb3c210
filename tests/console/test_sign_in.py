"""The front page, and the ways in."""

import io
import json
import re
from datetime import datetime, timedelta

import pytest
from django.core.management import call_command
from django.test import Client
from django.urls import reverse

from accounts.models import Membership, User
from accounts.services.organization import admit_member, open_account
from console import sign_in_links
from console.sign_in_links import LIFETIME_S, build_link_path
from tests.console.people import BACKEND

pytestmark = [pytest.mark.django_db, pytest.mark.both]
HTML = {"Accept": "text/html,application/xhtml+xml"}


@pytest.fixture
def person() -> User:
    return User.objects.create_user(username="ada", password="correct horse")


def test_the_front_is_a_page_for_all_but_who_would_rather_have_json(client: Client) -> None:
    """Such as curl says that it takes anything."""
    for headers in (HTML, {}, {"Accept": "*/*"}, {"Accept": "text/plain"}):
        page = client.get("/", headers=headers)
        assert (page.status_code, "Sign in" in page.text) == (200, True), headers
    for wish in ("application/json", "application/json, */*;q=0.8"):
        program = client.get("/", headers={"Accept": wish})
        assert (program.status_code, program.json()["error"]["code"]) == (404, 404)
    assert client.head("/", headers=HTML).status_code == 200
    assert client.post("/", headers=HTML).status_code == 405


def test_every_page_carries_a_policy_that_lets_nothing_else_in(client: Client) -> None:
    page = client.get("/", headers=HTML)

    policy = page["Content-Security-Policy"]
    assert "default-src 'none'; script-src 'self'; style-src 'self'" in policy
    assert "unsafe" not in policy
    assert not re.search(r"<script(?![^>]* src=)|<style| style=| on[a-z]+=", page.text)


def test_who_signs_in_comes_to_the_page_that_was_asked_for(client: Client, person: User) -> None:
    asked = client.get(reverse("console:requests"), headers=HTML)
    assert asked["Location"] == "/?next=%2Fconsole%2Frequests"
    form = {"login": "ada", "password": "correct horse", "next": "/console/requests"}

    answer = client.post(reverse("account_login"), form)

    assert (answer.status_code, answer["Location"]) == (302, "/console/requests")
    assert client.session["_auth_user_id"] == str(person.pk)


@pytest.mark.parametrize("elsewhere", ["https://evil.test/", "//evil.test", "javascript:alert(1)"])
def test_nobody_is_sent_elsewhere(client: Client, person: User, elsewhere: str) -> None:
    form = {"login": "ada", "password": "correct horse", "next": elsewhere}

    assert client.post(reverse("account_login"), form)["Location"] == "/"


def test_signing_in_takes_a_form_of_ours(person: User) -> None:
    strict = Client(enforce_csrf_checks=True)
    form = {"login": "ada", "password": "correct horse"}

    assert strict.post(reverse("account_login"), form).status_code == 403


def test_a_part_of_a_page_sends_who_was_signed_out_to_the_front(client: Client) -> None:
    answer = client.get(reverse("console:first_request"), headers={"HX-Request": "true"})

    assert (answer.status_code, answer["HX-Redirect"]) == (204, "/")


def test_a_link_signs_in_once_and_looking_at_it_does_not_use_it_up(person: User) -> None:
    path = build_link_path(person)
    public_id, token = path.split("/")[-2:]
    assert path == reverse("console:link", args=[public_id, token])
    first, second = Client(), Client()

    assert "Welcome, ada" in first.get(path).text
    assert first.get(path).status_code == 200
    assert first.post(path)["Location"] == "/"
    assert first.session["_auth_user_id"] == str(person.pk)
    for answer in (second.get(path), second.post(path)):
        assert (answer.status_code, "no longer works" in answer.text) == (410, True)
    assert "_auth_user_id" not in second.session


def test_a_link_ends_within_the_hour(client: Client, person: User) -> None:
    class EarlierTokens(sign_in_links.LinkTokens):
        def _now(self) -> datetime:
            return datetime.now() - timedelta(seconds=LIFETIME_S + 5)

    token = EarlierTokens().make_token(person)

    answer = client.post(reverse("console:link", args=[person.public_id, token]))
    assert answer.status_code == 410


@pytest.mark.parametrize("right", ["is_staff", "is_superuser", "role"])
def test_a_link_ends_when_the_person_s_rights_change(client: Client, right: str) -> None:
    account = open_account(name="acme")
    ada = admit_member(account=account, username="ada", role=Membership.Role.MEMBER)
    path = build_link_path(ada)

    if right == "role":
        Membership.objects.filter(user=ada).update(role=Membership.Role.OWNER)
    else:
        User.objects.filter(pk=ada.pk).update(**{right: True})

    assert client.post(path).status_code == 410


def test_a_changed_link_signs_nobody_in(client: Client, person: User) -> None:
    other = User.objects.create_user(username="eve", password="x")
    token = build_link_path(person).rpartition("/")[2]

    for args in ([other.public_id, token], [person.public_id, token[:-1]], ["nobody", "x-y"]):
        assert client.post(reverse("console:link", args=args)).status_code == 410


def test_an_unknown_path_is_a_page_too(client: Client, person: User) -> None:
    client.force_login(User.objects.create_superuser(username="root"), backend=BACKEND)
    open_account(name="acme")

    nothing, home = client.get("/console/none"), client.get("/console/")

    assert (nothing.status_code, "Nothing here under this address" in nothing.text) == (404, True)
    # With everything else that there is for somebody.
    assert reverse("admin:index") in nothing.text
    assert (home.status_code, home["Location"]) == (302, "/")


def test_the_command_prints_a_link(client: Client, person: User) -> None:
    printed = io.StringIO()
    call_command("console_link", "--user", "ada", "--json", stdout=printed)

    assert client.get(json.loads(printed.getvalue())["path"]).status_code == 200
