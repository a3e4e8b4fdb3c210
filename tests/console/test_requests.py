"""The list of requests: order, cursor, filters, CSV."""

import csv
import io
import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from console.words import plain_value
from routing.reports.models import FailedRequest
from tests.console.people import Team, ask, make_team, refuse
from tests.console.things import make_model, make_provider

pytestmark = [pytest.mark.django_db, pytest.mark.both]
FIRST = {"gen-acme-own", "gen-acme-led", "gen-acme-far"}


@pytest.fixture
def client(team: Team) -> Client:
    return team.client("admin")


def list_ids(text: str) -> list[str]:
    return re.findall(r'href="/console/requests/([^"?]+)"', text)


def read_all_pages(client: Client, **query: str) -> list[str]:
    found, path = [], reverse("console:requests")
    page = client.get(path, query).text
    while True:
        found += list_ids(page)
        more = re.search(r'rel="next" href="([^"]+)"', page)
        if not more:
            return found
        page = client.get(path + more[1].replace("&amp;", "&")).text


@pytest.mark.parametrize("order", ["-time", "-cost", "duration"])
def test_pages_have_every_request_once_in_order(client: Client, team: Team, order: str) -> None:
    key = team.keys["own"]
    for number in range(58):
        # Many are alike, so that pages end between equal ones.
        ago = timedelta(seconds=number // 10 + 5)
        alike = {"charge_nano": number // 20, "generation_time_ms": number // 20 or None}
        ask(key, f"gen-many-{number:02}", ago=ago, **alike)
        refuse(key, ago=ago, duration_ms=number // 20)

    found = read_all_pages(client, order=order)

    assert (len(found), len(set(found))) == (58 * 2 + 6, 58 * 2 + 6)
    # A search keeps the order.
    field = f'name="order" value="{order}"'
    page = client.get(reverse("console:requests"), {"order": order}).text
    assert (field in page) == (order != "-time")
    if order == "-time":
        assert found.index("gen-many-00") < found.index("gen-many-57")
    if order == "-cost":
        assert set(found[:3]) == FIRST


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"outcome": "failed"}, {"gen-bad"}),
        ({"outcome": "cancelled"}, {"gen-left"}),
        ({"outcome": "retried"}, FIRST),
        ({"model": "OTHER"}, {"gen-bad"}),
        ({"provider": "second", "outcome": "answered"}, FIRST),
        ({"text": "gen-bad"}, {"gen-bad"}),
        ({"text": "session-1"}, {"gen-left"}),
        ({"key": "no number"}, set()),
        ({"status": "503"}, {"gen-bad"}),
        ({"status": "402"}, {"refused own", "refused led", "refused far"}),
        ({"status": "no number"}, set()),
        ({"reason": "key_limit"}, {"refused own", "refused led", "refused far"}),
        ({"reason": "budget"}, set()),
        ({"person": "admin"}, FIRST - {"gen-acme-own"} | {"refused led", "refused far"}),
        ({"person": "lead"}, set()),
    ],
)
def test_filters_narrow_the_list(
    client: Client, team: Team, query: dict[str, str], expected: set[str]
) -> None:
    key, attempts = team.keys["own"], [{"status": 503, "provider_name": "First"}]
    ask(key, "gen-bad", status=503, model="acme/other", attempts=attempts)
    ask(key, "gen-left", cancelled=True, session_id="session-1", attempts=attempts)

    names = {f"refused/{row.pk}": f"refused {name}" for name, row in team.refused.items()}
    if person := query.get("person"):
        query = {"person": team.people[person].public_id}
    assert {names.get(each, each) for each in read_all_pages(client, **query)} == expected


def test_a_person_of_another_tenant_has_no_requests_here(client: Client) -> None:
    strangers = make_team("theirs")

    for role in ("member", "admin", "operator"):
        assert not read_all_pages(client, person=strangers.people[role].public_id)


def test_an_answered_request_is_found_by_its_request_id(client: Client, team: Team) -> None:
    ask(team.keys["own"], "gen-own-id", detail={"request_id": "of-the-caller"})
    ask(make_team("theirs").keys["own"], "gen-theirs", detail={"request_id": "of-theirs"})

    assert read_all_pages(client, text="of-the-caller") == ["gen-own-id"]
    assert read_all_pages(client, text="of-theirs") == []


