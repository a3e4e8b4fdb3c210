"""Providers that go down and come back, models that end or have no price: each told once."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from accounts.models import Account, ApiKey, Event
from accounts.services.keys import create_key
from accounts.services.organization import open_account
from routing.catalogue.models import Model, Provider
from routing.history.models import UsageHour, UsageLine
from routing.metering.models import Generation
from routing.serving.request.errors import UNPRICED
from routing.statistics.models import ProviderProbe
from routing.watching import (
    record_expiring_models,
    record_provider_health,
    record_unpriced_models,
)
from tests.support.operations import failed_request, generation

pytestmark = [pytest.mark.django_db, pytest.mark.both]
NOW = datetime.now(UTC)


@pytest.fixture
def account() -> Account:
    return open_account(name="acme")


@pytest.fixture
def key(account: Account) -> ApiKey:
    return create_key(account=account, name="ci", workspace=account.workspaces.get())[0]


@pytest.fixture
def provider() -> Provider:
    return Provider.objects.create(slug="acme", name="Acme", base_url="http://127.0.0.1:9/v1")


class Requests:
    """Requests of a key, one second after the other; each tried these statuses in turn."""

    def __init__(self, key: ApiKey) -> None:
        self.key, self.count = key, 0

    def ask(self, *statuses: int, is_byok: bool = False) -> None:
        self.count += 1
        tries = [
            {"status": status, "endpoint_id": "acme/fast", "is_byok": is_byok}
            for status in statuses
        ]
        generation(
            id=f"gen-{self.count}",
            account=self.key.account,
            workspace=self.key.workspace,
            api_key=self.key,
            created_at=NOW - timedelta(minutes=5) + timedelta(seconds=self.count),
            attempts=tries,
            status=statuses[-1] if statuses else 200,
            endpoint_tag="acme/fast",
            is_byok=is_byok,
        )


def kinds() -> list[str]:
    events = Event.objects.exclude(kind="key.created").order_by("at", "kind")
    return [event.kind for event in events]


def test_a_provider_is_down_once_and_back_once(provider: Provider, key: ApiKey) -> None:
    requests, told = Requests(key), []
    for statuses in ((200,), (502,), (524,), (503,), (429,), (200,), (503, 503)):
        requests.ask(*statuses)
        told.append(record_provider_health(now=NOW + timedelta(seconds=requests.count)))

    assert told == [0, 0, 1, 0, 0, 1, 1]
    assert kinds() == ["provider.down", "provider.up", "provider.down"]
    first = Event.objects.filter(kind="provider.down").earliest("at")
    assert "The last 2 tries failed, the newest with 524" in first.text


def test_a_provider_is_seen_to_die_among_many_requests_that_others_answer(
    provider: Provider, key: ApiKey
) -> None:
    requests = Requests(key)
    requests.ask(503, 503)
    one = {"status": 200, "endpoint_id": "other/fast", "is_byok": False}
    Generation.objects.bulk_create(
        Generation(
            id=f"gen-other-{number}",
            account=key.account,
            workspace=key.workspace,
            api_key=key,
            created_at=NOW,
            model="other/one",
            requested_model="other/one",
            endpoint_tag="other/fast",
            status=200,
            streamed=False,
            attempts=[one],
        )
        for number in range(2_100)
    )

    assert record_provider_health(now=NOW) == 1
    assert kinds() == ["provider.down"]


def test_own_credentials_and_answers_from_the_cache_say_nothing_of_a_provider(
    provider: Provider, key: ApiKey
) -> None:
    requests = Requests(key)
    requests.ask(503, 503, is_byok=True)
    assert record_provider_health(now=NOW) == 0
    requests.ask(503, 503)
    requests.ask()

    assert record_provider_health(now=NOW) == 1


def test_a_probe_says_that_a_provider_is_down_and_back(provider: Provider) -> None:
    provider.probe_interval_s = 10
    provider.save()
    probe = ProviderProbe.objects.create(provider=provider, at=NOW)
    told = []
    for ok in (True, False, False, True, True):
        probe.ok = ok
        probe.save()
        told.append(record_provider_health(now=NOW))

    assert told == [0, 1, 0, 1, 0]


def test_a_model_that_ends_is_told_to_who_uses_it_and_to_the_operator(
    account: Account, key: ApiKey
) -> None:
    other = open_account(name="other")
    ends = (NOW + timedelta(days=6)).date().isoformat()
    model = Model.objects.create(
        slug="acme/one", canonical_slug="acme/one-1", name="One", created=0, expiration_date=ends
    )
    use(key, model.canonical_slug)

    told = [record_expiring_models(now=NOW + timedelta(days=day)) for day in (-3, 0, 1)]

    assert told == [0, 2, 0]
    events = Event.objects.filter(kind="model.expiring")
    assert {event.account_id for event in events} == {account.pk, None}
    assert '"ci"' in events.get(account=account).text
    assert "acme" in events.get(account=None).text
    assert other.name not in events.get(account=None).text


def use(key: ApiKey, permaslug: str) -> None:
    """What the roll-up says of a key's requests."""
    named = {"model": permaslug, "permaslug": permaslug, "endpoint_tag": "acme"}
    blank = dict.fromkeys(
        ("variant", "provider_name", "app", "app_title", "origin", "finish_reason"), ""
    )
    assert key.workspace_id is not None
    line = UsageLine.objects.create(
        key="k",
        account_id=key.account_id,
        workspace_id=key.workspace_id,
        api_key_id=key.pk,
        context_length_bucket="",
        **named,
        **blank,
    )
    counts: dict[str, Any] = {
        field.name: 0
        for field in UsageHour._meta.concrete_fields
        if field.name not in ("id", "line_id", "account_id", "start")
    }
    UsageHour.objects.create(line_id=line.pk, account_id=key.account_id, start=NOW, **counts)


def test_a_model_without_a_price_is_told_once_a_month(account: Account, key: ApiKey) -> None:
    def refuse(reason: str) -> None:
        whose = {"account_id": account.pk, "api_key_id": key.pk}
        failed_request(NOW, **whose, requested_model="acme/new", status=404, reason=reason)

    refuse("no_endpoint")
    told = [record_unpriced_models(now=NOW)]
    for _ in range(2):
        refuse(UNPRICED)
        told.append(record_unpriced_models(now=NOW))

    assert told == [0, 1, 0]
    assert "acme/new" in Event.objects.get(kind="model.unpriced").title
