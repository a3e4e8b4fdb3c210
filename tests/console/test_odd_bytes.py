"""What no browser sends: PostgreSQL keeps no text with a NUL, so nothing is looked up by one."""

import pytest
from django.test import Client
from django.urls import reverse

from tests.console.people import Team
from tests.console.things import make_provider

pytestmark = [pytest.mark.django_db, pytest.mark.both]


@pytest.mark.parametrize(
    "path",
    [
        "/console/people/%00",
        "/console/providers/%00",
        "/console/requests/%00",
        "/console/providers/open/prices?text=%00",
        "/console/settings/audit?kind=a%00",
        "/console/keys?text=%00",
    ],
)
def test_an_address_with_a_nul_is_refused(team: Team, path: str) -> None:
    make_provider("open")

    assert team.client("operator").get(path).status_code == 400


def test_a_link_with_a_nul_is_refused_to_everybody(client: Client) -> None:
    assert client.get("/console/link/%00/x").status_code == 400


@pytest.mark.parametrize("kind", ["urlencoded", "multipart"])
def test_a_form_with_a_nul_is_refused(team: Team, kind: str) -> None:
    led = team.led
    client, path = team.client("lead"), reverse("console:change_members", args=[led.pk])
    form = {"to": "admin", "user": "a\0"}
    answer = (
        client.post(path, form)
        if kind == "multipart"
        else client.post(
            path, "to=admin&user=a%00", content_type="application/x-www-form-urlencoded"
        )
    )

    assert answer.status_code == 400