def test_what_the_url_cannot_mean_is_left_out(client: Client) -> None:
    odd = {"order": "nonsense", "cursor": "nonsense~asked~y", "period": "nonsense"}

    assert len(read_all_pages(client, **odd)) == 6


def test_refused_ones_are_found_by_their_request_id(client: Client, team: Team) -> None:
    row = team.refused["own"]
    hint = "Somebody can raise it with PATCH /api/v1/keys/{hash}, described at http://1.2.3.4/docs"
    FailedRequest.objects.filter(pk=row.pk).update(text=f"{row.text}. {hint}")

    assert read_all_pages(client, text=row.request_id) == [f"refused/{row.pk}"]
    # The list says why, too.
    listed = client.get(reverse("console:requests"), {"text": row.request_id}).text
    assert '<span class="cell-note">The key' in listed
    page = client.get(reverse("console:refused", args=[row.pk])).text
    assert "limit is reached" in page
    assert "you paid nothing" in page
    # What a program's author would call is for the API's answer.
    assert ("PATCH" in listed, "PATCH" in page) == (False, False)


@pytest.mark.parametrize("tag", ["team=blue", "team"])
def test_requests_are_found_by_a_tag(client: Client, team: Team, tag: str) -> None:
    ask(team.keys["own"], "gen-tagged", detail={"tags": {"team": "blue"}})
    ask(team.keys["own"], "gen-other", detail={"tags": {"step": "blue"}})
    FailedRequest.objects.filter(pk=team.refused["own"].pk).update(tags={"team": "blue"})

    found = read_all_pages(client, tag=tag)

    assert set(found) == {"gen-tagged", f"refused/{team.refused['own'].pk}"}


def test_a_csv_has_the_list_with_money_in_full(client: Client, team: Team) -> None:
    ask(team.keys["own"], "gen-odd", external_user="=1+1")

    answer = client.get(reverse("console:requests"), {"csv": "1", "text": "gen-odd"})

    (row,) = csv.DictReader(io.StringIO(answer.text))
    assert answer["Content-Type"].startswith("text/csv")
    assert (row["Id"], row["Cost (USD)"], row["Duration (ms)"]) == ("gen-odd", "0.0000044", "90")
    assert row["End user"] == "'=1+1"


def test_a_live_list_is_made_again_only_when_it_changed(client: Client, team: Team) -> None:
    live = reverse("console:requests") + "?part=rows"
    condition = {"If-None-Match": client.get(live).headers["ETag"]}
    assert client.get(live, headers=condition).status_code == 304
    assert client.get(f"{live}&model=other", headers=condition).status_code == 200

    ask(team.keys["own"], "gen-new")

    assert "gen-new" in list_ids(client.get(live, headers=condition).text)


def test_a_lost_request_is_lost_everywhere(client: Client, team: Team) -> None:
    row = ask(team.keys["own"], "gen-lost", lost=True, attempts=[])

    assert set(read_all_pages(client, outcome="lost")) == {"gen-lost"}
    for outcome in ("answered", "retried", "failed", "cancelled"):
        assert "gen-lost" not in read_all_pages(client, outcome=outcome)
    page = client.get(reverse("console:request", args=[row.pk])).text
    assert ">lost<" in page
    assert "the gateway stopped before the request was booked".casefold() in page.casefold()


def test_a_model_s_id_finds_that_model_alone(client: Client, team: Team) -> None:
    provider = make_provider("acme")
    for slug in ("acme/one", "acme/one-mini"):
        make_model(slug, provider)
    ask(team.keys["own"], "gen-mini", model="acme/one-mini")

    assert "gen-mini" not in read_all_pages(client, model="acme/one")
    assert "gen-mini" in read_all_pages(client, model="acme/on")


@pytest.mark.parametrize(
    ("value", "cell"), [("-1+1", "'-1+1"), (" =1", "' =1"), (-1.5, "-1.5"), ("plain", "plain")]
)
def test_words_in_a_csv_are_no_formulas(value: Any, cell: str) -> None:
    assert plain_value(value) == cell
