"""People of an account: who sees and changes them, and what they spent."""

import csv
import io
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from accounts.models import AuditRecord, Membership, User, Workspace
from tests.console.people import Team

pytestmark = [pytest.mark.django_db, pytest.mark.both]


def find(team: Team, slug: str) -> Workspace:
    return team.account.workspaces.get(slug=slug)


def list_spent(client: Any, name: str, **query: str) -> dict[str, str]:
    """The column "Spent" of a list's CSV, by name, in its order."""
    rows = csv.DictReader(
        io.StringIO(client.get(reverse(f"console:{name}"), {"csv": "1"} | query).text)
    )
    return {row["Name"]: row["Spent (USD)"] for row in rows}


def test_what_is_spent_is_not_narrowed_by_a_view_that_shows_everybody(team: Team) -> None:
    client = team.client("admin")
    whole = {name: list_spent(client, name) for name in ("people", "workspaces")}
    assert set(whole["people"].values()) == {"0.0000044", "0.0000088", "0"}

    for name, spent in whole.items():
        assert list_spent(client, name, view="mine") == spent
    led = str(find(team, "led").pk)
    assert list_spent(client, "people", view=led) == whole["people"]
    assert list_spent(client, "workspaces", view=led) == {"Led": "0.0000088"}


def test_people_are_sorted_by_what_they_spent(team: Team) -> None:
    client = team.client("admin")

    most = list(list_spent(client, "people", order="-spent"))
    least = list(list_spent(client, "people", order="spent"))

    assert most[:2] == ["acme-admin", "acme-member"]
    assert least[-2:] == ["acme-member", "acme-admin"]
    assert least[:-2] == most[2:] == sorted(most[2:])


def test_a_new_person_gets_a_link_that_signs_in_once(team: Team) -> None:
    client, path = team.client("admin"), reverse("console:new_person")

    answer = client.post(path, {"username": "neo", "role": "org:member"})

    user = User.objects.get(username="neo")
    assert Membership.objects.get(user=user).account == team.account
    link = answer.text.split('id="sign-in-link">')[1].split("<")[0]
    assert link.split("/")[-2] == user.public_id
    # Nobody gets at somebody who is there already.
    taken = client.post(path, {"username": team.people["lead"].username, "role": "org:member"})
    assert (taken.status_code, "sign-in-link" in taken.text) == (409, False)


def test_who_has_no_other_way_in_gets_another_link(team: Team) -> None:
    admin, member = team.client("admin"), team.people["member"]
    path = reverse("console:renew_link", args=[member.public_id])

    answer = admin.post(path)

    link = answer.text.split('id="sign-in-link">')[1].split("<")[0]
    newcomer = Client(headers={"Accept": "text/html"})
    home = newcomer.post(link, follow=True).text
    assert reverse("change_password") in home
    made = AuditRecord.objects.get(object_type="sign_in", action="link made")
    assert (made.account, made.object_id) == (team.account, str(member.pk))
    # Admins take no owner's place, and nobody's who comes in by a password.
    owner = reverse("console:renew_link", args=[team.people["owner"].public_id])
    assert admin.post(owner).status_code == 403
    member.set_password("correct horse")
    member.save()
    assert admin.post(path).status_code == 404


def test_who_leaves_takes_their_keys_out_of_service(team: Team) -> None:
    member, admin = team.people["member"], team.people["admin"]
    client = team.client("admin")
    path = reverse("console:change_person", args=[member.public_id])

    assert client.post(path, {"to": "org:admin"}).status_code == 302
    assert Membership.objects.get(user=member).role == "org:admin"
    assert client.post(path, {"to": "removed"}).status_code == 302
    team.keys["own"].refresh_from_db()
    assert team.keys["own"].disabled
    Membership.objects.filter(user=team.people["owner"]).delete()
    own = reverse("console:change_person", args=[admin.public_id])
    last = client.post(own, {"to": "org:member"})
    assert (last.status_code, "keeps at least one admin" in last.text) == (409, True)
    assert AuditRecord.objects.filter(object_type="member").count() == 2
