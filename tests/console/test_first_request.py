"""Home before anything was answered: the newest request is there, refused ones as well."""

from datetime import timedelta

import pytest
from django.urls import reverse

from routing.metering.models import Generation
from routing.reports.models import FailedRequest
from tests.console.people import ask, make_team, refuse

pytestmark = [pytest.mark.django_db, pytest.mark.both]


def test_a_first_request_that_was_refused_is_told_until_one_is_answered() -> None:
    team = make_team("acme")
    key = team.keys["own"]
    Generation.objects.all().delete()
    FailedRequest.objects.all().delete()
    client, part = team.client("admin"), reverse("console:first_request")
    assert "Nothing has arrived yet" in client.get(part).text
    # What an answer broke off with is no refusal.
    refuse(key, generation_id="gen-failed")
    row = refuse(key, ago=timedelta(minutes=1), text="The key's limit is reached")

    for text in (client.get(part).text, client.get(reverse("console:home")).text):
        assert "It arrived, and was refused" in text
        assert "answered 402: The key&#x27;s limit is reached" in text
        assert reverse("console:refused", args=[row.pk]) in text

    ask(key, "gen-first", ago=timedelta(minutes=2))
    text = client.get(part).text
    assert reverse("console:request", args=["gen-first"]) in text
    assert "refused" not in text
