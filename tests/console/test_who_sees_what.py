"""Who sees which rows, on every page, and that nobody finds what is another tenant's."""

import re
from itertools import product
from uuid import uuid4

import pytest
from django.test import Client
from django.urls import reverse

from accounts.models import Account, Guardrail, User
from accounts.services.keys import create_key
from accounts.services.organization import open_account
from tests.console.people import ADMINS, BACKEND, ROLES, TENANTS, Team

pytestmark = [pytest.mark.django_db, pytest.mark.both]
SEES = {
    "member": {"own"},
    "viewer": {"own", "led"},
    "lead": {"own", "led"},
    **{role: {"own", "led", "far"} for role in ("billing", *ADMINS)},
}


def test_a_list_has_what_the_role_may_see_and_no_more(ours: Team, theirs: Team) -> None:
    for role in ROLES:
        account = {"account": str(ours.account.pk)} if role == "operator" else {}

        text = ours.client(role).get(reverse("console:requests"), account).text

        seen = {key for key, row in ours.generations.items() if f"/requests/{row.pk}" in text}
        refused = {key for key, row in ours.refused.items() if f"/refused/{row.pk}" in text}
        assert (role, seen, refused) == (role, SEES[role], SEES[role])
        assert "theirs" not in re.sub(r"<select.*?</select>", "", text, flags=re.DOTALL)


def test_one_request_is_shown_to_who_may_see_it_and_is_not_there_for_others(
    ours: Team, theirs: Team
) -> None:
    clients = {role: ours.client(role) for role in ROLES}
    for role, team, key in product(ROLES, (ours, theirs), ("own", "led", "far")):
        may = role == "operator" or (team is ours and key in SEES[role])
        for name, row in (("request", team.generations[key]), ("refused", team.refused[key])):
            answer = clients[role].get(reverse(f"console:{name}", args=[row.pk]))
            assert (role, key, answer.status_code) == (role, key, 200 if may else 404)
            assert "text/html" in answer["Content-Type"]


def test_what_if_replays_the_requests_that_the_role_may_see(ours: Team, theirs: Team) -> None:
    strange = Guardrail.objects.create(workspace=theirs.led)
    path = reverse("console:what_if")
    for role in TENANTS:
        client = ours.client(role)
        assert f"{len(SEES[role])}: it was not answered" in client.get(path, {"sort": "price"}).text
        answer = client.get(path, {"sort": "price", "guardrail": str(strange.pk)}).text
        assert "Select a valid choice" in answer


def test_a_member_cannot_choose_the_view_of_a_lead(ours: Team) -> None:
    led = ours.led
    for view in ("all", str(led.pk)):
        answer = ours.client("member").get(reverse("console:requests"), {"view": view})
        assert answer.status_code == 404


def test_home_sums_up_what_the_view_has(ours: Team) -> None:
    spent = {1: "$0.0000044", 2: "$0.0000088", 3: "$0.0000132"}
    for role in TENANTS:
        money = spent[len(SEES[role])]
        assert f"<dd>{money}</dd>" in ours.client(role).get("/").text, role


def test_a_person_without_an_account_reads_what_to_do(client: Client) -> None:
    client.force_login(User.objects.create(username="new"), backend=BACKEND)

    answer = client.get(reverse("console:requests"))

    assert (answer.status_code, "belong to no account yet" in answer.text) == (403, True)


def test_prompts_are_for_admins(ours: Team) -> None:
    path = reverse("console:request", args=[ours.generations["own"].pk])
    for role in ROLES:
        text = ours.client(role).get(path).text
        assert ("Admins of the account may read them" in text) == (role not in ADMINS)
        assert ("did not log what was asked" in text) == (role in ADMINS)


def test_an_operator_opens_accounts_beyond_those_that_are_listed(ours: Team) -> None:
    Account.objects.bulk_create(Account(name=f"many {number:03}") for number in range(500))
    last = open_account(name="zz last")
    operator, path = ours.client("operator"), reverse("console:requests")

    page = operator.get(path, {"account": str(last.pk)})

    assert (page.status_code, "zz last" in page.text) == (200, True)
    # It stays the choice, and its things are there from another one.
    assert f'value="{last.pk}" selected' in operator.get(path).text
    operator.get(path, {"account": str(Account.objects.get(name="many 000").pk)})
    key, _ = create_key(account=last, name="far away", workspace=last.workspaces.get())
    assert operator.get(reverse("console:key", args=[key.pk])).status_code == 200
    for named in ("nonsense", str(uuid4())):
        assert operator.get(path, {"account": named}).status_code == 404
    assert ours.client("owner").get(path, {"account": str(last.pk)}).status_code == 404
