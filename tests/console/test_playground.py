"""The playground's key, and requests that are asked again there."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.sessions.models import Session
from django.test import Client
from django.urls import reverse

from accounts.caller import read_caller
from accounts.keystring import hash_key
from accounts.models import ApiKey, Membership, User, Workspace
from accounts.models.event import Event
from accounts.services.keys import end_playgrounds
from accounts.services.organization import admit_member
from accounts.services.records import SYSTEM
from tests.console.people import ADMINS, BACKEND, ROLES, TENANTS, Team, make_team
from tests.console.things import keep_content

pytestmark = [pytest.mark.django_db, pytest.mark.both]
PROMPT = "What is behind the moon?"


@pytest.fixture
def led(team: Team) -> Workspace:
    return team.led


def ask_for_key(client: Client, workspace: Workspace) -> Any:
    return client.post(reverse("console:playground_key"), {"workspace": str(workspace.pk)})


@pytest.mark.parametrize("role", ROLES)
def test_each_person_has_a_key_of_their_own_for_an_hour(team: Team, role: str) -> None:
    client, workspace = team.client(role), team.workspace_of(role)
    answer = ask_for_key(client, workspace)

    string = answer.json()["key"]
    key = ApiKey.objects.get(hash=hash_key(string))
    assert (key.name, key.workspace_id) == (f"Playground of acme-{role}", workspace.pk)
    assert key.creator == (None if role == "operator" else team.people[role])
    assert key.expires_at is not None
    assert timedelta(0) < key.expires_at - datetime.now(UTC) <= timedelta(hours=1)
    assert answer["Cache-Control"] == "no-store"
    for name in ("playground", "keys"):
        assert string not in client.get(reverse(f"console:{name}")).text
    # A viewer begins with the workspace that they look at.
    view = {"view": "mine"} if role == "viewer" else {}
    assert key.name in client.get(reverse("console:keys"), view).text
    assert not any(string in str(row.get_decoded()) for row in Session.objects.all())


def test_all_tabs_have_the_same_string_until_it_is_nearly_over(team: Team, led: Workspace) -> None:
    client = team.client("member")
    first, again = (ask_for_key(client, led).json()["key"] for _ in range(2))
    assert first == again

    soon = datetime.now(UTC) + timedelta(minutes=4)
    ApiKey.objects.filter(hash=hash_key(first)).update(expires_at=soon)
    renewed = ask_for_key(client, led).json()["key"]

    assert renewed != first
    (key,) = ApiKey.objects.filter(playground_user=team.people["member"])
    assert key.hash == hash_key(renewed)
    # What is under way with the former string goes on, and nobody gets a message every hour.
    assert ApiKey.objects.of_string(hash_key(first)).get() == key
    assert not Event.objects.filter(data__key_id=key.pk).exists()


def test_another_session_gets_another_string_of_the_same_key(team: Team, led: Workspace) -> None:
    strings = {ask_for_key(team.client("member"), led).json()["key"] for _ in range(2)}

    assert len(strings) == 2
    assert ApiKey.objects.filter(playground_user=team.people["member"]).count() == 1


def test_the_key_of_an_operator_who_joins_becomes_their_own(team: Team, led: Workspace) -> None:
    ask_for_key(team.client("operator"), led)
    operator = team.people["operator"]
    admit_member(account=team.account, username=operator.username, role=Membership.Role.MEMBER)

    ask_for_key(team.client("operator"), led)

    assert ApiKey.objects.get(playground_user=operator).creator == operator


def test_signing_out_ends_the_string(team: Team, led: Workspace) -> None:
    client = team.client("member")
    string = ask_for_key(client, led).json()["key"]

    client.post(reverse("console:sign_out"))

    key = ApiKey.objects.get(hash=hash_key(string))
    assert key.expires_at is not None
    assert key.expires_at <= datetime.now(UTC)


def read_usable(string: str) -> bool:
    caller = read_caller(hash_key(string))
    assert caller is not None
    return caller.is_usable(datetime.now(UTC))


def test_what_was_given_to_ended_sessions_works_no_longer(team: Team, led: Workspace) -> None:
    strings = [ask_for_key(team.client("member"), led).json()["key"] for _ in range(2)]
    assert [read_usable(each) for each in strings] == [True, True]

    end_playgrounds(team.people["member"], by=SYSTEM)

    # The former one was in its time of grace, and does not come back with a new one.
    renewed = ask_for_key(team.client("member"), led).json()["key"]
    assert [read_usable(each) for each in strings] == [False, False]
    assert read_usable(renewed)


@pytest.mark.parametrize("role", ["operator", "member"])
def test_a_person_who_is_switched_off_has_no_playground(
    team: Team, led: Workspace, role: str
) -> None:
    string = ask_for_key(team.client(role), led).json()["key"]
    assert read_usable(string)

    User.objects.filter(pk=team.people[role].pk).update(is_active=False)

    assert not read_usable(string)


def test_a_playground_ends_with_the_role_that_allowed_it(team: Team) -> None:
    far = team.account.workspaces.create(name="Far", slug="far")
    strings = {
        role: ask_for_key(team.client(role), far).json()["key"]
        for role in ("operator", "owner", "admin")
    }
    assert all(read_usable(string) for string in strings.values())

    User.objects.filter(pk=team.people["operator"].pk).update(is_staff=False)
    Membership.objects.filter(user=team.people["admin"]).update(role=Membership.Role.MEMBER)

    assert [role for role, string in strings.items() if read_usable(string)] == ["owner"]


def test_a_playground_is_for_who_is_in_the_workspace(team: Team, led: Workspace) -> None:
    default = team.account.workspaces.get(is_default=True)
    client = team.client("member")
    here, there = (ask_for_key(client, each).json()["key"] for each in (led, default))

    led.memberships.filter(membership__user=team.people["member"]).delete()

    assert (read_usable(here), read_usable(there)) == (False, True)


def test_a_disabled_key_stays_disabled(team: Team, led: Workspace) -> None:
    client = team.client("member")
    ask_for_key(client, led)
    ApiKey.objects.filter(playground_user=team.people["member"]).update(disabled=True)

    answer = ask_for_key(client, led)

    assert (answer.status_code, "is disabled" in answer.json()["error"]) == (409, True)


def test_nobody_gets_a_key_where_they_do_not_belong(team: Team) -> None:
    strange = make_team("theirs").account.workspaces.first()
    far = team.account.workspaces.create(name="Far", slug="far")
    assert strange is not None
    for role in TENANTS:
        for workspace in (strange, *([] if role in ADMINS else [far])):
            assert ask_for_key(team.client(role), workspace).status_code == 404
        odd = team.client(role).post(reverse("console:playground_key"), {"workspace": "x"})
        assert odd.status_code == 404
        assert not ApiKey.objects.filter(playground_user__isnull=False).exists()


def test_other_sites_get_no_key(team: Team, led: Workspace) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(team.people["admin"], backend=BACKEND)

    assert ask_for_key(client, led).status_code == 403
    assert client.get(reverse("console:playground_key")).status_code == 405
    assert not ApiKey.objects.filter(playground_user__isnull=False).exists()


def test_a_logged_request_can_be_asked_again_by_who_may_read_it(team: Team) -> None:
    record = team.generations["own"]
    image = [{"type": "text", "text": "See"}, {"type": "image_url", "image_url": {"url": "x"}}]
    messages = [{"role": "system", "content": "Be short."}, {"role": "user", "content": PROMPT}]
    keep_content(record, [*messages, {"role": "user", "content": image}])
    path = f"{reverse('console:playground')}?replay={record.pk}"

    page = team.client("admin").get(path).text
    assert (PROMPT in page, "Be short." in page, "images of that request" in page) == (True,) * 3
    detail = team.client("admin").get(reverse("console:request", args=[record.pk])).text
    assert re.search(rf'href="[^"]*replay={record.pk}', detail)
    for role, people in (("member", team), ("lead", team), ("admin", make_team("theirs"))):
        text = people.client(role).get(path).text
        assert (PROMPT in text, "cannot be asked again" in text) == (False, True)
