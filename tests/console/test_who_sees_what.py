"""Who sees which rows, on every page, and that nobody finds what is another tenant's."""

import re

import pytest
from django.test import Client
from django.urls import reverse

from accounts.models import Guardrail, User
from tests.console.people import BACKEND, ROLES, Team, make_team

pytestmark = [pytest.mark.django_db, pytest.mark.both]
SEES = {
    "member": {"own"},
    "lead": {"own", "led"},
    "admin": {"own", "led", "far"},
    "operator": {"own", "led", "far"},
}
# Every list; a new page joins it.
LISTS = (
    "home",
    "requests",
    "playground",
    "models",
    "what_if",
    "keys",
    "new_key",
    "providers",
    "presets",
    "decisions",
    "interns",
    "new_intern",
)


@pytest.fixture
def ours() -> Team:
    return make_team("ours")


@pytest.fixture
def theirs() -> Team:
    return make_team("theirs")


@pytest.mark.parametrize("role", ROLES)
def test_a_list_has_what_the_role_may_see_and_no_more(ours: Team, theirs: Team, role: str) -> None:
    account = {"account": str(ours.account.pk)} if role == "operator" else {}

    text = ours.client(role).get(reverse("console:requests"), account).text

    seen = {key for key, row in ours.generations.items() if f"/requests/{row.pk}" in text}
    refused = {key for key, row in ours.refused.items() if f"/refused/{row.pk}" in text}
    assert (seen, refused) == (SEES[role], SEES[role])
    assert "theirs" not in re.sub(r"<select.*?</select>", "", text, flags=re.DOTALL)


@pytest.mark.parametrize("role", ROLES)
def test_one_request_is_shown_to_who_may_see_it_and_is_not_there_for_others(
    ours: Team, theirs: Team, role: str
) -> None:
    client = ours.client(role)
    for key in ("own", "led", "far"):
        expected = 200 if key in SEES[role] else 404
        for name, row in (("request", ours.generations[key]), ("refused", ours.refused[key])):
            answer = client.get(reverse(f"console:{name}", args=[row.pk]))
            assert (key, answer.status_code) == (key, expected)
        strange = client.get(reverse("console:request", args=[theirs.generations[key].pk]))
        refused = client.get(reverse("console:refused", args=[theirs.refused[key].pk]))
        known = 200 if role == "operator" else 404
        assert (strange.status_code, refused.status_code) == (known, known)
        assert "text/html" in strange["Content-Type"]


@pytest.mark.parametrize("role", ["member", "lead", "admin"])
@pytest.mark.parametrize("name", LISTS)
def test_another_tenant_s_account_or_workspace_is_not_there(
    ours: Team, theirs: Team, role: str, name: str
) -> None:
    client, path = ours.client(role), reverse(f"console:{name}")
    strange = theirs.account.workspaces.first()
    assert strange is not None

    assert client.get(path, {"account": str(theirs.account.pk)}).status_code == 404
    assert client.get(path, {"view": str(strange.pk)}).status_code == 404
    assert client.get(path).status_code == 200


@pytest.mark.parametrize("role", ["member", "lead", "admin"])
def test_what_if_replays_the_requests_that_the_role_may_see(
    ours: Team, theirs: Team, role: str
) -> None:
    strange = Guardrail.objects.create(workspace=theirs.account.workspaces.get(slug="led"))
    client, path = ours.client(role), reverse("console:what_if")

    text = client.get(path, {"sort": "price"}).text

    assert f"{len(SEES[role])}: it was not answered" in text
    answer = client.get(path, {"sort": "price", "guardrail": str(strange.pk)}).text
    assert "Select a valid choice" in answer


def test_a_member_cannot_choose_the_view_of_a_lead(ours: Team) -> None:
    led = ours.account.workspaces.get(slug="led")
    for view in ("all", str(led.pk)):
        answer = ours.client("member").get(reverse("console:requests"), {"view": view})
        assert answer.status_code == 404


def test_home_sums_up_what_the_view_has(ours: Team) -> None:
    spent = {"member": "$0.0000044", "lead": "$0.0000088", "admin": "$0.0000132"}
    for role, money in spent.items():
        assert f"<dd>{money}</dd>" in ours.client(role).get("/").text


def test_a_person_without_an_account_reads_what_to_do(client: Client) -> None:
    client.force_login(User.objects.create(username="new"), backend=BACKEND)

    answer = client.get(reverse("console:requests"))

    assert (answer.status_code, "belong to no account yet" in answer.text) == (403, True)


def test_prompts_are_for_admins(ours: Team) -> None:
    path = reverse("console:request", args=[ours.generations["own"].pk])

    assert "Admins of the account may read them" in ours.client("member").get(path).text
    assert "does not log what is asked" in ours.client("admin").get(path).text
