"""What-if: what the rules of the form do, and refusals in words."""

from typing import Any

import pytest
from django.urls import reverse

from routing.catalogue.snapshot import catalogue
from routing.what_if.comparison import ALL_FAILED
from tests.console.people import Team, ask, make_team
from tests.console.things import make_model, make_provider
from tests.routing.test_what_if import row as replay_row

pytestmark = [pytest.mark.django_db, pytest.mark.both]


@pytest.fixture
def team() -> Team:
    """With a request that the second endpoint of its model answered, after the first had failed."""
    team = make_team("acme")
    make_model("acme/one", make_provider("first"), make_provider("second"))
    world = catalogue.current().models["acme/one"]
    then = replay_row(served="second", failed=("first",), world=world)
    facts: dict[str, Any] = {"model": "acme/one", "endpoint_tag": "second", "attempts": []}
    ask(team.keys["own"], "gen-then", trace=then.trace, **facts)
    return team


@pytest.mark.parametrize(
    ("rules", "told"),
    [
        ({"without_model": "acme/one"}, "no endpoint is left: a guardrail does not allow it"),
        ({"zdr": "on"}, "no endpoint is left: it retains data"),
        ({"denies_collection": "on"}, "no endpoint is left: it may keep or use the data"),
        ({"max_price_in": "0.0000001"}, "it costs more than the highest price allowed"),
    ],
)
def test_who_would_be_refused_is_told_in_words(
    team: Team, rules: dict[str, str], told: str
) -> None:
    page = team.client("lead").get(reverse("console:what_if"), {"sort": "", **rules}).text

    assert f"1: no endpoint is left: {told.removeprefix('no endpoint is left: ')}" in page
    assert "Filter by" not in page


def test_without_fallbacks_the_first_endpoint_alone_may_answer(team: Team) -> None:
    client, path = team.client("lead"), reverse("console:what_if")
    query = {"sort": "", "first": "first"}

    assert ALL_FAILED not in client.get(path, query).text
    assert f"1: {ALL_FAILED}" in client.get(path, query | {"no_fallbacks": "on"}).text


def test_a_ban_names_a_model_of_the_catalogue(team: Team) -> None:
    query = {"sort": "", "without_model": "acme/none"}
    page = team.client("lead").get(reverse("console:what_if"), query).text

    assert "No model of the catalogue has this id." in page
