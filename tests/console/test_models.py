"""The catalogue of models for people."""

import re
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from django.urls import reverse

from accounts.models import Account
from console.charts import line_chart
from console.queries.endpoint_health import load_health_history
from routing.catalogue.models import Model, Provider
from routing.catalogue.snapshot import catalogue
from routing.statistics.models import EndpointSample
from tests.console.people import Team
from tests.support.operations import endpoint

pytestmark = [pytest.mark.django_db, pytest.mark.both]


@pytest.fixture(autouse=True)
def models() -> list[Model]:
    """`acme/a` and `acme/b`, the second at half the price and of a provider of its own."""
    made = []
    for name, price in (("a", "0.000002"), ("b", "0.000001")):
        provider = Provider.objects.create(
            slug=f"from-{name}", name=name, base_url="http://x/v1", collects_data=name == "a"
        )
        model = Model.objects.create(
            slug=f"acme/{name}",
            canonical_slug=f"acme/{name}",
            name=f"Model {name}",
            created=1_767_225_600,
            input_modalities=["text"],
            output_modalities=["text"],
        )
        endpoint(model, provider, pricing={"prompt": price, "completion": "0.00000125"})
        made.append(model)
    catalogue.forget()
    return made


def list_ids(text: str) -> list[str]:
    return re.findall(r'href="/console/models/([^"]+)"', text)


def test_models_are_listed_with_prices_per_million(team: Team) -> None:
    client, path = team.client("member"), reverse("console:models")

    page = client.get(path, {"order": "in"}).text
    assert list_ids(page) == ["acme/b", "acme/a"]
    assert ("$2.00" in page, "$1.25" in page) == (True, True)
    assert list_ids(client.get(path, {"order": "-in"}).text) == ["acme/a", "acme/b"]
    assert list_ids(client.get(path, {"text": "MODEL /A"}).text) == ["acme/a"]
    assert "Nothing fits this search" in client.get(path, {"text": "none"}).text
    for query, ids in (
        ({"providers": "from-a"}, ["acme/a"]),
        ({"max_price": "1"}, ["acme/b"]),
        ({"input_modalities": "audio"}, []),
        ({"policy": "zdr"}, []),
        ({"policy": "private", "text": "b"}, ["acme/b"]),
    ):
        assert list_ids(client.get(path, query).text) == ids
    assert client.get(path, {"max_price": "cheap"}).status_code == 400


def test_models_that_the_account_may_not_call_are_not_there(team: Team) -> None:
    Account.objects.filter(pk=team.account.pk).update(ignored_providers=["from-a"])
    client = team.client("admin")

    assert list_ids(client.get(reverse("console:models")).text) == ["acme/b"]
    assert client.get(reverse("console:model", args=["acme/a"])).status_code == 404
    Account.objects.filter(pk=team.account.pk).update(
        ignored_providers=None, allowed_models=["acme/a"]
    )
    assert list_ids(client.get(reverse("console:models")).text) == ["acme/a"]
    assert client.get(reverse("console:model", args=["acme/b"])).status_code == 404


def test_a_model_has_endpoints_charts_and_lines_to_paste(team: Team, models: list[Model]) -> None:
    path = reverse("console:model", args=["acme/a"])
    assert "No charts yet" in team.client("member").get(path).text
    started = datetime.now(UTC) - timedelta(minutes=10)
    EndpointSample.objects.create(
        endpoint=models[0].endpoints.get(),
        started_at=started,
        calls=4,
        errors=1,
        first_token_p50_ms=80,
        first_token_p90_ms=120,
    )

    page = team.client("member").get(path, {"period": "24h"}).text

    assert re.search(r'"values": \[(null, )*80.0(, null)*\]', page)
    assert re.search(r'"values": \[(null, )*75.0(, null)*\]', page)
    assert "http://testserver/api/v1/chat/completions" in page
    assert "ANTHROPIC_BASE_URL=&quot;http://testserver/api&quot;" in page
    assert "wire_api = &quot;responses&quot;" in page


def test_charts_of_a_week_have_no_gaps_and_say_the_day(
    models: list[Model],
) -> None:
    now = datetime(2026, 11, 10, 13, 5, tzinfo=UTC)
    row = models[0].endpoints.get()
    for hours, calls in ((1, 3), (1.5, 1), (30, 2)):
        started = now - timedelta(hours=hours)
        EndpointSample.objects.create(endpoint=row, started_at=started, calls=calls, errors=1)

    week = load_health_history([row.pk], now, timedelta(days=7))

    assert (week.label, len(week.stretches)) == ("7 days", 4 * 7 + 1)
    assert {b - a for a, b in pairwise(week.moments)} == {timedelta(hours=6)}
    assert [(each.started_at.day, each.calls) for each in week.stretches if each.calls] == [
        (9, 2),
        (10, 1),
        (10, 3),
    ]
    chart = line_chart(week.moments, [], unit="ms", step=week.step)
    assert (chart["by_hour"], chart["needs_date"]) == (True, True)
    # Older samples are deleted, and no title says otherwise.
    assert load_health_history([row.pk], now, timedelta(days=30)).label == "7 days"
    day = load_health_history([row.pk], now, timedelta(days=1))
    assert (day.label, len(day.stretches), day.stretches[-3].calls) == ("24 hours", 49, 3)
    chart = line_chart(day.moments, [], unit="ms", step=day.step)
    assert (chart["by_hour"], chart["needs_date"]) == (True, False)


def test_models_are_compared(team: Team, models: list[Model]) -> None:
    now = datetime.now(UTC)
    for days, errors in ((1, 1), (6, 0), (9, 10)):
        EndpointSample.objects.create(
            endpoint=models[0].endpoints.get(),
            started_at=now - timedelta(days=days),
            calls=10,
            errors=errors,
            rate_limited=0,
        )
    path = reverse("console:compare_models")

    text = team.client("member").get(path, {"model": ["acme/a", "acme/b", "acme/none"]}).text

    assert list_ids(text) == ["acme/a", "acme/b"]
    lines = re.findall(r'<th scope="row">([^<]+)</th>(.*?)</tr>', text)
    values = {label: re.findall(r"<td[^>]*>([^<]*)</td>", cells) for label, cells in lines}
    assert values["In, per million"] == ["$2.00", "$1.00"]
    # One of twenty calls failed.
    assert values["Uptime, 7 days"][0].startswith("95")
    assert "may call: acme/none" in text
    Account.objects.filter(pk=team.account.pk).update(ignored_providers=["from-a"])
    text = team.client("member").get(path, {"model": ["acme/a", "acme/b"]}).text
    assert list_ids(text) == ["acme/b"]
